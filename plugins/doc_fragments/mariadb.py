# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options for the MariaDB server of a host."""

from __future__ import annotations


class ModuleDocFragment:
    """The systemd unit and the data directory of the server."""

    UNIT = r"""
options:
  unit:
    description: The server's systemd unit.
    type: str
    default: mariadb.service
"""

    DATADIR = r"""
options:
  datadir:
    description: The server's data directory.
    type: path
    default: /var/lib/mysql
"""
