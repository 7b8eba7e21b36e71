# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server with two NICs, and what the tests of all network managers make of it."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Change, Layout, Link
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_request import parse
from ansible_collections.reduced.footprint.plugins.module_utils._network.plan_network import layout

ADMIN = "192.0.2.11/24"
LINKS = {"eno1": Link("eno1", 2, "02:00:00:00:00:01", addresses=(ADMIN,)), "eno2": Link("eno2", 3, "02:00:00:00:00:02")}
#: Two NICs bonded; the address on a bridge over them, a bridge for guests over a VLAN.
CHAIN = {
    "bonds": [{"name": "bond0", "ports": ["eno1", "eno2"], "primary": "eno1"}],
    "vlans": [{"link": "bond0", "id": 100}],
    "bridges": [{"name": "br-admin", "ports": ["bond0"], "mtu": 9000}, {"name": "br-vms", "ports": ["bond0.100"], "address": "none"}],
}
ONE = {"bridges": [{"name": "br-admin", "ports": ["eno1"]}]}


def layout_of(wanted, profiles, links=None) -> Layout:
    """What has to be made of the server's links."""
    lists = {key: wanted.get(key, []) for key in ("bonds", "vlans", "bridges")}
    return layout(parse(**lists), links or LINKS, profiles)


def golden(change: Change) -> str:
    """A change as one text: the files that make it last in their order, then the commands."""
    files = [f"==> {path} <==\n{text}" for path, text in change.keep.items()]
    commands = [f"{step}: {' '.join(argv)}" for step in ("apply", "revert", "confirm") for argv in getattr(change, step)]
    return "\n".join([*files, *commands]) + "\n"
