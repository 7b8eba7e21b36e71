# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network of a server is changed over the NIC that is changed, with each network manager.

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

#: Scenarios of each run by server: starting emulated servers takes minutes, and all scenarios an hour. Molecule covers
#: systemd-networkd without bonds in each run.
SLICE = {("networkmanager", "static"): {"cut_off"}}
#: Two NICs become a bond; the server's address is moved to a bridge over it, the VMs get a bridge over a VLAN on it.
WANTED: dict[str, t.Any] = {
    "bonds": [{"name": "bond0", "ports": ["eth0", "eth1"]}],
    "vlans": [{"link": "bond0", "id": cables.VLAN}],
    "bridges": [{"name": "br-admin", "ports": ["bond0"]}, {"name": "br-vms", "ports": [f"bond0.{cables.VLAN}"], "address": "none"}],
}
#: The same with a port without peers, which is the active port of the bond.
CUT_OFF: dict[str, t.Any] = {
    "bonds": [{"name": "bond0", "ports": ["eth0", "eth2"], "primary": "eth2"}],
    "vlans": [],
    "bridges": [{"name": "br-admin", "ports": ["bond0"]}],
}
MADE = {"bond0", f"bond0.{cables.VLAN}", "br-admin", "br-vms"}


def servers_for(scenario: str) -> list[t.Any]:
    """Return the servers on which a scenario runs."""
    return [pytest.param(*server, id="-".join(server), marks=[] if scenario in SLICE.get(server, ()) else [pytest.mark.whole]) for server in FILES]


@pytest.fixture(name="server")
def fixture_server(manager: str, addressing: str, start: t.Callable[[str, str], Server]) -> Server:
    """Start the server of the test with its initial network."""
    return start(manager, addressing)


@pytest.mark.parametrize(("manager", "addressing"), servers_for("cut_off"))
def test_change_that_cuts_the_server_off_is_rolled_back(server: Server) -> None:
    before = server.addresses("eth0")
    play = Play(server, CUT_OFF, timeout=20)
    until(lambda: play.over or speaker(server) == "eth2", "the change comes alive")
    heard = hears(server)
    output = play.end()
    assert not heard, f"the change was to cut the server off: {output}"
    assert play.code != 0
    # with DHCP the missing address is detected before the timeout
    assert "the old configuration is active" in output or "the old one is restored within" in output, output
    until(lambda: server.addresses("eth0"), "the old configuration comes back")
    unchanged(server, before)


@pytest.mark.parametrize(("manager", "addressing"), servers_for("killed"))
def test_killed_dead_man_rolls_the_change_back(server: Server) -> None:
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
def test_power_loss_during_the_trial_rolls_the_change_back(server: Server) -> None:
    before = server.addresses("eth0")
    result = server.network(**WANTED, confirm_timeout=600)
    assert result.get("changed") and result.get("trial"), result
    server.off()
    server.on()
    unchanged(server, before)


@pytest.mark.parametrize(("manager", "addressing"), servers_for("kept"))
def test_confirmed_change_is_kept(server: Server) -> None:
    before = server.addresses("eth0")
    preview = server.network(check_mode=True, **WANTED)
    assert preview.get("changed") and "+++ after" in preview["shown"], preview
    unchanged(server, before)
    # all in one change, or the bridges over an existing bond
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
    """A running ``change.yml``."""

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
        """Wait for its end; return its output."""
        self._thread.join()
        return self._output

    def _run(self, server: Server, extra: str) -> None:
        done = server.ansible("ansible-playbook", str(cables.HERE / "change.yml"), "--extra-vars", extra, check=False)
        self.code, self._output = done.returncode, done.stdout


def until(condition: t.Callable[[], t.Any], what: str, patience: float = 180.0) -> None:
    """Wait until a condition is met."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {patience:.0f} s"
        # do not load the emulated machine with requests
        time.sleep(1)


def hears(server: Server, address: str | None = None) -> bool:
    """Whether the server answers a ping of the operator."""
    return cables.commands(server.wire, ["ping", "-c", "3", "-i", "0.3", "-W", "2", address or server.address]).returncode == 0


def speaker(server: Server) -> str | None:
    """Return the active port of the bond."""
    active = server.state().get("bond0", {}).get("linkinfo", {}).get("info_data", {}).get("active_slave")
    return str(active) if active else None


def unchanged(server: Server, before: list[str]) -> None:
    """Check that the server has its initial network."""
    until(server.answers, "the server answers")
    assert server.addresses("eth0") == before
    left = MADE & set(server.state())
    assert not left, f"left behind: {left}"
    assert "master" not in server.state()["eth0"]


def changed(server: Server, before: list[str]) -> None:
    """Check that the server has the requested network, and that frames of a VM on the VLAN bridge are tagged."""
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
    """Check that a second run changes nothing."""
    for check_mode in (True, False):
        result = server.network(check_mode=check_mode, **WANTED)
        assert result.get("changed") is False and result.get("trial") is False, result
