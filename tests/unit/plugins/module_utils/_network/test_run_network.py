# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network import run_network
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Change, Link, Profile
from ansible_collections.reduced.footprint.plugins.module_utils._network.run_network import NetworkRequest, bring
from tests.support.chain import ADMIN, CHAIN, LINKS, ONE

NETWORKD = Profile("networkd", "/etc/systemd/network/10-eno1.network", "[Match]\nName=eno1\n[Network]\nAddress=192.0.2.11/24\n", True)
INTERFACES = {"/etc/network/interfaces": "auto eno1\niface eno1 inet static\n  address 192.0.2.11/24\n"}
NETPLAN = {"/etc/netplan/50.yaml": {"network": {"ethernets": {"eno1": {"addresses": [ADMIN]}}}}}
BY_NETPLAN = Profile("networkd", "/run/systemd/network/10-netplan-eno1.network", "[Network]\nAddress=192.0.2.11/24\n", True)


class FakeHost:
    """A host with eno1 and eno2 that remembers which modules of the kernel were asked for."""

    def __init__(self, eno1=NETWORKD, eno2=Profile(None), default=None, netplan=None):
        self.found = dict(LINKS)
        self.profiles = {"eno1": eno1, "eno2": eno2}
        self.default = default
        self.netplan = netplan or {}
        self.modules = []

    def links(self):
        return dict(self.found)

    def profile_of(self, link):
        return self.profiles.get(link.name, Profile(None))

    def default_manager(self):
        return self.default

    def need_module(self, name, check_mode):
        self.modules.append((name, check_mode))

    def need_files(self, packages):
        pass

    def interfaces_files(self):
        return INTERFACES

    def netplan_texts(self):
        return dict.fromkeys(self.netplan, "the text")

    def netplan_documents(self, texts):
        return self.netplan

    def netplan_text(self, content):
        return json.dumps(content)


class FakeTrial:
    """What is started comes up as it is wanted."""

    def __init__(self, host):
        self.host = host
        self.waiting = False
        self.lacking = None
        self.started = []

    def pending(self):
        return self.waiting

    def start(self, change, timeout):
        self.started.append((change, timeout))
        self.waiting = True

    def wait_until_live(self, layout, patience):
        for device in layout.devices:
            addresses = layout.links[device.inherits].addresses if device.inherits else ()
            lower = device.ports[0] if device.kind == "vlan" else None
            ports = () if lower else device.ports
            settings = {"id": 100, "mode": "active-backup", "primary": "eno1"}
            self.host.found[device.name] = Link(device.name, 9, "", device.kind, device.mtu or 1500, None, lower, ports, addresses, settings=settings)
        return self.lacking

    def confirm(self):
        was, self.waiting = self.waiting, False
        return was


def run(host, trial, wanted=ONE, check_mode=False, **more):
    return bring(NetworkRequest(**{**wanted, **more}), check_mode=check_mode, backend=host, trial=trial)


@pytest.fixture
def host():
    return FakeHost()


@pytest.fixture
def trial(host):
    return FakeTrial(host)


@pytest.mark.parametrize(
    "eno1, netplan, manager",
    [
        (NETWORKD, None, "networkd"),
        (Profile("ifupdown", "/etc/network/interfaces", "", True), None, "ifupdown"),
        (BY_NETPLAN, NETPLAN, "netplan"),
        (Profile("networkmanager"), NETPLAN, "netplan"),
        # netplan is there, and this NIC was taken out of its hands
        (NETWORKD, NETPLAN, "networkd"),
    ],
)
@pytest.mark.parametrize("wanted", [ONE, CHAIN])
def test_start_confirm_and_run_again(eno1, netplan, manager, wanted):
    host = FakeHost(eno1, netplan=netplan)
    trial = FakeTrial(host)
    rehearsed = run(host, trial, wanted, check_mode=True)
    assert trial.started == [] and all(check_mode for unused, check_mode in host.modules)
    result = run(host, trial, wanted)
    assert (result.changed, result.trial, result.managers, result.addresses["br-admin"]) == (True, True, [manager], [ADMIN])
    assert result == rehearsed and result.diff and trial.started[0][1] == 60
    assert trial.started[0][0].manager == manager
    confirmed = run(host, trial, wanted, state="confirmed")
    assert (confirmed.changed, confirmed.trial, confirmed.addresses) == (True, False, result.addresses)
    again = run(host, trial, wanted)
    assert (again.changed, again.trial, again.managers, again.diff, len(trial.started)) == (False, False, [], [], 1)
    assert not run(host, trial, wanted, state="confirmed").changed


@pytest.mark.parametrize("taken, words", [((), None), (("198.51.100.9/24",), "NetworkManager manages eno2")])
def test_a_spare_nic_that_netplan_left_to_its_renderer(taken, words):
    host = FakeHost(Profile("networkmanager"), Profile("networkmanager"), netplan=NETPLAN)
    host.found["eno2"] = dataclasses.replace(host.found["eno2"], addresses=taken)
    if words:
        with pytest.raises(RefusedError, match=words):
            run(host, FakeTrial(host), CHAIN)
        return
    assert run(host, FakeTrial(host), CHAIN, check_mode=True).managers == ["netplan"]


def test_the_kernel_is_asked_before_anything_is_touched(host, trial):
    def lacks(name, check_mode):
        raise BackendError(f"no {name}")

    host.need_module = lacks
    with pytest.raises(BackendError, match="no bonding"):
        run(host, trial, CHAIN)
    assert trial.started == []


def test_a_rehearsal_counts_on_packages_that_the_play_installs(trial):
    host = FakeHost(Profile("ifupdown", "/etc/network/interfaces", "", True))
    asked = []
    host.need_files = asked.append
    assert run(host, trial, check_mode=True).changed and asked == []
    run(host, trial)
    assert list(asked[0].values()) == ["bridge-utils"]


def test_a_change_a_killed_run_left_behind_is_confirmed_by_the_next(host, trial):
    run(host, trial)
    again = run(host, trial)
    assert again.changed and again.trial and len(trial.started) == 1


def test_another_change_meanwhile(host, trial):
    run(host, trial)
    with pytest.raises(BackendError, match="in progress, which does not include br-vms"):
        run(host, trial, {"bridges": [{"name": "br-vms"}]})


def test_a_bridge_that_was_there_is_left_alone(host, trial):
    host.found["br-admin"] = Link("br-admin", 9, "", "bridge", ports=("eno1", "tap0"), addresses=(ADMIN,))
    result = run(host, trial)
    assert not result.changed and result.addresses == {"br-admin": [ADMIN]} and host.modules == []


def test_nothing_wanted_nothing_done(host, trial):
    assert dataclasses.asdict(run(host, trial, {})) == {"changed": False, "trial": False, "managers": [], "addresses": {}, "diff": []}


def test_port_without_manager_is_refused(host, trial):
    host.profiles["eno1"] = Profile(None)
    with pytest.raises(RefusedError, match="eno1 has 192.0.2.11/24 and no supported network manager") as caught:
        run(host, trial)
    assert caught.value.path == "bridges[0].ports[0]" and "Create the devices manually" in caught.value.hint


def test_a_spare_port_goes_to_who_manages_the_host(host, trial):
    host.default = "networkd"
    assert run(host, trial, {"bridges": [{"name": "br-vms", "ports": ["eno2"]}]}).managers == ["networkd"]


def test_no_manager_at_all(host, trial):
    with pytest.raises(RefusedError, match="no supported network manager found .*systemd-networkd, netplan"):
        run(host, trial, {"bridges": [{"name": "br-vms"}]})


def test_two_managers_in_one_chain(trial):
    host = FakeHost(eno2=Profile("networkmanager"))
    with pytest.raises(RefusedError, match="systemd-networkd manages eno1; NetworkManager manages eno2") as caught:
        run(host, trial, CHAIN)
    assert caught.value.path == "bonds[0].ports[0]"


def test_what_did_not_come_up(host, trial):
    trial.lacking = "br-admin does not have 192.0.2.11/24"
    with pytest.raises(BackendError, match="does not have 192.0.2.11/24.*is restored within 60 s"):
        run(host, trial)


def test_a_restart_during_the_trial_is_seen(host, trial):
    run(host, trial)
    host.found, trial.waiting = dict(LINKS), False
    with pytest.raises(BackendError, match="br-admin is missing and no network change is waiting for confirmation.*reboot"):
        run(host, trial, state="confirmed")


def test_a_rehearsed_confirmation(host, trial):
    assert not run(host, trial, state="confirmed", check_mode=True).changed
    run(host, trial)
    assert run(host, trial, state="confirmed", check_mode=True).changed and trial.waiting


@pytest.mark.parametrize(
    "more, path",
    [
        ({"bridges": [{"name": "a-bridge-with-a-long-name"}]}, "bridges[0].name"),
        ({"bridges": [{"name": "br0", "ports": ["eno9"]}]}, "bridges[0].ports[0]"),
        ({"confirm_timeout": 1}, "confirm_timeout"),
    ],
)
def test_bad_input(host, trial, more, path):
    with pytest.raises(InputError) as caught:
        run(host, trial, **more)
    assert caught.value.path == path and isinstance(caught.value, FootprintError)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("auth:\n  password: hunter2 x\n  method: eap\n", "auth:\n  password: ********\n  method: eap\n"),
        ('auth: {key-management: psk, password: "hunter2"}', "auth: {key-management: psk, password: ********}"),
        ("    wpa-psk hunter2\n    wpa-ssid lab\n", "    wpa-psk ********\n    wpa-ssid lab\n"),
        ("address 192.0.2.1/24\n", "address 192.0.2.1/24\n"),
    ],
)
def test_a_diff_shows_no_password(text, shown):
    assert run_network._difference("/etc/netplan/x.yaml", text, text)["before"] == run_network._difference("/etc/netplan/x.yaml", text, text)["after"] == shown


def test_the_diff_of_a_manager_without_files(host, trial, monkeypatch):
    host.profiles = {"eno1": Profile("networkmanager")}
    monkeypatch.setattr(run_network, "_networkmanager", lambda layout: Change("networkmanager", shown={"profile br-admin": ("", "type: bridge\n")}))
    assert run(host, trial, check_mode=True).diff == [
        {"before_header": "profile br-admin", "after_header": "profile br-admin", "before": "", "after": "type: bridge\n"}
    ]
