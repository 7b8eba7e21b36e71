# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worker that makes a copy, without libvirt and the standby; tests/standby has both."""

from __future__ import annotations

import contextlib
import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_store, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import COPIED, FAILED, Job, Voter

JOB = Job("m", "lab", "m", "u", "qemu:///system", Voter("metal2", "192.0.2.12", 22, ()), (), 900, 2, 0, "metal1")
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
