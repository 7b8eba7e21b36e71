# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VM is meant by a name; tests/metal has real ones."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._power import io_vm, model_power, run_power

LXC, QEMU = "lxc:///system", "qemu:///system"


@pytest.fixture(name="closed")
def fixture_closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    closed: list[str] = []

    class Machine:
        """A VM of the table."""

        table: t.ClassVar[dict[str, t.Any]] = {LXC: ["web", "both"], QEMU: ["db", "both"]}

        def __init__(self, uri: str, name: str) -> None:
            self.uri = uri
            if name == "lost" and uri == LXC:
                raise BackendError("no such driver.")
            if name not in self.table[uri]:
                raise InputError(f"the host has no VM named {name}.", "vm")

        def close(self) -> None:
            """The connection is closed."""
            closed.append(self.uri)

    monkeypatch.setattr(io_vm, "VmMachine", Machine)
    return closed


def test_a_vm_is_found_at_its_driver(closed: list[str]) -> None:
    assert (io_vm.find("web", None).uri, io_vm.find("db", None).uri, io_vm.find("both", QEMU).uri) == (LXC, QEMU, QEMU)
    assert not closed
    with pytest.raises(InputError, match="no VM named lost"):
        io_vm.find("lost", None)


def test_a_name_that_two_drivers_have_is_never_guessed(closed: list[str]) -> None:
    # off would be the end of the wrong one
    with pytest.raises(RefusedError, match="uri: the host has 2 VMs named both. Set uri to select one of them: lxc:///system or qemu:///system"):
        io_vm.find("both", None)
    assert closed == [LXC, QEMU]


@pytest.fixture(name="machine")
def fixture_machine(monkeypatch: pytest.MonkeyPatch) -> t.Any:
    machine = io_vm.VmMachine.__new__(io_vm.VmMachine)
    machine._uuid, machine.uri = "u", QEMU
    monkeypatch.setattr(machine, "config_xml", lambda uuid: "<domain><os><type>hvm</type></os><devices><disk device='disk'/></devices></domain>")
    monkeypatch.setattr(io_vm.io_owner, "away", lambda uuid: None)
    return machine


def test_a_power_cycle_is_off_and_on(machine: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(machine, "_lookup", lambda uuid: types.SimpleNamespace(destroy=lambda: done.append("destroy")))
    monkeypatch.setattr(machine, "start", lambda uuid: done.append("start"))
    machine.cycle(1)
    assert done == ["destroy", "start"]


def test_check_mode_refuses_what_a_vm_does_not_have(machine: t.Any) -> None:
    machine.check(model_power.Boot("disk", False, None), None)
    for device in ("pxe", "none", "bios"):
        with pytest.raises(model_power.UnsupportedError):
            machine.check(model_power.Boot(device, False, None), None)


@pytest.mark.parametrize(
    ("operation", "state", "refused"),
    [("on", "shutdown", True), ("cycle", "running", True), ("off", "paused", False), ("soft", "running", False), ("soft", "paused", True),
     ("soft", "suspended", True)],
)  # fmt: skip
def test_a_copy_that_must_not_run_is_not_resumed_either(machine: t.Any, monkeypatch: pytest.MonkeyPatch, operation: str, state: str, refused: bool) -> None:
    """The guard of the standby pauses the copy on the first server, because the VM runs on the standby; a shutdown would resume it."""
    done: list[str] = []
    power = model_power.Power("off" if state == "shutdown" else "on", None, False, None, {}, "u")
    answers = {"read": lambda: power, "set_power": done.append, "cycle": lambda timeout: done.append("cycle"), "wait": lambda state, timeout: power}
    for name, value in {**answers, "close": lambda: None}.items():
        monkeypatch.setattr(machine, name, value)
    monkeypatch.setattr(machine, "domain", lambda uuid: types.SimpleNamespace(state=state))
    monkeypatch.setattr(run_power, "machine", lambda params: machine)
    params = {"bmc": None, "state": operation, "boot_device": None, "boot_once": False, "boot_mode": None, "wait": True, "wait_timeout": 1}
    monkeypatch.setattr(io_vm.io_owner, "away", lambda uuid: types.SimpleNamespace(where="metal2"))
    for check_mode in (True, False):
        if refused:
            with pytest.raises(RefusedError, match="must not run"):
                run_power.ensure(params, check_mode)
        else:
            run_power.ensure(params, check_mode)
    assert done == ([] if refused else [operation])
    done.clear()
    monkeypatch.setattr(io_vm.io_owner, "away", lambda uuid: None)
    run_power.ensure(params, False)
    assert done == [operation]


@pytest.mark.parametrize("process, ended", [("1", False), ("no-such-process", True)])
def test_a_container_that_libvirt_no_longer_tracks_is_off_after_its_end(
    machine: t.Any, monkeypatch: pytest.MonkeyPatch, process: str, ended: bool
) -> None:
    destroyed: list[bool] = []
    domain = {"OSType": "exe", "isActive": True, "ID": process}
    calls = {name: (lambda value=value: value) for name, value in domain.items()}
    monkeypatch.setattr(machine, "_lookup", lambda uuid: types.SimpleNamespace(**calls, destroy=lambda: destroyed.append(True)))
    monkeypatch.setattr(machine, "_resume", lambda domain: None)
    monkeypatch.setattr(machine, "read", lambda: model_power.Power("off" if destroyed else "on", None, False, None, {}, "u"))
    monkeypatch.setattr(machine, "_request_shutdown", lambda domain: not ended or pytest.fail("it has ended"))
    monkeypatch.setattr(io_vm, "_EXIT_DETECTION", 0.1)
    machine.set_power("soft")
    if ended:
        assert machine.wait("off", 30).state == "off" and destroyed == [True]
    else:
        with pytest.raises(BackendError, match="the VM is not off after 1 s: it is on"):
            machine.wait("off", 1)
        assert not destroyed
