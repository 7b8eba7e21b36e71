# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import io_vm_guard
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.io_vm_guard import VmGuard

UUID = "2c5ea4c0-4067-11e9-8bad-9b1deb4d3b7d"


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    """A guard whose VM is only remembered, and a clock."""

    class World:
        now = 100.0
        stopped: list = []
        guard = VmGuard("m", tmp_path / "run")

    world = World()
    world.stopped = []
    monkeypatch.setattr(io_vm_guard, "clock", lambda: world.now)
    monkeypatch.setattr(io_vm_guard, "stop", lambda *given: world.stopped.append(given))
    return world


def test_a_vm_is_stopped_once_when_its_time_is_over(world):
    world.guard.begin("qemu:///system", UUID, "master", 40, 100.0)
    world.now = 127.9
    assert not world.guard.stop_if_due() and not world.stopped
    world.guard.heard(110.0)
    # an older answer that comes late
    world.guard.heard(105.0)
    world.now = 137.9
    assert not world.guard.stop_if_due()
    world.now = 138.0
    assert world.guard.stop_if_due() and world.stopped == [("qemu:///system", UUID, "master")]
    assert not world.guard.stop_if_due() and world.guard.read() is None


def test_vm_is_not_stopped_after_the_hand_over(world):
    world.guard.begin("qemu:///system", UUID, "master", 40, 100.0)
    world.guard.end()
    world.now = 1000.0
    world.guard.heard(999.0)
    assert not world.guard.stop_if_due() and not world.guard.stop_if_due(at_once=True) and not world.stopped


def test_at_once_does_not_wait(world):
    world.guard.begin("qemu:///system", UUID, "master", 40, 100.0)
    assert world.guard.stop_if_due(at_once=True) and world.stopped


def test_a_vm_that_could_not_be_stopped_is_tried_again(world, monkeypatch):
    def no(*unused):
        raise BackendError("no")

    world.guard.begin("qemu:///system", UUID, "master", 40, 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(io_vm_guard, "stop", no)
        with pytest.raises(BackendError):
            world.guard.stop_if_due()
    assert world.guard.stop_if_due() and world.stopped


def test_decisions_are_serialized_by_the_lock(world, monkeypatch):
    """The record is removed while the VM is being stopped: the second call waits for the first."""
    order = []
    inside, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(io_vm_guard, "stop", lambda *given: (inside.set(), go_on.wait(10), order.append("stopped")))
    world.guard.begin("qemu:///system", UUID, "master", 40, 0.0)
    one = threading.Thread(target=world.guard.stop_if_due)
    one.start()
    inside.wait(10)
    two = threading.Thread(target=lambda: (world.guard.end(), order.append("ended")))
    two.start()
    time.sleep(0.1)
    go_on.set()
    one.join(10)
    two.join(10)
    assert order == ["stopped", "ended"]


def sleeper(folder, argument):
    process = subprocess.Popen(["/bin/sh", "-c", "sleep 60; true", argument])
    (folder / "master.pid").write_text(str(process.pid))
    until = time.monotonic() + 10
    # it begins as a copy of this process
    while argument.encode() not in pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes() and time.monotonic() < until:
        time.sleep(0.01)
    return process


def test_a_process_is_killed_without_libvirtd_if_it_is_that_vm(tmp_path):
    process = sleeper(tmp_path, UUID)
    assert io_vm_guard.kill(UUID, "master", tmp_path)
    assert process.wait(10) == -signal.SIGKILL
    assert not io_vm_guard.kill(UUID, "master", tmp_path)
    other = sleeper(tmp_path, "another")
    assert not io_vm_guard.kill(UUID, "master", tmp_path) and other.poll() is None
    other.kill()
    other.wait()
    assert not io_vm_guard.kill(UUID, "missing", tmp_path)


def test_a_libvirtd_that_hangs_does_not_keep_a_vm_running(tmp_path, monkeypatch):
    ended = threading.Event()

    class Hangs(contextlib.nullcontext):
        def __enter__(self):
            ended.wait(30)
            raise BackendError("libvirtd does not answer")

    process = sleeper(tmp_path, UUID)
    threading.Thread(target=process.wait, daemon=True).start()
    monkeypatch.setattr(io_vm_guard, "DomainHost", Hangs)
    monkeypatch.setattr(io_vm_guard, "PIDS", tmp_path)
    monkeypatch.setattr(io_vm_guard, "_PATIENCE", 0.2)
    io_vm_guard.stop("qemu:///system", UUID, "master")
    ended.set()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
