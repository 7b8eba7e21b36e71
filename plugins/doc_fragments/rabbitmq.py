# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options for the RabbitMQ node of a host."""

from __future__ import annotations


class ModuleDocFragment:
    """The node and its systemd unit, and the Erlang cookie."""

    NODE = r"""
options:
  node:
    description: Erlang node name of this host, for example V(rabbit@metal1).
    type: str
    required: true
  unit:
    description: The server's systemd unit.
    type: str
    default: rabbitmq-server.service
"""

    COOKIE = r"""
options:
  cookie:
    description: Erlang cookie shared by the members. It is only compared and never returned.
    type: str
"""
