# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_network import replace_address
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_maintenance, io_network, io_services, io_state
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_state import SourceState, awaits_boot
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import MAINTENANCE_BOOT, Container
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, HANDING_OVER, PARKED, QUIESCED, SERVING

ADMIN = {"interface": "eth0", "prefix": 24, "address": "192.0.2.2", "temporary_address": "192.0.2.3", "cards": ["eth0"]}
LISTED = (
    "a.service loaded active running A\nb.service loaded active running B\nssh.service loaded active running S\n"
    "once.service loaded active exited O\noff.service loaded inactive dead F\nc.timer loaded active waiting C\n"
)


@pytest.fixture(name="machine")
def fixture_machine(tmp_path, monkeypatch):
    """A source whose commands are only noted, whose files are real; tests/source has the real commands."""

    class Machine:
        commands: list = []
        taken = None
        boot = "boot-1"
        config = tmp_path / "10.network"
        also: list = []

    machine = Machine()
    machine.commands, machine.also = [], []
    machine.config.write_text("Address=192.0.2.2/24\nDNS=192.0.2.2\n")

    def run(argv, **unused):
        line = " ".join(argv)
        machine.commands.append(line)
        said = "[]"
        if "list-units" in line:
            said = LISTED
        elif "get-default" in line:
            said = "multi-user.target\n"
        elif "inspect" in line:
            said = "false\n" if any(each.endswith(f"stop -t 60 {argv[-1]}") for each in machine.commands) else "true\n"
        elif " ps " in line or "show" in argv and "systemctl" in argv:
            said = ""
        return Completed(tuple(argv), 0, said, "")

    def unit_state(unit):
        stopped = f"systemctl stop -- {unit}" in machine.commands or "systemctl start reduced-footprint-rest.target" in machine.commands
        started = any(each.startswith("systemctl start") and each.endswith((unit, "return.target")) for each in machine.commands)
        return {"active": "inactive" if stopped and not started else "active"}

    monkeypatch.setattr(io_state, "HOME", tmp_path / "home")
    monkeypatch.setattr(io_services, "TRANSIENT", tmp_path / "run")
    monkeypatch.setattr(io_services, "PERSISTENT", tmp_path / "etc")
    monkeypatch.setattr(io_maintenance, "SYSTEM", tmp_path / "etc")
    (tmp_path / "etc").mkdir()
    for module in (io_state, io_services, io_network, io_maintenance):
        monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(io_services.shutil, "which", lambda name: "/usr/bin/podman" if name == "podman" else None)
    monkeypatch.setattr(io_services, "states", lambda units: {unit: unit_state(unit)["active"] for unit in units})
    monkeypatch.setattr(io_network, "unit_state", unit_state)
    monkeypatch.setattr(io_state, "boot_id", lambda: machine.boot)
    monkeypatch.setattr(io_network, "promote_secondaries", lambda *unused: None)
    machine.has = ["192.0.2.2/24"]
    monkeypatch.setattr(io_network, "addresses", lambda: [*({"dev": "eth0", "address": each} for each in machine.has), *machine.also])
    monkeypatch.setattr(io_state.io_arp, "probe", lambda *unused: machine.taken)
    monkeypatch.setattr(io_state.io_arp, "announce", lambda *unused: machine.commands.append("announce"))
    machine.state = SourceState("master")
    machine.tmp = tmp_path
    machine.files_of = lambda address: {str(machine.config): machine.config.read_text()}
    return machine


def parked(machine, services=("a.service", "b.service"), **more):
    machine.state.begin(services, 60, ADMIN, **more)
    machine.state.stop_services()
    machine.state.detach(machine.files_of, replace_address)


def test_services_stop_in_order_and_are_held(machine):
    data = machine.state.begin(["a.service", "b.service"], 60, ADMIN)
    assert data["state"] == QUIESCED and data["running"] == ["a.service", "b.service"]
    machine.state.stop_services()
    stops = [each for each in machine.commands if each.startswith("systemctl stop")]
    assert stops == ["systemctl stop -- a.service", "systemctl stop -- b.service"]
    assert (machine.tmp / "run" / "a.service.d" / io_services.DROP_IN).exists()
    assert 0 < machine.state.remaining(machine.state.read()) <= 60


def test_all_stops_running_units_in_one_transaction(machine):
    data = machine.state.begin(["all"], 60, ADMIN)
    assert data["services"] == ["a.service", "b.service", "c.timer"]
    machine.state.stop_services()
    assert "systemctl start reduced-footprint-rest.target" in machine.commands
    assert not [each for each in machine.commands if each.startswith("systemctl stop")]
    text = (machine.tmp / "run" / "reduced-footprint-rest.target").read_text()
    assert "Conflicts=b.service\nAfter=b.service\n" in text and "ssh" not in text
    machine.commands.clear()
    assert machine.state.restore("asked") is None
    assert "systemctl start reduced-footprint-return.target" in machine.commands
    assert not list((machine.tmp / "run").glob("reduced-footprint-*"))


def test_containers_stop_before_services_and_start_after_them(machine):
    parked(machine, containers=[Container("podman", "web"), Container("podman", "db")])
    stops = [each for each in machine.commands if " stop " in each]
    assert stops[:3] == ["podman stop -t 60 web", "podman stop -t 60 db", "systemctl stop -- a.service"]
    machine.commands.clear()
    assert machine.state.restore("asked") is None
    starts = [each for each in machine.commands if " start " in each]
    # the monitor of a container must not end with the program that starts it
    scope = "systemd-run --quiet --scope --collect"
    assert starts == ["systemctl start -- b.service", "systemctl start -- a.service", f"{scope} podman start db", f"{scope} podman start web"]


def test_a_second_begin_keeps_what_ran_at_first(machine):
    machine.state.begin(["a.service"], 60, ADMIN)
    machine.state.stop_services()
    assert machine.state.begin(["a.service"], 60, ADMIN)["running"] == ["a.service"]


def test_a_reboot_in_the_pause_ends_it(machine):
    machine.state.begin(["a.service"], 60, ADMIN)
    machine.boot = "boot-2"
    assert machine.state.read()["state"] == SERVING


def test_a_maintenance_boot_is_awaited_and_then_left_by_a_reboot(machine):
    data = machine.state.begin([], 60, ADMIN, quiesce=MAINTENANCE_BOOT)
    assert awaits_boot(data) and data["services"] == ["a.service", "b.service", "c.timer"]
    machine.boot = "boot-2"
    assert awaits_boot(machine.state.read())
    # on the way into the boot the deadline is not extended, and the source is not set aside
    assert machine.state.renew(60)["boot_id"] == "boot-1"
    machine.state.detach(machine.files_of, replace_address)
    assert machine.state.arrive()
    data = machine.state.read()
    assert (data["state"], data["maintenance"]["arrived"], data["boot_id"]) == (QUIESCED, True, "boot-2")
    assert machine.state.begin([], 60, ADMIN, quiesce=MAINTENANCE_BOOT)["maintenance"]["arrived"]
    machine.boot = "boot-3"
    assert machine.state.read()["state"] == SERVING and not machine.state.arrive()


def test_a_maintenance_boot_that_did_not_happen_ends_the_pause(machine):
    machine.state.begin([], 60, ADMIN, quiesce=MAINTENANCE_BOOT)
    io_maintenance.arm("master", ["/bin/true"])
    machine.boot = "boot-2"
    machine.state.missed()
    assert machine.state.read()["state"] == SERVING
    assert not (machine.tmp / "etc" / "default.target").is_symlink()


@pytest.mark.parametrize("usual", [None, "/usr/lib/systemd/system/graphical.target"])
def test_the_return_from_a_maintenance_boot_is_on_disk_before_it(machine, usual):
    link = machine.tmp / "etc" / "default.target"
    if usual:
        link.symlink_to(usual)
    io_maintenance.arm("master", ["/bin/watch"])
    io_maintenance.arm("master", ["/bin/watch"])
    assert link.readlink().name == "reduced-footprint-maintenance.target"
    unit = (machine.tmp / "etc" / io_maintenance.unit("master")).read_text()
    first = next(line for line in unit.splitlines() if line.startswith("Exec"))
    assert first == (f"ExecStartPre=/bin/ln -sfn {usual} {link}" if usual else f"ExecStartPre=/bin/rm -f {link}")
    assert "StartLimitAction=reboot" in unit
    target = (machine.tmp / "etc" / "reduced-footprint-maintenance.target").read_text()
    assert "Wants=ssh.service\n" in target and "a.service" not in target and f"Wants={io_maintenance.unit('master')}\n" in target
    io_maintenance.disarm("master")
    assert (str(link.readlink()) if link.is_symlink() else None) == usual
    assert not (machine.tmp / "etc" / "reduced-footprint-maintenance.target").exists()


def test_a_return_from_a_maintenance_boot_starts_the_usual_target(machine):
    machine.state.begin([], 60, ADMIN, quiesce=MAINTENANCE_BOOT)
    machine.boot = "boot-2"
    machine.state.arrive()
    machine.state.detach(machine.files_of, replace_address)
    machine.commands.clear()
    assert machine.state.restore("asked") is None
    starts = [each for each in machine.commands if each.startswith("systemctl start")]
    assert starts == ["systemctl start --no-block -- multi-user.target", "systemctl start reduced-footprint-return.target"]


def test_a_parked_source_stays_parked_after_a_reboot(machine):
    parked(machine)
    assert machine.config.read_text() == "Address=192.0.2.3/24\nDNS=192.0.2.2\n"
    assert (machine.tmp / "etc" / "a.service.d" / io_services.DROP_IN).exists()
    up, down = "ip address replace 192.0.2.3/24 dev eth0", "ip address del 192.0.2.2/24 dev eth0"
    assert machine.commands.index(up) < machine.commands.index(down)
    machine.boot = "boot-2"
    data = machine.state.read()
    assert data["state"] == PARKED and machine.state.remaining(data) == float("-inf")


def test_the_other_addresses_of_the_card_are_removed_and_restored(machine):
    machine.also.append({"dev": "eth0", "address": "2001:db8::2/64"})
    machine.also.append({"dev": "wlan0", "address": "198.51.100.7/24"})
    parked(machine)
    assert "ip address del 2001:db8::2/64 dev eth0" in machine.commands
    assert not [each for each in machine.commands if "198.51.100.7" in each]
    machine.commands.clear()
    assert machine.state.restore("asked") is None
    assert "ip address replace 2001:db8::2/64 dev eth0" in machine.commands


def test_a_second_detach_keeps_the_first_configuration(machine):
    parked(machine)
    machine.state.detach(machine.files_of, replace_address)
    assert machine.state.restore("x") is None
    assert machine.config.read_text() == "Address=192.0.2.2/24\nDNS=192.0.2.2\n"


def test_a_return_restores_everything(machine):
    parked(machine)
    machine.commands.clear()
    assert machine.state.restore("asked") is None
    assert machine.state.read()["state"] == SERVING
    assert "ip address replace 192.0.2.2/24 dev eth0" in machine.commands
    starts = [each for each in machine.commands if each.startswith("systemctl start")]
    assert starts == ["systemctl start -- b.service", "systemctl start -- a.service"]
    assert not (machine.tmp / "etc" / "a.service.d").exists() and not (machine.tmp / "run" / "a.service.d").exists()
    machine.commands.clear()
    assert machine.state.restore("again") is None and machine.commands == []


def test_an_address_that_another_machine_answers_for_is_not_taken(machine):
    parked(machine)
    machine.taken = "52:54:00:00:00:01"
    machine.commands.clear()
    assert machine.state.restore("deadline") == "52:54:00:00:00:01"
    assert machine.commands == []
    assert machine.state.read()["state"] == PARKED


def test_only_a_parked_source_hands_over_in_two_steps_and_can_still_return(machine):
    assert machine.state.hand_over("hand_over")["state"] == machine.state.hand_over("confirm")["state"] == SERVING
    parked(machine)
    assert machine.state.hand_over("confirm")["state"] == PARKED
    assert machine.state.hand_over("hand_over", 60)["state"] == HANDING_OVER
    assert machine.state.begin(["a.service"], 60, ADMIN)["state"] == HANDING_OVER
    assert machine.state.hand_over("confirm")["state"] == HANDED_OVER
    assert machine.state.begin(["a.service"], 60, ADMIN)["state"] == HANDED_OVER
    assert machine.state.renew(60)["state"] == machine.state.hand_over("hand_over", 60)["state"] == HANDED_OVER
    assert machine.state.restore("asked") is None
    assert machine.state.read()["state"] == SERVING


def test_a_source_that_waits_for_confirm_has_a_lease(machine):
    parked(machine)
    machine.state.hand_over("hand_over", 0.0)
    data = machine.state.hand_over("hand_over", 500.0)
    assert 400 < machine.state.remaining(data) <= 500
    # a network manager brings the address back while it waits
    machine.has.append("192.0.2.2/24")
    machine.state.guard()
    assert machine.commands.count("ip address del 192.0.2.2/24 dev eth0") > 1
    # after a restart it waits a whole lease again, and confirm is too late
    machine.boot = "boot-2"
    machine.state.detach(machine.files_of, replace_address)
    assert machine.state.hand_over("confirm")["state"] == PARKED


@pytest.mark.parametrize(("word", "state"), [("", PARKED), ("hand_over", HANDING_OVER)])
def test_a_lease_that_was_renewed_meanwhile_keeps_the_source_aside(machine, word, state):
    parked(machine)
    if word:
        machine.state.hand_over(word, 60)
    machine.commands.clear()
    assert machine.state.restore("not heard from", unasked=True) is None
    assert machine.state.read()["state"] == state and machine.commands == []
    machine.state.renew(-1.0)
    assert machine.state.restore("not heard from", unasked=True) is None
    assert machine.state.read()["state"] == SERVING


def test_a_confirm_just_before_the_return_is_valid(machine):
    parked(machine)
    machine.state.hand_over("hand_over", 60)
    machine.state.renew(-1.0)
    machine.state.hand_over("confirm")
    assert machine.state.restore("not heard from", unasked=True) is None
    assert machine.state.read()["state"] == HANDED_OVER


def test_a_serving_source_has_no_lease(machine):
    assert machine.state.renew(60)["state"] == SERVING
    assert not machine.state.file.exists()


def test_addresses_removed_by_a_network_manager_are_restored(machine):
    parked(machine)
    machine.has = []
    machine.commands.clear()
    machine.state.guard()
    assert machine.commands[0] == "ip address replace 192.0.2.3/24 dev eth0" and "announce" in machine.commands
    machine.state.restore("asked")
    data = machine.state.read()
    assert not machine.state.settled(data)
    machine.commands.clear()
    machine.state.guard()
    assert machine.commands[0] == "ip address replace 192.0.2.2/24 dev eth0" and "announce" in machine.commands
    machine.has = ["192.0.2.2/24", "192.0.2.3/24"]
    machine.commands.clear()
    machine.state.guard()
    assert machine.commands == ["ip address del 192.0.2.3/24 dev eth0"]
    machine.boot = "boot-2"
    assert machine.state.settled(data)


def test_a_source_that_kept_its_address_is_not_guarded(machine):
    machine.state.begin(["a.service"], 60, ADMIN)
    machine.state.restore("asked")
    assert machine.state.settled(machine.state.read())


@pytest.mark.parametrize("services", [["a.service", "b.service"], ["all"]])
def test_a_source_that_returns_while_its_services_stop_serves_completely(machine, monkeypatch, services):
    """The lease expires during a slow stop: the watch starts everything, and the agent must not stop more."""
    plain = io_services.run

    def slow(argv, **more):
        done = plain(argv, **more)
        if " ".join(argv).endswith("stop -t 60 slow") or argv[-1] == "reduced-footprint-rest.target" or argv[-2:] == ["--", "a.service"] and "stop" in argv:
            monkeypatch.setattr(io_services, "run", plain)
            assert machine.state.restore("the lease expired") is None
        return done

    for containers in ([Container("podman", "slow"), Container("podman", "web")], []):
        machine.commands.clear()
        monkeypatch.setattr(io_services, "run", slow)
        machine.state.begin(services, 60, ADMIN, containers)
        with pytest.raises(BackendError, match="serves again") as caught:
            machine.state.stop_services()
        assert caught.value.path == "lease_timeout"
        assert machine.state.read()["state"] == SERVING
        last = {}
        for line in machine.commands:
            words = line.split()
            if words[-2] == "start" and words[-3] == "podman" or words[:2] == ["podman", "stop"]:
                last[words[-1]] = "start" if words[-2] == "start" else "stop"
            if words[:2] in (["systemctl", "stop"], ["systemctl", "start"]):
                last[words[-1]] = words[1]
        stopped = {name for name, verb in last.items() if verb == "stop"} - {"reduced-footprint-return.target"}
        assert not stopped, machine.commands
        assert not list(machine.tmp.glob("run/*.d/*"))
        if services == ["all"] and not containers:
            # what stopped after the return of the watch was started once more
            after = machine.commands[machine.commands.index("systemctl start reduced-footprint-rest.target") :]
            assert after.count("systemctl start reduced-footprint-return.target") == 2


def test_a_reboot_in_the_middle_of_a_detach_starts_the_lease_again(machine):
    """The clock of the deadline starts at 0 with each boot; the old one would be days ahead."""
    parked(machine)
    data = machine.state.read()
    machine.state.write({**data, "deadline": data["deadline"] + 30 * 86400})
    machine.boot = "boot-2"
    machine.state.detach(machine.files_of, replace_address)
    assert 0 < machine.state.remaining(machine.state.read()) <= 60
