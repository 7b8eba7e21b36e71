# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A copied system whose programs are hostile: update-initramfs, grub-install and grub-mkconfig try to leave their container."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sysconfig
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy import io_boot, io_sandbox
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_image import DiskImage, loops_of
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import Partition
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import plan_layout
from tests.support.own_mounts import own_mounts

MIB = 1 << 20
HERE = pathlib.Path(__file__).resolve().parent
PYTHON = pathlib.Path("/usr/bin/python3").resolve()
CORE_PATTERN = pathlib.Path("/proc/sys/kernel/core_pattern")
# a boot loader that writes over the whole disk it is given, and one that names the root
INSTALL = "#!{python}\nimport os, sys\nwith open(sys.argv[-1], 'r+b') as disk:\n    size = disk.seek(0, 2)\n    disk.seek(0)\n    disk.write(b'\\xee' * size)\n"
CONFIG = "#!{python}\nimport sys\nopen(sys.argv[-1], 'w').write('linux /vmlinuz root=UUID={uuid} ro')\n"


def libraries(paths: t.Sequence[str]) -> set[str]:
    """The shared libraries of programs, with the dynamic linker."""
    said = subprocess.run(["ldd", *paths], check=True, capture_output=True, text=True).stdout
    return {word for line in said.splitlines() for word in line.split() if word.startswith("/") and not word.endswith(":")}


def fill(top: pathlib.Path) -> None:
    """Put a Python into the copy, with which the hostile programs are written."""
    standard = pathlib.Path(sysconfig.get_path("stdlib", vars={"base": "/usr", "installed_base": "/usr"}))
    shutil.copytree(standard, top / str(standard)[1:], ignore=shutil.ignore_patterns("test", "__pycache__", "config-*", "ensurepip", "dist-packages"))
    programs = [str(PYTHON), "/usr/bin/env"]
    for path in {*programs, *libraries([*programs, *glob.glob(f"{standard}/lib-dynload/*.so")])}:
        target = top / os.path.realpath(os.path.dirname(path))[1:] / os.path.basename(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for name in ("lib", "lib64", "bin", "sbin"):
        (top / f"usr/{name}").mkdir(parents=True, exist_ok=True)
        (top / name).symlink_to(f"usr/{name}")


ROOTS = (Partition("/", "ext4", None), Partition("/", "xfs", None), Partition("/", "btrfs", None, subvolumes=(("/", "@"), ("/var", "@var"))))


@pytest.fixture(name="image", params=ROOTS, ids=lambda root: root.fs)
def fixture_image(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> t.Iterator[DiskImage]:
    """The disk of a copy that has a kernel and hostile programs."""
    layout = plan_layout([1024 * MIB], (request.param, Partition("/boot", "ext4", 128 * MIB)), (), "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11")
    path = tmp_path / "disk.raw"
    path.touch()
    os.truncate(path, layout.size)
    image = DiskImage([str(path)], layout, tmp_path / "work")
    # that of the worker's unit
    before = os.umask(0o077)
    with own_mounts():
        try:
            image.write_table()
            image.make_filesystems()
            tree = image.mount()
            top = pathlib.Path(tree.place("/"))
            fill(top)
            uuid = {each.mount: each.uuid for each in layout.partitions}["/"]
            programs = {
                "update-initramfs": f"#!{PYTHON}\n{(HERE / 'hostile.py').read_text()}",
                "grub-install": INSTALL.format(python=PYTHON),
                "grub-mkconfig": CONFIG.format(python=PYTHON, uuid=uuid),
            }
            for name, text in programs.items():
                tree.write(f"/usr/sbin/{name}", text)
                os.chmod(tree.place(f"/usr/sbin/{name}"), 0o755)
            for folder in ("/boot/grub", "/var/tmp"):
                tree.make_folder(folder)
            tree.write("/boot/vmlinuz-1", "kernel")
            yield image
        finally:
            image.release()
            os.umask(before)


@pytest.fixture(name="host")
def fixture_host(tmp_path: pathlib.Path) -> t.Iterator[dict[str, t.Any]]:
    """What a program must not reach: a file, a disk, a process, a port and a socket of this host."""
    marker, disk = tmp_path / "marker", tmp_path / "victim.raw"
    marker.write_text("of the host")
    disk.write_bytes(os.urandom(MIB))
    loop = subprocess.run(["losetup", "--find", "--show", str(disk)], check=True, capture_output=True, text=True).stdout.strip()
    with subprocess.Popen(["sleep", "600"]) as process, socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        try:
            local.bind(f"\0footprint-test-{os.getpid()}")
            local.listen()
            device = os.stat(loop).st_rdev
            yield {
                "marker": str(marker),
                "devices": [[os.major(each), os.minor(each)] for each in (device, os.stat("/").st_dev)],
                "pid": process.pid,
                "port": server.getsockname()[1],
                "socket": f"footprint-test-{os.getpid()}",
            }
            assert process.poll() is None
        finally:
            process.kill()
            subprocess.run(["losetup", "--detach", loop], check=True)


def state(tmp_path: pathlib.Path) -> tuple[str, ...]:
    """What must be the same before and after."""
    victims = [hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("marker", "victim.raw")]
    return (*victims, CORE_PATTERN.read_text(), pathlib.Path("/proc/thread-self/mountinfo").read_text())


def test_a_hostile_copy_stays_in_its_container(image: DiskImage, host: dict[str, t.Any], tmp_path: pathlib.Path) -> None:
    tree = image.tree
    tree.write("/etc/host.json", json.dumps({**host, "disk": image.loop}))
    # a device node that was copied from the source
    os.mknod(os.path.join(tree.place("/etc"), "disk"), stat.S_IFBLK | 0o666, os.makedev(*host["devices"][0]))
    before = state(tmp_path)
    with open(image.loop, "rb") as disk:
        table = disk.read(2 * MIB)
    io_boot.make_bootable(image)
    report = json.loads(tree.read_text("/boot/initrd.img-1") or "")
    done = {name: how for name, how in report["attempts"].items() if not how.startswith("refused")}
    assert done == {} and len(report["attempts"]) >= 25
    # its own work is possible: files of several users, a device of its own that it can read
    assert report["users"] == ["0", *map(str, io_sandbox.USERS)]
    assert report["own"] == ["chown", "read disk", "find disk"]
    assert report["devices"] == sorted({os.path.basename(image.loop), *(os.path.basename(image.node(each)) for each in image.layout.partitions)})
    assert state(tmp_path) == before
    # of what it wrote to its disk, only the boot code is taken over
    with open(image.loop, "rb") as disk:
        now = disk.read(4 * MIB)
    assert now[:440] == b"\xee" * 440 and now[MIB : 2 * MIB] == b"\xee" * MIB
    assert now[440:MIB] == table[440:MIB] and b"\xee" * 512 not in now[2 * MIB :]
    assert loops_of(image.images[0]) == [image.loop] and not os.path.exists(image.work / "boot.img")


def test_nothing_of_the_container_remains_after_a_failure(image: DiskImage) -> None:
    image.tree.write("/usr/sbin/update-initramfs", f"#!{PYTHON}\nraise SystemExit('no space in the initramfs')\n")
    mounts = pathlib.Path("/proc/thread-self/mountinfo").read_text()
    with pytest.raises(CommandError, match="update-initramfs ended with exit code 1: no space in the initramfs"):
        io_boot.make_bootable(image)
    assert pathlib.Path("/proc/thread-self/mountinfo").read_text() == mounts and loops_of(image.images[0]) == [image.loop]


def test_a_program_that_hangs_is_ended_with_all_it_started(image: DiskImage) -> None:
    image.tree.write("/usr/sbin/update-initramfs", f"#!{PYTHON}\nimport os, time\nos.fork() or os.setsid()\ntime.sleep(987.6)\n")
    os.chmod(image.tree.place("/usr/sbin/update-initramfs"), 0o755)
    with io_sandbox.Sandbox(image) as system:
        with pytest.raises(CommandError, match="update-initramfs timed out"):
            system.run(["update-initramfs"], timeout=3)
    left = subprocess.run(["ps", "-e", "-o", "uid="], check=True, capture_output=True, text=True).stdout.split()
    assert str(io_sandbox.USERS[0]) not in left


def test_a_copy_without_folders_for_the_container_is_refused(image: DiskImage) -> None:
    image.tree.unlink("/tmp")
    os.symlink("/etc", os.path.join(image.tree.place("/"), "tmp"))
    with pytest.raises(io_sandbox.BackendError, match="/tmp of the copy is not a folder"):
        io_boot.make_bootable(image)
