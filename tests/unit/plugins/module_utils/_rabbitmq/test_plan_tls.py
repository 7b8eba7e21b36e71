# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""TLS of a RabbitMQ member, read from its configuration files."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_tls import between_nodes, listens


@pytest.mark.parametrize(
    ("text", "active", "speaks"),
    [
        ("", False, None),
        ("# listeners.ssl.1 = 5671\n", False, None),
        ("vm_memory_high_watermark.relative = 0.5\n", True, "off"),
        ("listeners.tcp.1 = 192.0.2.1:5672\n", False, "off"),
        ("listeners.tcp = none\nlisteners.ssl.1 = 192.0.2.1:5671\n", True, "on"),
        # a witness has no clients
        ("listeners.tcp = none\n", True, None),
        ("listeners.tcp.1 = 192.0.2.1:5672\n  listeners.ssl.default = 5671\n", True, "both"),
    ],
)
def test_clients(text, active, speaks):
    assert listens(text, active) == speaks


@pytest.mark.parametrize(
    ("text", "active", "speaks"),
    [
        ("", False, None),
        ("# Defaults to rabbit.\n#NODENAME=rabbit\n", False, None),
        ("#NODENAME=rabbit\n", True, "off"),
        ("# Managed by Ansible: reduced.footprint.rabbitmq\nNODENAME=rabbit@c1\n", False, "off"),
        ("SERVER_ADDITIONAL_ERL_ARGS='-proto_dist inet_tls'\n", True, "on"),
    ],
)
def test_peers(text, active, speaks):
    assert between_nodes(text, active) == speaks
