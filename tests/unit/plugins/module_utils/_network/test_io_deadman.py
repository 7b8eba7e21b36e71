# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._network import io_deadman


@pytest.fixture
def change(tmp_path):
    """A change of one file that leaves a note whenever a command runs."""
    folder = tmp_path / "trial"
    folder.mkdir()
    (tmp_path / "old.conf").write_text("old")

    def make(apply=None, timeout=30, confirm=()):
        plan = {
            "write": {str(tmp_path / "trial.conf"): "new"},
            "restore": {str(tmp_path / "trial.conf"): None, str(tmp_path / "old.conf"): "old", str(tmp_path / "kept.conf"): None},
            "keep": {str(tmp_path / "old.conf"): "new", str(tmp_path / "kept.conf"): "new"},
            "apply": [apply or ["touch", str(tmp_path / "applied")]],
            "revert": [["ip", "link", "delete", "dev", "never-came-up"], ["false"], ["touch", str(tmp_path / "reverted")]],
            "confirm": list(confirm),
            "modes": {str(tmp_path / "kept.conf"): 0o600},
            "timeout": timeout,
        }
        (folder / "plan.json").write_text(json.dumps(plan))
        trial = io_deadman.Trial(str(folder))
        trial.set_state(io_deadman.STATE_PLANNED)
        return trial

    return make


def start(trial):
    return subprocess.Popen([sys.executable, io_deadman.__file__, "try", trial.folder])


def wait_for(trial, state):
    deadline = time.monotonic() + 20
    while trial.state != state and time.monotonic() < deadline:
        time.sleep(0.02)
    assert trial.state == state


def is_old(tmp_path):
    return not (tmp_path / "trial.conf").exists() and not (tmp_path / "kept.conf").exists() and (tmp_path / "old.conf").read_text() == "old"


def test_a_confirmed_change_lasts(change, tmp_path):
    trial = change()
    process = start(trial)
    wait_for(trial, io_deadman.STATE_APPLIED)
    assert (tmp_path / "trial.conf").read_text() == "new" and (tmp_path / "applied").exists()
    assert (tmp_path / "old.conf").read_text() == "old"
    with trial:
        assert trial.confirm() is None
    assert process.wait(timeout=10) == 0
    assert io_deadman.settle(trial.folder) == 0
    assert trial.state == io_deadman.STATE_CONFIRMED
    assert (tmp_path / "old.conf").read_text() == (tmp_path / "kept.conf").read_text() == "new"
    assert not (tmp_path / "trial.conf").exists() and not (tmp_path / "reverted").exists()


def test_failed_confirmation_is_reverted(change, tmp_path):
    trial = change(confirm=[["touch", str(tmp_path / "first")], ["false"], ["touch", str(tmp_path / "last")]])
    trial.set_state(io_deadman.STATE_APPLIED)
    with trial:
        assert "false ended with exit code 1" in trial.confirm()
    assert trial.state == io_deadman.STATE_REVERTED and is_old(tmp_path) and "could not be made permanent" in trial.reason
    assert (tmp_path / "first").exists() and not (tmp_path / "last").exists()


def test_modes_of_what_is_new_and_of_what_was_there(change, tmp_path):
    trial = change()
    (tmp_path / "old.conf").chmod(0o640)
    with trial:
        trial.confirm()
    assert (tmp_path / "kept.conf").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "old.conf").stat().st_mode & 0o777 == 0o640


def test_unconfirmed_change_is_reverted(change, tmp_path):
    trial = change(timeout=0.5)
    assert start(trial).wait(timeout=20) == 0
    io_deadman.settle(trial.folder)
    assert trial.state == io_deadman.STATE_REVERTED and is_old(tmp_path)
    assert (tmp_path / "reverted").exists(), "a command that fails must not keep the next from running"
    assert "not confirmed within" in trial.reason and "false ended with exit code 1" in trial.reason
    assert "never-came-up" not in trial.reason, "a missing device must not be reported"


def test_killed_change_is_reverted(change, tmp_path):
    trial = change()
    process = start(trial)
    wait_for(trial, io_deadman.STATE_APPLIED)
    process.send_signal(signal.SIGKILL)
    process.wait()
    io_deadman.settle(trial.folder)
    assert trial.state == io_deadman.STATE_REVERTED and is_old(tmp_path)


def test_interrupted_confirmation_is_reverted(change, tmp_path):
    trial = change()
    trial.set_state(io_deadman.STATE_APPLIED)
    (tmp_path / "old.conf").write_text("new")
    io_deadman.settle(trial.folder)
    assert is_old(tmp_path)


def test_failed_apply_is_reverted_immediately(change, tmp_path):
    trial = change(apply=["ls", "/nonexistent/thing"])
    assert start(trial).wait(timeout=20) == 1
    assert trial.state == io_deadman.STATE_REVERTED and is_old(tmp_path)
    assert "/nonexistent/thing" in trial.reason


def test_a_missing_program_is_a_reason_too(change):
    trial = change(apply=["/nonexistent/program"])
    assert io_deadman.attempt(trial.folder) == 1
    assert "/nonexistent/program" in trial.reason


def test_nothing_is_tried_twice(change, tmp_path):
    trial = change()
    trial.set_state(io_deadman.STATE_REVERTED)
    assert io_deadman.attempt(trial.folder) == 0
    assert not (tmp_path / "applied").exists()


def test_state_without_a_change(tmp_path):
    assert io_deadman.Trial(str(tmp_path)).state is None


def test_files_are_readable_by_network_daemons(tmp_path):
    old = os.umask(0o077)
    try:
        io_deadman.write({str(tmp_path / "a" / "b.network"): "text"}, {})
    finally:
        os.umask(old)
    assert (tmp_path / "a" / "b.network").stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path / "a") == ["b.network"]


def full_disk(monkeypatch, path):
    """Make one file unwritable."""
    plain = os.replace

    def replace(source, target):
        if target == str(path):
            raise OSError(28, "No space left on device", target)
        plain(source, target)

    monkeypatch.setattr(io_deadman.os, "replace", replace)


def test_a_file_that_cannot_be_restored_does_not_keep_the_network_cut_off(change, tmp_path, monkeypatch):
    trial = change()
    trial.set_state(io_deadman.STATE_APPLIED)
    (tmp_path / "old.conf").write_text("new")
    (tmp_path / "trial.conf").write_text("new")
    full_disk(monkeypatch, tmp_path / "old.conf")
    assert io_deadman.settle(trial.folder) == 0
    assert (tmp_path / "reverted").exists() and not (tmp_path / "trial.conf").exists()
    assert trial.state == io_deadman.STATE_REVERTED and "old.conf cannot be written: No space left on device" in trial.reason


def test_a_change_that_cannot_be_made_permanent_is_reverted(change, tmp_path, monkeypatch):
    trial = change()
    trial.set_state(io_deadman.STATE_APPLIED)
    full_disk(monkeypatch, tmp_path / "old.conf")
    with trial:
        assert "No space left on device" in trial.confirm()
    assert is_old(tmp_path) and (tmp_path / "reverted").exists() and trial.state == io_deadman.STATE_REVERTED
    assert not list(tmp_path.glob(".*.reduced-footprint"))
