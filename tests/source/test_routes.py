# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The routes of a source that is set aside and returns, with the real ``ip`` in a network namespace."""

from __future__ import annotations

import os
import subprocess
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_network
from tests.support import leftovers

NAMESPACE = f"r{os.getpid() % 100000}"
ADDRESS, TEMPORARY = "10.9.0.2", "10.9.0.3"
ROUTES = [
    # providers route all traffic to a gateway outside the network of the server
    "default via 172.31.1.1 dev e0 onlink",
    "192.168.7.0/24 via 10.9.0.1 dev e0 src 10.9.0.2 metric 50",
    "192.168.8.0/24 dev e0 scope link src 10.9.0.2",
    "192.168.9.0/24 via 192.168.8.1 dev e0 mtu 1400",
    "192.168.10.0/24 nexthop via 10.9.0.1 dev e0 weight 1 nexthop via 10.9.0.254 dev e0 weight 2",
    "default via 10.9.0.1 dev e0 table 100",
    "blackhole 192.168.11.0/24",
    "-6 default via fe80::1 dev e0 metric 1024",
    "-6 2001:db8:7::/64 via 2001:db8::1 dev e0 metric 1024",
]


@pytest.fixture(name="run")
def fixture_run(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[t.Callable[..., t.Any]]:
    """A card with the admin address and all routes; the functions work in its namespace."""
    real = io_network.run

    def run(argv: list[str], **more: t.Any) -> t.Any:
        return real(["ip", "netns", "exec", NAMESPACE, *argv], **more)

    leftovers.note("netns", NAMESPACE)
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    try:
        monkeypatch.setattr(io_network, "run", run)
        run(["ip", "link", "add", "e0", "type", "veth", "peer", "name", "switch"])
        for each in ("e0", "switch"):
            run(["ip", "link", "set", each, "up"])
        # as the source sets it before it is set aside
        run(["sysctl", "-qw", "net.ipv4.conf.e0.promote_secondaries=1"])
        run(["ip", "address", "add", f"{ADDRESS}/24", "dev", "e0"])
        run(["ip", "address", "add", "2001:db8::2/64", "dev", "e0", "nodad"])
        for route in ROUTES:
            run(["ip", *(["-6"] if "-6" in route else []), "route", "add", *route.removeprefix("-6 ").split()])
        yield run
    finally:
        subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)


def test_all_routes_return_with_the_address(run: t.Callable[..., t.Any]) -> None:
    """Without the admin address, those that need it are gone; with it, they are as before."""
    known = io_network.routes()
    assert len(known) == len(ROUTES)
    run(["ip", "address", "add", f"{TEMPORARY}/24", "dev", "e0"])
    io_network.drop([ADDRESS, "2001:db8::2"])
    assert len(io_network.routes()) < len(known)
    run(["ip", "address", "add", f"{ADDRESS}/24", "dev", "e0"])
    run(["ip", "address", "add", "2001:db8::2/64", "dev", "e0", "nodad"])
    io_network.put_routes(known)
    assert io_network.routes() == known


def test_a_source_that_is_set_aside_reaches_routed_networks(run: t.Callable[..., t.Any]) -> None:
    """Routes from the admin address continue from the temporary one."""
    known = io_network.routes()
    run(["ip", "address", "add", f"{TEMPORARY}/24", "dev", "e0"])
    io_network.drop([ADDRESS])
    io_network.put_routes(known)
    expected = {
        "198.51.100.1": " via 172.31.1.1",
        "192.168.7.1": " via 10.9.0.1",
        "192.168.8.9": "",
        "192.168.9.1": " via 192.168.8.1",
    }
    for target, gateway in expected.items():
        assert run(["ip", "route", "get", target]).stdout.startswith(f"{target}{gateway} dev e0 src {TEMPORARY} ")
    # and back: the temporary address is removed as the source removes it
    run(["ip", "address", "add", f"{ADDRESS}/24", "dev", "e0"])
    io_network.drop([TEMPORARY])
    io_network.put_routes(known)
    assert io_network.routes() == known


def test_restoring_routes_twice_changes_nothing(run: t.Callable[..., t.Any]) -> None:
    """The guard restores them at any time."""
    known = io_network.routes()
    io_network.put_routes(known)
    io_network.put_routes(known)
    assert io_network.routes() == known
    assert run(["ip", "route", "show", "default"]).stdout.count("default") == 1
