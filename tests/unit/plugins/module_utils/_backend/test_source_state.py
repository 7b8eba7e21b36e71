# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._backend import source_state
from ansible_collections.reduced.footprint.plugins.module_utils._backend.command import Completed
from ansible_collections.reduced.footprint.plugins.module_utils._backend.source_state import SourceState
from ansible_collections.reduced.footprint.plugins.module_utils._model.migration_journal import HANDED_OVER, PARKED, QUIESCED, SERVING
from ansible_collections.reduced.footprint.plugins.module_utils._plan.fixups_network import replace_address

ADMIN = {"interface": "eth0", "prefix": 24, "address": "192.0.2.2", "temporary_address": "192.0.2.3"}


@pytest.fixture(name="machine")
def fixture_machine(tmp_path, monkeypatch):
    """A source whose commands are only noted, whose files are real."""

    class Machine:
        commands: list = []
        taken = None
        boot = "boot-1"
        config = tmp_path / "10.network"

    machine = Machine()
    machine.commands = []
    machine.config.write_text("Address=192.0.2.2/24\nDNS=192.0.2.2\n")

    def run(argv, **unused):
        machine.commands.append(" ".join(argv))
        return Completed(tuple(argv), 0, "[]", "")

    monkeypatch.setattr(source_state, "HOME", tmp_path / "home")
    monkeypatch.setattr(source_state, "_TRANSIENT", tmp_path / "run")
    monkeypatch.setattr(source_state, "_PERSISTENT", tmp_path / "etc")
    monkeypatch.setattr(source_state, "run", run)
    monkeypatch.setattr(source_state, "boot_id", lambda: machine.boot)
    monkeypatch.setattr(source_state, "_sysctl", lambda *unused: None)
    monkeypatch.setattr(source_state, "interfaces", lambda: [{"name": "eth0", "addresses": ["192.0.2.2/24"]}])
    monkeypatch.setattr(source_state, "unit_state", lambda unit: {"active": "inactive" if f"systemctl stop -- {unit}" in machine.commands else "active"})
    monkeypatch.setattr(source_state.arp, "probe", lambda *unused: machine.taken)
    monkeypatch.setattr(source_state.arp, "announce", lambda *unused: machine.commands.append("announce"))
    machine.state = SourceState("master")
    machine.tmp = tmp_path
    machine.files_of = lambda address: {str(machine.config): machine.config.read_text()}
    return machine


def parked(machine):
    machine.state.begin(["a.service", "b.service"], 60, ADMIN)
    machine.state.stop_services(["a.service", "b.service"])
    machine.state.detach(machine.files_of, replace_address)


def test_services_stop_in_order_and_are_held(machine):
    data = machine.state.begin(["a.service", "b.service"], 60, ADMIN)
    assert data["state"] == QUIESCED and data["running"] == ["a.service", "b.service"]
    machine.state.stop_services(["a.service", "b.service"])
    stops = [each for each in machine.commands if each.startswith("systemctl stop")]
    assert stops == ["systemctl stop -- a.service", "systemctl stop -- b.service"]
    assert (machine.tmp / "run" / "a.service.d" / source_state.DROP_IN).exists()
    assert 0 < machine.state.remaining(machine.state.read()) <= 60


def test_a_second_begin_remembers_what_ran_at_first(machine):
    machine.state.begin(["a.service"], 60, ADMIN)
    machine.state.stop_services(["a.service"])
    assert machine.state.begin(["a.service"], 60, ADMIN)["running"] == ["a.service"]


def test_a_reboot_in_the_pause_ends_it(machine):
    machine.state.begin(["a.service"], 60, ADMIN)
    machine.boot = "boot-2"
    assert machine.state.read()["state"] == SERVING


def test_stepping_aside_lasts_over_a_reboot(machine):
    parked(machine)
    assert machine.config.read_text() == "Address=192.0.2.3/24\nDNS=192.0.2.2\n"
    assert (machine.tmp / "etc" / "a.service.d" / source_state.DROP_IN).exists()
    up, down = "ip address replace 192.0.2.3/24 dev eth0", "ip address del 192.0.2.2/24 dev eth0"
    assert machine.commands.index(up) < machine.commands.index(down)
    machine.boot = "boot-2"
    data = machine.state.read()
    assert data["state"] == PARKED and machine.state.remaining(data) == float("-inf")


def test_stepping_aside_twice_keeps_the_first_configuration(machine):
    parked(machine)
    machine.state.detach(machine.files_of, replace_address)
    assert machine.state.restore("x") is None
    assert machine.config.read_text() == "Address=192.0.2.2/24\nDNS=192.0.2.2\n"


def test_coming_back_undoes_everything(machine):
    parked(machine)
    machine.commands.clear()
    assert machine.state.restore("asked") is None
    assert machine.state.read()["state"] == SERVING
    assert "ip address replace 192.0.2.2/24 dev eth0" in machine.commands
    starts = [each for each in machine.commands if each.startswith("systemctl start")]
    assert starts == ["systemctl start --no-block -- b.service", "systemctl start --no-block -- a.service"]
    assert not (machine.tmp / "etc" / "a.service.d").exists() and not (machine.tmp / "run" / "a.service.d").exists()
    machine.commands.clear()
    assert machine.state.restore("again") is None and machine.commands == []


def test_nobody_takes_an_address_that_somebody_answers_for(machine):
    parked(machine)
    machine.taken = "52:54:00:00:00:01"
    machine.commands.clear()
    assert machine.state.restore("deadline") == "52:54:00:00:00:01"
    assert machine.commands == []
    assert machine.state.read()["state"] == PARKED


def test_only_a_parked_source_hands_over_and_it_can_still_come_back(machine):
    assert machine.state.hand_over()["state"] == SERVING
    parked(machine)
    assert machine.state.hand_over()["state"] == HANDED_OVER
    assert machine.state.begin(["a.service"], 60, ADMIN)["state"] == HANDED_OVER
    assert machine.state.restore("asked") is None
    assert machine.state.read()["state"] == SERVING


def test_a_serving_source_has_no_lease(machine):
    assert machine.state.renew(60)["state"] == SERVING
    assert not machine.state.file.exists()
