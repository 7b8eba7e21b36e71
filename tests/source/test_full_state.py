# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The folder of the journal is full during the pause, on real file systems: the VM is stopped and the source is restored nevertheless."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pathlib
import subprocess
import typing as t

import pytest
from own_mounts import own_mounts

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_return, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.io_vm_guard import VmGuard
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context, vm_details
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import Identity
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PARKED, PHASES, SERVING, Journal

PAUSE = PHASES[PHASES.index("quiesce") :]
# what the smallest xfs takes
SIZE, LEFT = 320 << 20, 24 << 20


@pytest.fixture(name="disk", scope="module", params=["ext4", "xfs", "btrfs"])
def fixture_disk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[pathlib.Path]:
    """Mount a small file system of each kind."""
    folder = tmp_path_factory.mktemp("full")
    image, mount = folder / "image", folder / "mount"
    mount.mkdir()
    with open(image, "wb") as file:
        file.truncate(SIZE)
    subprocess.run([f"mkfs.{request.param}", *(["-q"] if request.param == "ext4" else ["-q", "-f"]), str(image)], check=True, capture_output=True)
    with own_mounts():
        subprocess.run(["mount", "-o", "loop", str(image), str(mount)], check=True)
        room = os.statvfs(mount)
        with open(mount / "ballast", "wb") as file:
            # the rest is soon full, again and again
            os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - LEFT)
        yield mount
        subprocess.run(["umount", str(mount)], check=True)


def settle(disk: pathlib.Path) -> None:
    """Write pending changes to this disk only."""
    subprocess.run(["sync", "-f", str(disk)], check=True)


def fill(disk: pathlib.Path) -> None:
    """Fill the file system completely, with large and small files."""
    for size in (1 << 20, 64 << 10, 4096, 512):
        with contextlib.suppress(OSError), open(disk / f"filler-{size}", "wb", buffering=0) as file:
            while True:
                file.write(os.urandom(size))
        settle(disk)


class FakeSource:
    """A source that only records its requests."""

    address = "192.0.2.3"

    def __init__(self, trace: list[str]) -> None:
        self.trace = trace
        self.state = PARKED
        self.identity = Identity()

    def ask(self, command: str, given: t.Any = None, timeout: float = 0) -> dict[str, t.Any]:
        self.trace.append(command)
        if command == "restore":
            self.state = SERVING
        return {"state": {"state": self.state}, "kept": None}


class Clock:
    """Do nothing: this test does not use the lease."""

    def __init__(self, *unused: t.Any) -> None:
        pass

    def __enter__(self) -> Clock:
        return self

    def __exit__(self, *unused: object) -> None:
        pass


@pytest.mark.parametrize("reserve", [True, False])
@pytest.mark.parametrize("phase", PAUSE)
def test_full_journal_restores_the_source(disk: pathlib.Path, phase: str, reserve: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    trace: list[str] = []
    spec = parse_spec(
        {
            "vm": {"id": "master", "nics": [{"bridge": "b"}], "disks": [{"size": 6}]},
            "admin": {"address": "192.0.2.2", "temporary_address": "192.0.2.3"},
        }
    )
    home = disk / f"{phase}-{reserve}"
    store = JournalStore("master", home)
    store.write_job({"action": run_worker.MIGRATE, "params": {}})
    context = Context(spec, vm_details(spec), store, Journal("master"), tmp_path, t.cast(t.Any, FakeSource(trace)))

    def fail(context: Context, lease: object = None) -> None:
        if not reserve:
            # another program has used the reserved space as well
            store.release()
        fill(disk)
        # as a phase that writes something does
        (home / "something").write_bytes(os.urandom(1 << 16))

    def nothing(context: Context, lease: object = None) -> None:
        pass

    monkeypatch.setattr(run_worker, "open_context", lambda *unused: context)
    monkeypatch.setattr(run_worker, "_BEFORE", dict.fromkeys(PHASES[: PHASES.index("quiesce")], nothing))
    monkeypatch.setattr(run_worker, "_PAUSE", {each: fail if each == phase else nothing for each in PAUSE})
    monkeypatch.setattr(run_worker.run_verify, "catch_up", nothing)
    monkeypatch.setattr(run_worker, "Lease", Clock)
    monkeypatch.setattr(run_worker, "remote", lambda *unused: FakeSource(trace))
    monkeypatch.setattr(run_worker, "_one_destination", nothing)
    monkeypatch.setattr(run_worker, "_release", nothing)
    for each in (run_worker.run_rehearsal, run_worker.run_bootstrap):
        monkeypatch.setattr(each, "sweep", nothing)
    monkeypatch.setattr(run_worker.io_worker_starts, "note", lambda name: [0.0])
    monkeypatch.setattr(run_worker.io_units, "forget_at_boot", lambda unit: None)
    monkeypatch.setattr(Context, "guard", VmGuard("m", tmp_path))
    monkeypatch.setattr(run_return, "stop_clone", lambda each: trace.append("stop") or True)
    monkeypatch.setattr(run_return.io_fence, "open_up", lambda name: trace.append("open"))
    monkeypatch.setattr(run_return, "leave", lambda *unused, **more: None)
    try:
        assert run_worker.main(["master"], home) == 1
    finally:
        for each in [*disk.glob("filler-*"), home / "something"]:
            each.unlink(missing_ok=True)
        settle(disk)
    asked = [each for each in trace if each != "mirror"]
    assert asked[:3] == ["stop", "open", "restore"], trace
    kept = json.loads((store.directory / "journal.json").read_text(encoding="utf-8"))
    # whole in any case; without the reserve it is as old as the disk is full
    assert kept["state"] == ("rolled_back" if reserve else "running")
    if reserve:
        assert os.strerror(errno.ENOSPC) in kept["reason"] and kept["phases"][phase]["state"] == "failed"
