# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worker that makes a copy, without libvirt and the standby; tests/standby has both."""

from __future__ import annotations

import contextlib
import pathlib
import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_machine import Machine
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_store, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import COPIED, FAILED, Job
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from tests.support.records import TAKEN, away

JOB = Job("m", "lab", "m", "u", "qemu:///system", Machine("metal2", "192.0.2.12", 22, ()), (), 900, 2, 0, "metal1")
STARTED = run_worker.VmStarted("the VM was started during the copy.")


@pytest.mark.parametrize(
    ("outcomes", "state", "runs"),
    [
        ([None], COPIED, 1),
        # after a boot, the timer copies a VM that is off while the guard starts it
        ([STARTED, None], COPIED, 2),
        ([STARTED, STARTED], FAILED, 2),
        ([BackendError("the disk is full.")], FAILED, 1),
    ],
)
def test_a_vm_that_is_started_during_its_copy_is_copied_again(
    outcomes: list[Exception | None], state: str, runs: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list(outcomes)

    def carry_out(_worker: t.Any) -> None:
        outcome = left.pop(0)
        if outcome is not None:
            raise outcome

    monkeypatch.setattr(run_worker, "DomainHost", lambda uri: contextlib.nullcontext())
    monkeypatch.setattr(run_worker, "Worker", lambda *given: None)
    monkeypatch.setattr(run_worker, "connect", lambda *given: None)
    monkeypatch.setattr(run_worker, "carry_out", carry_out)
    store = io_store.StandbyStore("m", tmp_path)
    code = run_worker._main(JOB, store)
    assert (code, store.journal().state, len(outcomes) - len(left)) == (0 if state == COPIED else 1, state, runs)


@pytest.mark.parametrize(
    ("paused", "state", "copied"),
    [
        (None, None, True),
        # the move begins within minutes, or it never did
        (0.0, None, False),
        (-300.0, None, True),
        # the server was restarted since, longer ago or just now
        (300.0, None, True),
        (960.0, None, False),
        (-300.0, "moving", False),
        (-300.0, "moved", False),
        # the move began late, when the copies had been made again
        (None, "moving", False),
        (None, "moved", False),
        (None, "confirmed", False),
        # started on its standby, which has to be found out
        (None, TAKEN, True),
    ],
)
def test_a_vm_that_is_moved_is_not_copied_until_it_is_here_again(
    paused: float | None, state: str | None, copied: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[t.Any] = []
    monkeypatch.setattr(run_worker, "DomainHost", lambda uri: contextlib.nullcontext())
    monkeypatch.setattr(run_worker, "Worker", lambda *given: None)
    monkeypatch.setattr(run_worker, "connect", lambda *given: None)
    monkeypatch.setattr(run_worker, "carry_out", ran.append)
    store = io_store.StandbyStore("m", tmp_path)
    store.directory.mkdir()
    if paused is not None:
        now = 1000.0
        # the clock of the server is set meanwhile
        monkeypatch.setattr(time, "time", lambda: 0.0 if now == 1000.0 else 10_000_000_000.0)
        monkeypatch.setattr(io_store, "_clock", lambda: now)
        monkeypatch.setattr(io_store, "_boot_id", lambda: "this" if now == 1000.0 or paused <= 0 else "next")
        store.pause()
        now = now - paused
    if state:
        io_owner.write(away(state, "metal3", "m"))
    assert run_worker._main(JOB, store) == 0
    assert bool(ran) is copied
    assert copied <= (store.paused_seconds() is None)
    # a pause leaves the guard as it is, so its end need not restore it
    assert not io_owner.is_guarded("u")
