# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Encryption of RabbitMQ, pure: what a member speaks with clients and peers by its configuration files."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"^\s*listeners\.tcp\.\S+\s*=", re.MULTILINE)
_ENCRYPTED = re.compile(r"^\s*listeners\.ssl\.\S+\s*=", re.MULTILINE)
_OURS = "reduced.footprint"


def listens(configuration: str, at_work: bool) -> str | None:
    """What clients are spoken to with: ``off`` (plain text), ``on`` (TLS) or ``both``; ``None`` for a member still to be made.

    :arg configuration: the text of ``rabbitmq.conf``.
    :arg at_work: the node runs or is in a cluster, so without a word about listeners it has the server's own, plain text.
    """
    if _ENCRYPTED.search(configuration):
        return "both" if _PLAIN.search(configuration) else "on"
    return "off" if at_work or _PLAIN.search(configuration) else None


def between_nodes(environment: str, at_work: bool) -> str | None:
    """What peers are spoken to with: ``off`` or ``on``; ``None`` for a member still to be made.

    :arg environment: the text of ``rabbitmq-env.conf``.
    :arg at_work: the node runs or is in a cluster.
    """
    if "inet_tls" in environment:
        return "on"
    return "off" if at_work or _OURS in environment else None
