# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a server is reached, as far as its variables show it."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.plan_places import place


@pytest.mark.parametrize(
    "variables, found",
    [
        ({}, "metal1"),
        ({"ansible_host": "Metal1.Example.com"}, "metal1.example.com"),
        ({"ansible_host": "2001:0db8::0b"}, "2001:db8::b"),
        ({"ansible_host": "[2001:db8::b]", "ansible_port": 2222}, "2001:db8::b port 2222"),
        ({"ansible_host": "192.0.2.11", "ansible_port": "22"}, "192.0.2.11"),
        ({"ansible_host": "192.0.2.11", "ansible_connection": "ssh"}, "192.0.2.11"),
        # other machines may be behind these
        ({"ansible_host": "192.0.2.11", "ansible_connection": "local"}, ""),
        ({"ansible_host": "192.0.2.11", "ansible_ssh_common_args": "-o ProxyJump=gate"}, ""),
        ({"ansible_host": "127.0.0.1", "ansible_port": 2201}, ""),
        ({"ansible_host": "localhost"}, ""),
        ({"ansible_host": "{{ net }}.11"}, ""),
    ],
)
def test_place(variables, found):
    assert place("metal1", variables) == found
