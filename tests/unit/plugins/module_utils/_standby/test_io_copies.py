# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies on the standby, with real images: complete, partial, merged, interrupted."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies, plan_standby
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Copy, CopyDisk

SIZE = 1 << 20


def names_of(number: int) -> str:
    """The name of a copy."""
    return f"20261124T1000{number:02}Z"


class Standby:
    """The copies of one VM, in a folder of the test."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.store = io_copies.CopyStore("lab", "m", folder / "copies")
        self.store.directory.mkdir(parents=True)
        self.path = str(folder / "pool" / "m-disk0")
        (folder / "pool").mkdir(exist_ok=True)

    def disk(self, number: int) -> CopyDisk:
        """The disk in a copy."""
        return CopyDisk("vda", self.path, "qcow2", SIZE, self.store.image(self.path, names_of(number), "vda"))

    def begin(self, number: int) -> bool:
        """Begin a copy, and write its number at its own place and at a common one."""
        copies = self.store.copies()
        disk = self.disk(number)
        self.store.note_folders([disk])
        kept = self.store.prepare(copies[-1] if copies else None, [disk])
        partial = self.store.image(self.path, "partial", "vda")
        commands = [f"write -q -P {number} 0 4096", f"write -q -P {number} {number * 8192} 4096"]
        subprocess.run(["qemu-io", "-f", "qcow2", *(word for each in commands for word in ("-c", each)), partial], check=True)
        return kept

    def commit(self, number: int) -> None:
        """Complete the copy."""
        disk = self.disk(number)
        copy = Copy(names_of(number), "m", "u", "m", "metal1", float(number), float(number), False, "full", 1, 1.0, "<domain/>", {}, True, (disk,))
        self.store.commit(copy, {"vda": plan_standby.blank(SIZE)})

    def content(self, number: int) -> bytes:
        """Read a copy."""
        copy = next(each for each in self.store.copies() if each.id == names_of(number))
        target = f"{self.path}.raw"
        subprocess.run(["qemu-img", "convert", "-O", "raw", copy.disks[0].file, target], check=True)
        return pathlib.Path(target).read_bytes()

    def images(self) -> list[str]:
        """The images in the pool."""
        return sorted(each.name for each in (pathlib.Path(self.path).parent / "standby/lab").iterdir())


def expected(number: int) -> bytes:
    """The content of a copy when all before it were made."""
    content = bytearray(SIZE)
    for each in range(1, number + 1):
        content[each * 8192 : each * 8192 + 4096] = bytes([each]) * 4096
    content[:4096] = bytes([number]) * 4096
    return bytes(content)


@pytest.fixture(name="standby")
def fixture_standby(tmp_path: pathlib.Path) -> Standby:
    """A standby with three copies."""
    made = Standby(tmp_path)
    for number in (1, 2, 3):
        made.begin(number)
        made.commit(number)
    return made


def test_copies(standby: Standby) -> None:
    assert [each.id for each in standby.store.copies()] == [names_of(number) for number in (1, 2, 3)]
    assert [standby.content(number) == expected(number) for number in (1, 2, 3)] == [True] * 3
    assert standby.store.partial() is None and standby.store.used() > 0


def test_prune_keeps_the_content(standby: Standby) -> None:
    standby.store.prune([names_of(1)])
    assert [standby.content(number) == expected(number) for number in (2, 3)] == [True] * 2
    assert len(standby.images()) == 2
    standby.store.prune([names_of(2)])
    assert standby.content(3) == expected(3) and len(standby.images()) == 1
    assert not standby.store.layers(standby.store.copies()[0].disks[0].file)


def test_interrupted_prune_is_completed(standby: Standby, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*unused: object, **also: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # after the merge into the lower image, before that takes the name
        patch.setattr(io_copies, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            standby.store.prune([names_of(1)])
    assert [standby.content(number) == expected(number) for number in (2, 3)] == [True] * 2
    with monkeypatch.context() as patch:
        patch.setattr(standby.store, "merge", killed)
        with pytest.raises(KeyboardInterrupt):
            standby.store.prune([names_of(2)])
    assert standby.content(3) == expected(3)
    # two merges are pending now
    standby.begin(4)
    standby.store.merge()
    assert standby.content(3) == expected(3)
    standby.commit(4)
    standby.store.merge()
    assert [standby.content(number) == expected(number) for number in (3, 4)] == [True] * 2
    assert len(standby.images()) == 2


def test_partial_copy_is_no_copy(standby: Standby) -> None:
    assert standby.begin(4) is False
    assert [each.id for each in standby.store.copies()][-1] == names_of(3)
    # the same base again: it is continued
    assert standby.begin(4) is True
    assert standby.store.allocated(standby.disk(4))
    standby.store.discard_partial()
    assert len(standby.images()) == 3 and standby.content(3) == expected(3)


def test_kill_between_images_and_manifest(standby: Standby, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*unused: object, **also: object) -> None:
        raise KeyboardInterrupt

    standby.begin(4)
    with monkeypatch.context() as patch:
        patch.setattr(io_copies, "write_atomic", killed)
        with pytest.raises(KeyboardInterrupt):
            standby.commit(4)
    assert [each.id for each in standby.store.copies()][-1] == names_of(3)
    standby.begin(5)
    standby.commit(5)
    assert standby.content(3) == expected(3)
    assert names_of(4) not in " ".join(standby.images())


@pytest.mark.parametrize("answer", ["echo 'Too many open files' >&2; exit 1", "echo '{}'", "echo"])
def test_unknown_layers_are_kept(standby: Standby, answer: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        # after the merge of copy 1 was interrupted
        patch.setattr(standby.store, "merge", lambda: None)
        standby.store.prune([names_of(1)])
    standby.begin(4)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "qemu-img").write_text(f"#!/bin/sh\n{answer}\n", "ascii")
    (tmp_path / "bin" / "qemu-img").chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
        standby.store.discard_partial()
        with pytest.raises(BackendError):
            standby.store.merge()
    assert len(standby.images()) == 3 and "partial" not in " ".join(standby.images())
    standby.store.merge()
    assert [standby.content(number) == expected(number) for number in (2, 3)] == [True] * 2 and len(standby.images()) == 2


def test_the_images_of_a_copy_whose_description_is_damaged_are_kept(standby: Standby) -> None:
    described = standby.store.directory / names_of(3) / "copy.json"
    text = described.read_text("utf-8")
    for path in standby.store.directory.glob("*Z/copy.json"):
        path.write_text("{half", "ascii")
    standby.store.discard_partial()
    described.write_text(text, "utf-8")
    assert len(standby.images()) == 3 and standby.content(3) == expected(3)
    # all are removed on request
    assert standby.store.remove() and not standby.images()


def test_images_of_other_vms_are_kept(standby: Standby) -> None:
    other = pathlib.Path(standby.path).parent / "standby/lab" / f"m-2-{names_of(1)}-vda.qcow2"
    other.write_bytes(b"of the VM m-2")
    standby.store.discard_partial()
    assert other.exists()
    assert standby.store.remove() is True and standby.store.remove() is False
    assert standby.images() == [other.name]


def test_images_of_another_cluster_are_kept(standby: Standby) -> None:
    green = io_copies.CopyStore("green", "m", standby.store.directory.parent.parent)
    green.directory.mkdir(parents=True)
    disk = CopyDisk("vda", standby.path, "qcow2", SIZE, green.image(standby.path, names_of(1), "vda"))
    green.note_folders([disk])
    green.prepare(None, [disk])
    assert len(standby.images()) == 3
    green.discard_partial()
    assert green.remove() and [standby.content(number) == expected(number) for number in (1, 2, 3)] == [True] * 3
    green.prepare(None, [disk])
    standby.store.remove()
    assert pathlib.Path(green.image(standby.path, "partial", "vda")).exists()


def test_record(standby: Standby) -> None:
    home = standby.store.directory.parent.parent
    assert standby.store.record()["state"] == "receiving" and io_copies.CopyStore("lab", "other", home).record() == {"state": "receiving"}
    standby.store.write_record({"state": "started", "at": 1.0})
    assert io_copies.CopyStore("lab", "m", home).record()["state"] == "started"
    # a VM with the same ID of another cluster, which uses the same server
    assert io_copies.CopyStore("green", "m", home).record() == {"state": "receiving"}


def test_room(tmp_path: pathlib.Path) -> None:
    io_copies.check_room(str(tmp_path), 1, "m")
    with pytest.raises(BackendError, match="bytes free"):
        io_copies.check_room(str(tmp_path), 1 << 60, "m")
    with pytest.raises(BackendError, match="does not exist"):
        io_copies.check_room(str(tmp_path / "missing"), 1, "m")


def test_copies_survive_a_pool_that_is_not_mounted(standby: Standby, tmp_path: pathlib.Path) -> None:
    second = tmp_path / "pool2"
    disks = {}
    for number in (4, 5):
        copies = standby.store.copies()
        image = standby.store.image(f"{second}/m", names_of(number), "vdb")
        disks[number] = [standby.disk(number), CopyDisk("vdb", str(second / "m-disk1"), "qcow2", SIZE, image)]
        standby.store.note_folders(disks[number])
        standby.store.prepare(copies[-1] if number == 5 else None, disks[number])
        given = Copy(names_of(number), "m", "u", "m", "metal1", 1.0, 1.0, False, "full", 1, 1.0, "<domain/>", {}, True, tuple(disks[number]))
        standby.store.commit(given, {})
    standby.store.prune([names_of(number) for number in (1, 2, 3)])
    before = standby.images()
    second.rename(tmp_path / "hidden")
    second.mkdir()
    assert standby.store.copies() == []
    standby.store.prepare(None, disks[4])
    standby.store.discard_partial()
    assert standby.images() == before
    (second / "standby/lab").rmdir()
    (second / "standby").rmdir()
    second.rmdir()
    (tmp_path / "hidden").rename(second)
    assert [each.id for each in standby.store.copies()] == [names_of(4), names_of(5)]
    # all that is left of them is removed with the copies, also what is not complete
    pathlib.Path(disks[4][1].file).unlink()
    assert standby.store.remove() and standby.images() == []


def test_nothing_is_received_or_started_where_the_pool_is_not_mounted(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_copies.PoolMounts, "missing", lambda self, path: "/srv" if path == str(tmp_path) else None)
    with pytest.raises(BackendError, match="on the file system of /srv, which is not mounted"):
        io_copies.check_room(str(tmp_path), 0, "m")
    io_copies.check_room("/", 0, "m")
