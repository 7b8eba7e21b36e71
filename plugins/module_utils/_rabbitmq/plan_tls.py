# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read from RabbitMQ's configuration files whether a member uses TLS with clients and peers, without I/O."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"^\s*listeners\.tcp\.\S+\s*=", re.MULTILINE)
_ENCRYPTED = re.compile(r"^\s*listeners\.ssl\.\S+\s*=", re.MULTILINE)
_NONE = re.compile(r"^\s*listeners\.tcp\s*=\s*none", re.MULTILINE)
_MANAGED = "reduced.footprint"


def listens(configuration: str, active: bool) -> str | None:
    """Return what the member offers clients: ``off`` (plain text), ``on`` (TLS) or ``both``; ``None`` if it is not configured yet or has no clients.

    :arg configuration: content of ``rabbitmq.conf``.
    :arg active: the node is running or in a cluster; without listeners in the file it uses the default, plain text.
    """
    if _ENCRYPTED.search(configuration):
        return "both" if _PLAIN.search(configuration) else "on"
    return "off" if _PLAIN.search(configuration) or (active and not _NONE.search(configuration)) else None


def between_nodes(environment: str, active: bool) -> str | None:
    """Return whether the member uses TLS with its peers: ``off`` or ``on``; ``None`` if it is not configured yet.

    :arg environment: content of ``rabbitmq-env.conf``.
    :arg active: the node is running or in a cluster.
    """
    if "inet_tls" in environment:
        return "on"
    return "off" if active or _MANAGED in environment else None
