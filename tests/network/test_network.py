# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server's network is changed over the very NIC that is changed, under each network manager.

The tests of one server follow each other: what goes wrong comes first and has to leave nothing behind.
``--whole`` runs all stories with all managers, otherwise a slice of them runs.
"""

from __future__ import annotations

import json
import threading
import time
import typing as t

import pytest
import wire as cables
from seeds import FILES
from server import Server

#: What is told of whom in every run: starting emulated servers takes minutes, and all of it an hour. Molecule tells the same of
#: systemd-networkd without bonds in each run.
SLICE = {("networkmanager", "static"): {"deaf"}}
#: Two NICs become a bond; the server's address moves to a bridge over it, the VMs get a bridge over a VLAN on it.
WANTED: dict[str, t.Any] = {
    "bonds": [{"name": "bond0", "ports": ["eth0", "eth1"]}],
    "vlans": [{"link": "bond0", "id": cables.VLAN}],
    "bridges": [{"name": "br-admin", "ports": ["bond0"]}, {"name": "br-vms", "ports": [f"bond0.{cables.VLAN}"], "address": "none"}],
}
#: The same with a port that leads to nobody, and that port is the one that speaks.
DEAF: dict[str, t.Any] = {
    "bonds": [{"name": "bond0", "ports": ["eth0", "eth2"], "primary": "eth2"}],
    "vlans": [],
    "bridges": [{"name": "br-admin", "ports": ["bond0"]}],
}
MADE = {"bond0", f"bond0.{cables.VLAN}", "br-admin", "br-vms"}


def servers_for(story: str) -> list[t.Any]:
    """The servers on which a story runs."""
    return [pytest.param(*server, id="-".join(server), marks=[] if story in SLICE.get(server, ()) else [pytest.mark.whole]) for server in FILES]


@pytest.fixture(name="server")
def fixture_server(manager: str, addressing: str, start: t.Callable[[str, str], Server]) -> Server:
    """The server of the test, with the network it was installed with."""
    return start(manager, addressing)


@pytest.mark.parametrize(("manager", "addressing"), servers_for("deaf"))
def test_a_change_that_cuts_the_server_off_goes_away_by_itself(server: Server) -> None:
    before = server.addresses("eth0")
    play = Play(server, DEAF, timeout=20)
    until(lambda: play.over or speaker(server) == "eth2", "the change comes alive")
    heard = hears(server)
    output = play.end()
    assert not heard, f"the change was to cut the server off: {output}"
    assert play.code != 0
    # with DHCP the address is missed before the time is over
    assert "the old configuration is active" in output or "the old one is restored within" in output, output
    until(lambda: server.addresses("eth0"), "the old configuration comes back")
    unchanged(server, before)


@pytest.mark.parametrize(("manager", "addressing"), servers_for("killed"))
def test_a_killed_dead_man_takes_the_change_back(server: Server) -> None:
    before = server.addresses("eth0")
    result = server.network(**WANTED, confirm_timeout=600)
    assert result.get("changed") and result.get("trial"), result
    assert server.addresses("br-admin") == before
    units = server.look("systemctl", "list-units", "--plain", "--no-legend", "reduced-footprint-*").split()
    unit = next(word for word in units if word.endswith(".service"))
    server.look("systemctl", "kill", "--kill-whom=all", "--signal=KILL", unit)
    until(lambda: server.addresses("eth0"), "the old configuration comes back")
    server.wait()
    unchanged(server, before)
    late = server.network(**WANTED, state="confirmed")
    assert "the old configuration is active" in late["error"]["message"], late


@pytest.mark.parametrize(("manager", "addressing"), servers_for("power"))
def test_the_power_goes_in_the_middle_of_the_trial(server: Server) -> None:
    before = server.addresses("eth0")
    result = server.network(**WANTED, confirm_timeout=600)
    assert result.get("changed") and result.get("trial"), result
    server.off()
    server.on()
    unchanged(server, before)


@pytest.mark.parametrize(("manager", "addressing"), servers_for("kept"))
def test_a_change_that_is_confirmed_stays(server: Server) -> None:
    before = server.addresses("eth0")
    preview = server.network(check_mode=True, **WANTED)
    assert preview.get("changed") and "+++ after" in preview["shown"], preview
    unchanged(server, before)
    # at once, or the bridges over a bond that is kept already
    for wanted in (WANTED,) if server.seed.addressing == "static" else ({**WANTED, "vlans": [], "bridges": []}, WANTED):
        play = Play(server, wanted, timeout=120)
        output = play.end()
        assert play.code == 0, output
    changed(server, before)
    again(server)
    server.restart()
    changed(server, before)
    again(server)


class Play:
    """``change.yml`` at work."""

    def __init__(self, server: Server, wanted: dict[str, t.Any], timeout: int) -> None:
        extra = json.dumps({"wanted": wanted, "seconds": timeout})
        self.code: int | None = None
        self._output = ""
        self._thread = threading.Thread(target=self._run, args=(server, extra))
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def end(self) -> str:
        """Wait for its end; what it said."""
        self._thread.join()
        return self._output

    def _run(self, server: Server, extra: str) -> None:
        done = server.ansible("ansible-playbook", str(cables.HERE / "change.yml"), "--extra-vars", extra, check=False)
        self.code, self._output = done.returncode, done.stdout


def until(condition: t.Callable[[], t.Any], what: str, patience: float = 180.0) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {patience:.0f} s"
        # an emulated machine has better things to do than to answer
        time.sleep(1)


def hears(server: Server, address: str | None = None) -> bool:
    """Whether the operator hears the server."""
    return cables.commands(server.wire, ["ping", "-c", "3", "-i", "0.3", "-W", "2", address or server.address]).returncode == 0


def speaker(server: Server) -> str | None:
    """The port over which the bond speaks."""
    told = server.state().get("bond0", {}).get("linkinfo", {}).get("info_data", {}).get("active_slave")
    return str(told) if told else None


def unchanged(server: Server, before: list[str]) -> None:
    """The server is as it was installed."""
    until(server.answers, "the server answers")
    assert server.addresses("eth0") == before
    left = MADE & set(server.state())
    assert not left, f"left behind: {left}"
    assert "master" not in server.state()["eth0"]


def changed(server: Server, before: list[str]) -> None:
    """The server is as it was asked for, and what a VM sends over the VLAN bridge is tagged."""
    until(server.answers, "the server answers")
    state = server.state()
    assert server.addresses("br-admin") == before
    assert not server.addresses("eth0") and not server.addresses("br-vms")
    assert {name: state[name].get("master") for name in ("eth0", "eth1", "bond0", f"bond0.{cables.VLAN}")} == {
        "eth0": "bond0", "eth1": "bond0", "bond0": "br-admin", f"bond0.{cables.VLAN}": "br-vms",
    }  # fmt: skip
    for argv in (
        "ip netns add vm", "ip link add vm0 type veth peer name vm1 netns vm", "ip link set vm0 master br-vms up",
        f"ip -n vm address add {cables.VLAN_GUEST}/24 dev vm1", "ip -n vm link set vm1 up",
    ):  # fmt: skip
        server.ssh(*argv.split())
    try:
        until(lambda: hears(server, cables.VLAN_GUEST), "the VM on the VLAN answers")
    finally:
        server.ssh("ip", "netns", "delete", "vm")


def again(server: Server) -> None:
    """A second run finds nothing to do."""
    for check_mode in (True, False):
        result = server.network(check_mode=check_mode, **WANTED)
        assert result.get("changed") is False and result.get("trial") is False, result
