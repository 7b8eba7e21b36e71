# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._backend import deadman
from ansible_collections.reduced.footprint.plugins.module_utils._backend.bridge import Link, Manager
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._run.bridge import BridgeRequest, take_over

MANAGERS = {
    "networkd": Manager("networkd", "/etc/systemd/network/10-eno1.network", "[Match]\nName=eno1\n[Network]\nAddress=192.0.2.11/24\n"),
    "ifupdown": Manager("ifupdown", "/etc/network/interfaces", "auto eno1\niface eno1 inet static\n  address 192.0.2.11/24\n"),
    "netplan": Manager("netplan", "/run/systemd/network/10-netplan-eno1.network"),
    "networkmanager": Manager("networkmanager"),
    None: Manager(None),
}


@dataclasses.dataclass
class FakeTrial:
    state: str | None = None


class FakeNetwork:
    """A host with the port eno1 that remembers what was started and confirmed."""

    def __init__(self, manager="networkd"):
        self.manager = MANAGERS[manager]
        self.found = {"lo": Link("lo", 1, "", False, (), None), "eno1": Link("eno1", 2, "02:00:00:00:00:01", False, (), None)}
        self.trial = FakeTrial()
        self.missing = None
        self.started = []

    def trial_of(self, bridge):
        return self.trial

    def links(self):
        return self.found

    def addresses(self, name):
        return ("192.0.2.11/24",)

    def manager_of(self, link):
        return self.manager

    def start_trial(self, bridge, change, timeout):
        self.started.append((bridge, change, timeout))
        self.trial.state = deadman.STATE_APPLIED
        self.join()

    def wait_for_takeover(self, bridge, port, wanted, patience):
        return self.missing

    def confirm_trial(self, bridge):
        if self.trial.state == deadman.STATE_REVERTED:
            raise BackendError("came too late")
        self.trial.state = deadman.STATE_CONFIRMED

    def join(self, bridge="br-admin"):
        self.found[bridge] = Link(bridge, 3, "02:00:00:00:00:01", True, ("eno1",), None)
        self.found["eno1"] = dataclasses.replace(self.found["eno1"], master=bridge)


def run(network, check_mode=False, **changes):
    return take_over(BridgeRequest(**{"name": "br-admin", "port": "eno1", **changes}), check_mode=check_mode, backend=network)


@pytest.mark.parametrize("manager", ["networkd", "ifupdown"])
def test_start_and_confirm(manager):
    network = FakeNetwork(manager)
    result = run(network)
    assert (result.changed, result.trial, result.manager, result.addresses) == (True, True, manager, ["192.0.2.11/24"])
    assert result.diff and network.started[0][2] == 60
    confirmed = run(network, state="confirmed")
    assert (confirmed.changed, confirmed.trial) == (True, False)
    again = run(network)
    assert (again.changed, again.trial, len(network.started)) == (False, False, 1)
    assert not run(network, state="confirmed").changed


def test_check_mode_starts_nothing():
    network = FakeNetwork()
    result = run(network, check_mode=True)
    assert result.changed and result.diff and network.started == []


def test_a_change_a_killed_run_left_behind_is_confirmed_by_the_next():
    network = FakeNetwork()
    run(network)
    again = run(network)
    assert again.changed and again.trial and len(network.started) == 1


def test_a_bridge_that_was_there_is_left_alone():
    network = FakeNetwork("netplan")
    network.join()
    assert not run(network).changed


@pytest.mark.parametrize("manager, words", [("netplan", "netplan"), ("networkmanager", "NetworkManager"), (None, "nothing this collection knows")])
def test_other_managers_are_refused(manager, words):
    with pytest.raises(RefusedError, match=words) as caught:
        run(FakeNetwork(manager))
    assert "left as it is" in caught.value.mend


def test_confirmation_that_comes_too_late():
    network = FakeNetwork()
    network.trial.state = deadman.STATE_REVERTED
    with pytest.raises(BackendError, match="too late"):
        run(network, state="confirmed")


def test_a_bridge_that_did_not_get_the_address():
    network = FakeNetwork()
    network.missing = "br-admin does not have 192.0.2.11/24"
    with pytest.raises(BackendError, match="does not have 192.0.2.11/24.*returns by itself"):
        run(network)


@pytest.mark.parametrize(
    "changes, path",
    [({"name": "a-bridge-with-a-long-name"}, "name"), ({"port": "../eno1"}, "port"), ({"port": "eno9"}, "port"), ({"timeout": 1}, "timeout")],
)
def test_bad_input(changes, path):
    with pytest.raises(InputError) as caught:
        run(FakeNetwork(), **changes)
    assert caught.value.path == path


def test_a_name_that_is_taken():
    network = FakeNetwork()
    network.found["br-admin"] = Link("br-admin", 3, "", True, (), None)
    with pytest.raises(RefusedError, match="a bridge without this port"):
        run(network)


def test_a_port_that_is_taken():
    network = FakeNetwork()
    network.join("br0")
    with pytest.raises(RefusedError, match="already belongs to br0"):
        run(network)
