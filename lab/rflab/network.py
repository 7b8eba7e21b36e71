# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The admin network: a separate bridge for each lab, with a free network.

No routes, address translation or firewall rules are created. Other interfaces are only read to check that the network is free.
"""

from __future__ import annotations

import ipaddress
import json
import pathlib
import typing as t

from . import registry
from .say import LabError, run
from .settings import Lab


def _ip(*argv: str) -> list[dict[str, t.Any]]:
    text = run(["ip", "-json", *argv]).stdout.strip()
    return json.loads(text) if text else []


def interfaces() -> list[str]:
    return [path.name for path in pathlib.Path("/sys/class/net").iterdir()]


def in_use() -> list[tuple[ipaddress.IPv4Network, str]]:
    """Return every network of an address or a route of this machine, with a description."""
    found = []
    for link in _ip("-4", "address", "show"):
        for address in link.get("addr_info", []):
            own = ipaddress.IPv4Network(f"{address['local']}/{address['prefixlen']}", strict=False)
            found.append((own, f"{link['ifname']} has {address['local']}/{address['prefixlen']}"))
    for route in _ip("-4", "route", "show", "table", "all"):
        if route.get("dst", "default") == "default" or route.get("type") in ("broadcast", "multicast"):
            continue
        theirs = ipaddress.IPv4Network(route["dst"], strict=False)
        # A route with prefix length 1 or less is half of a default route.
        if theirs.prefixlen > 1:
            found.append((theirs, f"a route to {route['dst']} uses {route.get('dev') or route.get('gateway') or '?'}"))
    return found


def check_free(lab: Lab) -> None:
    """Check that the network and the name of the bridge are free.

    :raises LabError: with the interface, route or lab that uses them.
    """
    ours = ipaddress.IPv4Network(lab.cidr)
    if lab.bridge in interfaces():
        raise LabError(f"an interface named {lab.bridge} already exists and does not belong to this lab",
                       f"remove it if it is not needed (ip link del {lab.bridge}), or set LAB_NAME")
    for theirs, words in in_use() + registry.networks(but=lab.title):
        if theirs.overlaps(ours):
            raise LabError(f"{lab.cidr} is in use: {words}", "set LAB_NETWORK to a free /24, like LAB_NETWORK=10.214.0.0/24")


def make_bridge(lab: Lab) -> None:
    # its own MAC; otherwise the bridge has that of one of its ports, and another one when that machine loses its power
    run(["ip", "link", "add", "name", lab.bridge, "address", "02:52:46:00:00:01", "type", "bridge", "stp_state", "0", "forward_delay", "0"])
    run(["ip", "address", "add", f"{lab.host_address}/24", "dev", lab.bridge])
    run(["ip", "link", "set", lab.bridge, "up"])


def attach(lab: Lab, nic: str) -> None:
    run(["ip", "link", "set", nic, "master", lab.bridge, "up"])


def remove_all(lab: Lab) -> list[str]:
    """Remove the bridge and every ``<tag>-...`` interface of this lab."""
    gone = []
    for name in interfaces():
        if name == lab.bridge or name.startswith(f"{lab.tag}-"):
            if run(["ip", "link", "del", name], check=False).returncode == 0:
                gone.append(name)
    return gone
