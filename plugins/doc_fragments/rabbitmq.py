# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the RabbitMQ node of a host is found."""

from __future__ import annotations


class ModuleDocFragment:
    """The node and its unit, and its cookie where a module compares it."""

    NODE = r"""
options:
  node:
    description: The Erlang name of the node of this host, for example V(rabbit@metal1).
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
    description: The Erlang cookie the members share. It is never told, only compared.
    type: str
"""
