# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard after a boot: libvirt and the other machines are made up."""

from __future__ import annotations

import contextlib
import pathlib
import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_machine import Machine
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_store, run_guard
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Job, job_data
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ASK, MOVED, MOVING, Record
from tests.support.records import TAKEN, away

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHV0dHRlcm5vbnNlbnNlYnV0MzJieXRlc2xvbmchIQ"
JOB = Job("m", "lab", "lab-m", "u", "qemu:///system", Machine("metal2", "192.0.2.12", 22, (KEY,)), (), 900, 2, 0, "metal1")


class Host:
    """libvirt with the VM, which is off; its first start fails with ``error``."""

    def __init__(self, error: BaseException | None) -> None:
        self.error, self.started, self.autostart = error, 0, True

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *unused: t.Any) -> None: ...

    def domain(self, _uuid: str) -> t.Any:
        return types.SimpleNamespace(autostart=self.autostart, active=self.started > 0)

    def start(self, _uuid: str) -> None:
        assert io_owner.is_permitted(JOB.uuid)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        self.started += 1


@pytest.fixture(name="boot")
def fixture_boot(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[BaseException | None], Host]:
    """A server after a boot, with one VM that has a standby which did not start it."""
    monkeypatch.setattr(io_store, "HOME", tmp_path / "standby")
    monkeypatch.setattr(io_owner, "HOME", tmp_path / "vms")
    monkeypatch.setattr(io_owner, "RUN", tmp_path / "run")
    monkeypatch.setattr(io_owner, "PERMITS", tmp_path / "run/standby")
    monkeypatch.setattr(run_guard, "host_lock", lambda *_args: contextlib.nullcontext())
    monkeypatch.setattr(run_guard, "records", lambda job, store: [{"state": "receiving"}])
    monkeypatch.setattr(run_guard.io_timers, "start", lambda vm_id: None)
    io_store.StandbyStore("m").write_job(job_data(JOB))
    io_owner.guard(Record(JOB.cluster, JOB.id, JOB.uuid, JOB.name), permitted=False)

    def begin(error: BaseException | None) -> Host:
        host = Host(error)
        monkeypatch.setattr(run_guard, "DomainHost", lambda *_args: host)
        return host

    return begin


@pytest.mark.parametrize("error", [BackendError("a pool is not active yet"), KeyboardInterrupt()], ids=["failed", "killed"])
def test_a_start_that_failed_is_repeated(boot: t.Any, error: BaseException) -> None:
    host = boot(error)
    with pytest.raises(type(error)):
        run_guard.settle("m")
    assert run_guard.settle("m") and host.started == 1


def test_a_vm_that_was_started_once_is_left_alone(boot: t.Any) -> None:
    host = boot(None)
    assert run_guard.settle("m") and host.started == 1
    # a person shuts it down, and the guard is restarted
    host.started = 0
    assert run_guard.settle("m") and host.started == 0


def test_a_vm_without_autostart_stays_off_and_may_start(boot: t.Any) -> None:
    host = boot(None)
    host.autostart = False
    assert run_guard.settle("m") and host.started == 0
    host.autostart = True
    assert run_guard.settle("m") and host.started == 0 and io_owner.is_permitted(JOB.uuid)


@pytest.mark.parametrize("state", [MOVING, MOVED])
def test_a_vm_that_is_moved_is_permitted_but_started_by_its_move(boot: t.Any, state: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, store = boot(None), io_store.StandbyStore("m")
    store.pause()
    io_owner.write(away(state, "metal3", "m", JOB.uuid)._replace(start=ASK))
    monkeypatch.setattr(run_guard, "records", lambda job, store: [None])
    assert not run_guard.settle("m") and not io_owner.is_permitted(JOB.uuid)
    monkeypatch.setattr(run_guard, "records", lambda job, store: [{"state": "receiving"}])
    assert run_guard.settle("m") and host.started == 0
    assert io_owner.is_permitted(JOB.uuid) and not io_owner.is_start_due(JOB.uuid) and store.paused_seconds() is not None


def test_a_vm_whose_move_has_not_stopped_it_runs_on_its_server_again(boot: t.Any) -> None:
    host, record = boot(None), away(MOVING, "metal3", "m", JOB.uuid)
    io_owner.write(record._replace(start=ASK, operation=record.operation._replace(step="")))
    assert run_guard.settle("m") and host.started == 1


@pytest.mark.parametrize("moving", [True, False])
def test_a_vm_that_was_started_on_its_standby_is_not_moved_any_more(boot: t.Any, moving: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, store, given_up = boot(None), io_store.StandbyStore("m"), []
    store.pause()
    if moving:
        io_owner.write(away(MOVING, "metal3", "m", JOB.uuid)._replace(start=ASK))
    monkeypatch.setattr(run_guard, "records", lambda job, store: [{"state": "started"}])
    monkeypatch.setattr(run_guard.run_taken, "give_up", lambda *given: given_up.append(given))
    assert run_guard.settle("m") and len(given_up) == 1
    io_owner.write(away(TAKEN, "metal2", "m", JOB.uuid)._replace(start=ASK))
    assert run_guard.settle("m") and len(given_up) == 1 and host.started == 0 and not io_owner.is_permitted(JOB.uuid)
