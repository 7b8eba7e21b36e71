# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, LostWriteError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_image, io_remote_disk
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_image import DiskImage
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import Partition
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import plan_layout

GIB = 1024**3
LAYOUT = plan_layout([GIB, 2 * GIB], (Partition("/", "ext4", None), Partition("/srv", "ext4", None, disk=1)), (), "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11")


class Program:
    """A program that runs until it is ended."""

    def __init__(self, argv, done, code=None):
        self.argv, self.done, self.code = argv, done, code

    def poll(self):
        return self.code

    def terminate(self):
        self.done.append(f"end {self.argv[0]}")
        self.code = 0

    def wait(self, timeout=None):
        return self.code


class Machine:
    """The machine that has the disks."""

    def __init__(self, done):
        self.done = done

    def up(self):
        self.done.append("up")
        return ["ssh", "-i", "key", "there"]

    def down(self):
        self.done.append("down")

    def socket(self, disk):
        return f"/far/{disk}"


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    """A disk whose programs do at once what is expected of them; returns it, what was done, and the programs."""
    done, programs = [], []
    disk = io_remote_disk.RemoteDisk(LAYOUT, tmp_path / "work", Machine(done), "disk")

    def start(name, argv):
        programs.append(Program(argv, done))
        done.append(f"start {argv[0]}")
        for each in LAYOUT.disks:
            if name == "ssh":
                (disk.far / f"{each.index}.sock").touch()
            elif name == f"disk{each.index}":
                os.truncate(disk.images[each.index], each.size)
        return programs[-1]

    monkeypatch.setattr(disk, "_start", start)
    monkeypatch.setattr(io_remote_disk, "run", lambda argv, ok=(): None)
    monkeypatch.setattr(DiskImage, "detach", lambda self: done.append("detach"))
    monkeypatch.setattr(DiskImage, "attach", lambda self: done.append("attach"))
    return disk, done, programs


def test_disks_use_one_ssh_connection_while_it_lasts(world):
    disk, done, programs = world
    disk.attach()
    assert done == ["detach", "up", "start ssh", "start nbdfuse", "start nbdfuse", "attach"]
    ssh, *files = (each.argv for each in programs)
    assert ssh[:3] == ["ssh", "-i", "key"] and ssh[-1] == "there" and "ExitOnForwardFailure=yes" in ssh
    assert [ssh[number + 1] for number, word in enumerate(ssh) if word == "-L"] == [f"{disk.far}/0.sock:/far/0", f"{disk.far}/1.sock:/far/1"]
    assert files == [["nbdfuse", disk.images[number], f"nbd+unix:///disk?socket={disk.far}/{number}.sock"] for number in (0, 1)]
    disk.attach()
    assert done.count("up") == 1


def test_an_ended_program_leads_to_a_new_connection(world):
    disk, done, programs = world
    disk.attach()
    programs[0].code = 255
    disk.attach()
    assert done.count("up") == 2 and len(programs) == 6 and done.count("end nbdfuse") == 2


def test_the_machine_is_powered_off_on_release(world):
    disk, done, _programs = world
    disk.attach()
    del done[:]
    disk.release()
    assert done == ["detach", "end nbdfuse", "end nbdfuse", "end ssh", "down"]
    assert not [each for each in disk.images if pathlib.Path(each).exists()] and not list(disk.far.glob("*.sock"))


def test_a_failed_program_is_named_with_its_output(world, monkeypatch):
    disk, done, _programs = world

    def start(name, argv):
        (disk.far / f"{name}.log").write_text("one\nadministratively prohibited\n")
        return Program(argv, done, code=255)

    monkeypatch.setattr(disk, "_start", start)
    with pytest.raises(BackendError, match="ssh ended with exit code 255: one | administratively prohibited"):
        disk.attach()


def test_lost_writes_are_an_error(world, monkeypatch):
    disk, _done, programs = world
    # nothing was written to what is not attached
    disk.settle()
    disk.attach()
    disk._loops = {0: "/dev/loop7", 1: "/dev/loop8"}
    monkeypatch.setattr(io_image, "sync_path", lambda path: None)
    disk.settle()

    def broken(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(io_image, "sync_path", broken)
    with pytest.raises(LostWriteError, match="did not reach the bootstrap system's disks.*Input/output error"):
        disk.settle()
    monkeypatch.setattr(io_image, "sync_path", lambda path: None)
    programs[-1].code = 1
    with pytest.raises(BackendError, match="connection to the bootstrap system was lost") as raised:
        disk.settle()
    # it takes nothing any more, so what is on it belongs together
    assert not isinstance(raised.value, LostWriteError)
