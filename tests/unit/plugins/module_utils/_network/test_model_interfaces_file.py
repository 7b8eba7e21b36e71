# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._network.model_interfaces_file import has_stanza, methods, sourced_patterns, stanzas

INTERFACES = """# This file describes the network interfaces
source /etc/network/interfaces.d/*
source-directory interfaces.more

auto lo eno1
iface lo inet loopback

# admin
iface eno1 inet static
    address 192.0.2.11/24
    up ip route add \\
        198.51.100.0/24 via 192.0.2.2
iface eno1 inet6 auto
"""


def test_stanzas_and_methods():
    assert has_stanza(INTERFACES, "eno1") and not has_stanza(INTERFACES, "eno")
    assert methods(INTERFACES, "eno1") == [("inet", "static"), ("inet6", "auto")]
    assert methods(INTERFACES, "eno2") == []


def test_what_interfaces_take_in():
    assert sourced_patterns(INTERFACES) == ["/etc/network/interfaces.d/*", "interfaces.more"]


def test_groups_begin_where_a_stanza_or_a_remark_does():
    groups = stanzas(INTERFACES)
    assert [group[0].split()[0] for group in groups] == ["#", "source", "source-directory", "auto", "iface", "#", "iface", "iface"]
    assert "198.51.100.0/24" in groups[6][2] and groups[6][2].split()[0] == "up"
