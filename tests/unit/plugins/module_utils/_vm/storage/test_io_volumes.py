# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes in a real folder: real qemu-img, real tar, and what a killed run leaves."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pathlib
import subprocess
import tarfile
import threading
import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command, io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volume_files
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.plan_volumes import plan_volume


class Place:
    """A pool in a folder, over libvirt's test driver."""

    def __init__(self, host: DomainHost, folder: pathlib.Path) -> None:
        self.folder = folder
        (folder / "images").mkdir(parents=True)
        xml = f"<pool type='dir'><name>p</name><target><path>{folder}</path></target></pool>"
        self.handle = host.connection.storagePoolCreateXML(xml, 0)
        self.store = VolumeStore(host, markers=folder / "markers")
        self.pool = self.store.pool("p", "pool")

    def make(self, hypervisor: str = "qemu", **details: t.Any) -> pathlib.Path:
        """Decide for and make one disk, as a run does."""
        disk = parse_vms([{"id": "a", "hypervisor": hypervisor, "disks": [details]}], cluster="lab")[0].disks[0]
        found = self.store.find(self.pool, disk, "d")
        plan = plan_volume(disk, self.pool, found, None if found else self.store.image(self.pool, disk, "d"), "d")
        if plan.creates:
            self.store.create(plan)
        elif plan.how == "grow":
            self.store.grow(plan, lambda path, size: None)
        return pathlib.Path(self.store.source(self.pool, disk).path)


@pytest.fixture(name="place")
def fixture_place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Place]:
    """A pool of its own."""
    monkeypatch.setattr(io_lock, "lock_folder", lambda: tmp_path / "locks")
    with DomainHost("test:///default") as host:
        place = Place(host, tmp_path / "pool")
        yield place
        place.handle.destroy()


def info(path: pathlib.Path) -> dict[str, t.Any]:
    """What qemu-img says of a file."""
    return json.loads(subprocess.run(["qemu-img", "info", "--output=json", str(path)], check=True, capture_output=True, text=True).stdout)


def image_in(place: Place, name: str, form: str, size: str = "8M") -> pathlib.Path:
    """A base image with something in it."""
    path = place.folder / "images" / name
    subprocess.run(["qemu-img", "create", "-q", "-f", form, str(path), size], check=True)
    subprocess.run(["qemu-io", "-f", form, "-c", "write -P 0x5a 1M 64k", str(path)], check=True, stdout=subprocess.DEVNULL)
    return path


def holds_the_image(path: pathlib.Path, form: str) -> bool:
    """Whether the content of :func:`image_in` is found in a volume."""
    said = subprocess.run(["qemu-io", "-r", "-f", form, "-c", "read -P 0x5a 1M 64k", str(path)], check=False, capture_output=True, text=True)
    return said.returncode == 0 and "failed" not in said.stdout


def root_tar(place: Place, name: str = "root.tar", init: bool = True) -> None:
    """A tiny root file system with what a copy easily loses."""
    root = place.folder.parent / f"tree-{name}"
    (root / "sbin").mkdir(parents=True)
    if init:
        (root / "sbin" / "init").write_text("#!/bin/sh\n")
        (root / "sbin" / "init").chmod(0o4755)
        os.link(root / "sbin" / "init", root / "sbin" / "again")
    with (root / "sparse").open("wb") as stream:
        stream.truncate(64 * MIB)
    os.setxattr(root / "sparse", "user.note", b"kept")
    how = "-z" if name.endswith("gz") else "-c"
    argv = ["tar", how, "--create", "--sparse", "--xattrs", "--file", str(place.folder / "images" / name), "--directory", str(root), "."]
    subprocess.run([word for word in argv if word != "-c"], check=True)


@pytest.mark.parametrize("image", ["raw", "qcow2"])
@pytest.mark.parametrize("form", ["raw", "qcow2"])
def test_a_copy_of_an_image_grows_to_the_size_asked_for(place: Place, image: str, form: str) -> None:
    image_in(place, f"deb.{image}", image)
    path = place.make(image="deb", size="16 MiB", format=form)
    facts = info(path)
    assert (facts["format"], facts["virtual-size"]) == (form, 16 * MIB)
    assert "backing-filename" not in facts
    assert holds_the_image(path, form)


def test_an_img_is_looked_into(place: Place) -> None:
    image_in(place, "cloud.img", "qcow2")
    assert holds_the_image(place.make(image="cloud"), "raw")


@pytest.mark.parametrize("name", ["root.tar", "root.tar.gz", "root.tgz"])
def test_a_root_is_unpacked_whole(place: Place, name: str) -> None:
    root_tar(place, name)
    path = place.make("lxc", image="root")
    assert (path / "sbin" / "init").stat().st_mode & 0o7777 == 0o4755
    assert (path / "sbin" / "init").samefile(path / "sbin" / "again")
    assert (path / "sparse").stat().st_blocks < 1024
    assert os.getxattr(path / "sparse", "user.note") == b"kept"


def test_what_exists_is_never_written_over(place: Place) -> None:
    path = place.make(size="10 MiB")
    with path.open("r+b") as stream:
        stream.write(b"precious")
    image_in(place, "deb.raw", "raw")
    assert place.make(size="10 MiB", image="deb", name=path.name).read_bytes()[:8] == b"precious"


def test_a_leftover_that_cannot_be_removed_prevents_no_other_volume(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # a guest can make a file of its root immutable
    stuck, long = place.folder / ".b-disk0.removing", place.folder / f".{'v' * 63}-disk10.qcow2.partial"
    stuck.mkdir()
    long.write_text("half")
    real = io_volume_files.remove_path

    def remove(path: pathlib.Path) -> None:
        if path == stuck:
            raise PermissionError(errno.EPERM, "Operation not permitted", str(stuck / "file"))
        real(path)

    monkeypatch.setattr(io_volume_files, "remove_path", remove)
    assert place.make(size="1 MiB").exists() and stuck.exists() and not long.exists()
    (place.folder / "b-disk0").mkdir()
    with pytest.raises(BackendError, match=f"cannot remove .*b-disk0: {stuck}/file: Operation not permitted") as raised:
        io_volume_files.remove(place.folder / "b-disk0", False)
    assert raised.value.hint and f"chattr -R -ia {stuck}" in raised.value.hint


def test_a_wipe_that_was_killed_is_completed_although_there_is_a_new_file(place: Place) -> None:
    left, new = place.folder / ".a-seed.iso.wiping", place.folder / "a-seed.iso"
    left.write_bytes(b"secret" * 1000)
    new.write_bytes(b"other")
    with left.open("rb") as stream:
        io_volume_files.remove(new, True)
        assert not stream.read().strip(b"\0")
    assert not left.exists() and not new.exists()


@pytest.mark.parametrize("delay", [0, 0.05, 0.2])
def test_killed_while_unpacking_the_next_run_makes_it_whole(place: Place, delay: float) -> None:
    with tarfile.open(place.folder / "images" / "root.tar", "w") as tar:
        for number in range(20000):
            tar.addfile(tarfile.TarInfo(f"./{number // 1000}/{number}"))
        tar.addfile(tarfile.TarInfo("./sbin/init"))
    partial = place.folder / ".a-disk0.partial"
    victim = multiprocessing.get_context("fork").Process(target=place.make, args=("lxc",), kwargs={"image": "root"})
    victim.start()
    while not partial.exists():
        time.sleep(0.001)
    time.sleep(delay)
    victim.kill()
    victim.join()
    assert not (place.folder / "a-disk0").exists()
    # its tar went with it: nothing is written any more (a busy machine takes a moment to bury it)
    time.sleep(0.5)
    before = sum(len(files) for unused, unused, files in os.walk(partial))
    time.sleep(0.1)
    assert sum(len(files) for unused, unused, files in os.walk(partial)) == before < 20001
    path = place.make("lxc", image="root")
    assert sum(len(files) for unused, unused, files in os.walk(path)) == 20001
    assert not partial.exists()


@pytest.mark.parametrize("details", [{"hypervisor": "lxc", "image": "root"}, {"image": "deb", "size": "16 MiB"}])
def test_a_failure_leaves_nothing_usable(place: Place, details: dict[str, t.Any], monkeypatch: pytest.MonkeyPatch) -> None:
    root_tar(place)
    image_in(place, "deb.qcow2", "qcow2")
    real = io_command.run

    def fails_late(argv: t.Sequence[str], **options: t.Any) -> t.Any:
        if ("sync" in argv or "qemu-img" in argv) and "info" not in argv:
            real(argv, **options)
            raise BackendError("the power went")
        return real(argv, **options)

    monkeypatch.setattr(io_command, "run", fails_late)
    with pytest.raises(BackendError, match="the power went"):
        place.make(**details)
    assert sorted(entry.name for entry in place.folder.iterdir()) == ["images"]
    monkeypatch.undo()
    assert place.make(**details).exists()


def bad_image(place: Place, name: str, content: bytes) -> None:
    """A file with the wrong suffix."""
    (place.folder / "images" / name).write_bytes(content)


WRONG = [
    ("missing", "qemu", "deb", "the base image 'deb' does not exist in "),
    ("not qcow2", "qemu", "broken", "has the suffix .qcow2, but its format is raw"),
    ("not a tar", "lxc", "broken", "is not a tar"),
    ("on top of another", "qemu", "layered", "needs a backing file"),
    ("with its content in another file", "qemu", "outside", "outside.qcow2 stores its content in another file"),
]


@pytest.mark.parametrize("hypervisor, image, message", [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_invalid_image_is_refused(place: Place, hypervisor: str, image: str, message: str) -> None:
    bad_image(place, "broken.qcow2", b"hello")
    bad_image(place, "broken.tar", b"hello" * 1000)
    base = image_in(place, "base.qcow2", "qcow2")
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", "qcow2", str(place.folder / "images" / "layered.qcow2")]
    subprocess.run(argv, check=True)
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-o", f"data_file={place.folder}/secret", str(place.folder / "images" / "outside.qcow2"), "8M"]
    subprocess.run(argv, check=True)
    with pytest.raises(InputError, match=message) as raised:
        place.make(hypervisor, image=image)
    assert raised.value.path == "d.image"
    assert raised.value.hint


def test_tar_without_init_is_refused_and_leaves_nothing(place: Place) -> None:
    root_tar(place, init=False)
    with pytest.raises(BackendError, match="contains no /sbin/init"):
        place.make("lxc", image="root")
    assert sorted(entry.name for entry in place.folder.iterdir()) == ["images"]


def test_truncated_tar_is_refused_and_leaves_nothing(place: Place) -> None:
    root_tar(place, "root.tar.gz")
    path = place.folder / "images" / "root.tar.gz"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FootprintError, match="ended with exit code 2: .*gzip"):
        place.make("lxc", image="root")
    assert sorted(entry.name for entry in place.folder.iterdir()) == ["images"]


def test_file_in_place_of_a_folder_is_refused(place: Place) -> None:
    (place.folder / "a-disk0").write_text("")
    with pytest.raises(RefusedError, match="is not a directory"):
        place.make("lxc", image="root")


def test_pools_must_exist_and_be_active(place: Place) -> None:
    with pytest.raises(InputError, match="^pool: the host has no storage pool 'nowhere'"):
        place.store.pool("nowhere", "pool")


def test_vms_of_one_call_wait_for_each_other_as_long_as_it_takes(place: Place) -> None:
    # the timeout is for other runs: VMs that are removed in parallel wait while the disks of the first are wiped
    store = VolumeStore(place.store.host, markers=place.folder / "markers", lock_timeout=0)
    begun, failures = threading.Event(), []

    def work(seconds: float) -> None:
        try:
            with store.locked(place.pool):
                begun.set()
                time.sleep(seconds)
        except BackendError as error:
            failures.append(error)

    first = threading.Thread(target=work, args=(0.3,))
    first.start()
    assert begun.wait(10)
    work(0)
    first.join()
    assert failures == []


def test_images_on_their_way_count_in_check_mode(place: Place) -> None:
    with DomainHost("test:///default") as host:
        store = VolumeStore(host, pending=["soon.tar"])
        pool = store.pool("p", "pool")
        disk = parse_vms([{"id": "a", "hypervisor": "lxc", "disks": [{"image": "soon"}]}], cluster="lab")[0].disks[0]
        assert store.image(pool, disk, "d").format == "tar"


def test_a_new_volume_replaces_nothing_that_was_created_meanwhile(tmp_path):
    final = tmp_path / "m-disk0"
    with pytest.raises(BackendError, match="cannot create .*: File exists"), io_volume_files.created_atomically(final) as partial:
        partial.write_bytes(b"new")
        final.write_bytes(b"the only copy of something else")
    assert final.read_bytes() == b"the only copy of something else" and os.listdir(tmp_path) == ["m-disk0"]
