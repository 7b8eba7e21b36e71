# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the disks of this server, and write a system to one of them."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import pathlib
import subprocess
import tempfile
import time
import typing as t

from ansible.module_utils.urls import open_url
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command, io_files, io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError

#: Where the system is written. Nothing else is mounted there.
TARGET = "/mnt/footprint-install"
BOOT_SYSTEM = "/etc/reduced.footprint/boot-system.json"
#: In memory: the installation that this boot of the small system has completed.
_DONE = io_files.RUN / "installed"
_ARCHIVE = "root.tar.zst"
_COLUMNS = "NAME,PATH,TYPE,SIZE,SERIAL,RO,LOG-SEC,MOUNTPOINTS"
_TIMEOUT = 600.0
_BLOCK = 1 << 20
_INSIDE = ("dev", "proc", "sys", "run")


def require_root() -> None:
    """Refuse to run as another user."""
    if os.geteuid():
        raise BackendError("only root can write disks.", hint="Set become: true.")


def lock() -> t.ContextManager[None]:
    """Hold the lock of the installation. A module whose caller was killed may still be running."""
    return io_lock.host_lock("install", 3600)


def in_boot_system() -> bool:
    """Whether this is the small system in memory."""
    return os.path.exists(BOOT_SYSTEM)


def uefi() -> bool:
    """Whether the firmware that booted is UEFI."""
    return os.path.isdir("/sys/firmware/efi")


def command_line() -> str:
    """Return the command line of the kernel."""
    return pathlib.Path("/proc/cmdline").read_text("utf-8")


def lsblk() -> str:
    """Return the block devices as JSON."""
    return _run("lsblk", "--json", "--bytes", "--output", _COLUMNS)


def label(device: str) -> str:
    """Return the id of a partition table, read from the disk; empty without one."""
    argv = ["blkid", "--probe", "--output", "value", "--match-tag", "PTUUID", device]
    return io_command.run(argv, timeout=_TIMEOUT, ok=(0, 2)).stdout.strip()


def signatures(device: str) -> str:
    """Return the signatures on a device as JSON, read from the disk."""
    return _run("wipefs", "--no-act", "--json", device)


def has_bytes(device: str) -> bool:
    """Whether the beginning of a disk contains anything but zeros: data of an application has no signature."""
    with open(device, "rb") as stream:
        return any(stream.read(_BLOCK))


def last_mounted(device: str) -> str:
    """Return where the ext4 file system on a device was last mounted for writing; empty if it never was, or if the device has no ext4.

    Positions in the super block: https://docs.kernel.org/filesystems/ext4/super.html
    """
    with open(device, "rb") as stream:
        stream.seek(1024)
        block = stream.read(1024)
    return block[0x88:0xC8].partition(b"\0")[0].decode("utf-8", "replace") if block[0x38:0x3A] == b"\x53\xef" else ""


def activate(device: str, group: str) -> None:
    """Activate the volumes of a group."""
    _run("vgchange", "--devices", device, "--activate", "y", group)
    _run("udevadm", "settle")


def groups() -> str:
    """Return the physical volumes as JSON."""
    return _run("pvs", "--reportformat", "json", "--options", "pv_name,vg_name")


def mark(path: str) -> str | None:
    """Return the text of a file of this system."""
    return io_files.read_text(f"/{path}")


def fetch(url: str) -> str:
    """Return the text at a URL."""
    with _opened(f"{url}/root.json") as stream:
        return str(stream.read(_BLOCK).decode("utf-8", "replace"))


@contextlib.contextmanager
def _opened(url: str) -> t.Iterator[t.Any]:
    hint = "Apply the role boot_server with boot_server_root: true, or install_server with install_server_boot_server."
    try:
        stream = open_url(url, timeout=60, use_proxy=False)
    # open_url raises a dozen kinds of exceptions; all of them mean that it cannot be read
    except Exception as error:  # pylint: disable=broad-exception-caught
        raise BackendError(f"{url} cannot be read: {error}.", hint=hint) from error
    with stream:
        yield stream


def done(request: str) -> bool:
    """Whether this boot of the small system has completed an installation."""
    return io_files.read_text(_DONE) == request


def set_done(request: str | None) -> None:
    """Record that an installation was completed, or that it is not."""
    if request is None:
        _DONE.unlink(missing_ok=True)
    else:
        io_files.write_atomic(_DONE, request)


def release(mapped: t.Sequence[str]) -> None:
    """Unmount what an interrupted run left, and remove its mapped devices.

    :arg mapped: of the disk, those on top first.
    """
    end = time.monotonic() + 60
    while _mounted():
        try:
            _run("umount", "--recursive", TARGET)
        except CommandError:
            # a command inside may still end
            if time.monotonic() > end:
                raise
            time.sleep(1)
    for device in mapped:
        _run("dmsetup", "remove", "--retry", device)


def _mounted() -> bool:
    lines = pathlib.Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
    return any(line.split()[4] == TARGET for line in lines)


def partition(device: str, parts: t.Sequence[str], table: str) -> list[str]:
    """Replace the partition table of a disk; the devices of the partitions.

    :arg parts: the devices on the disk, whose signatures are removed.
    """
    for part in (*parts, device):
        _run("wipefs", "--all", "--force", part)
    _run("sfdisk", "--quiet", "--wipe", "always", "--wipe-partitions", "always", "--label", "gpt", device, stdin=table)
    _run("udevadm", "settle")
    lines = _run("sfdisk", "--dump", device).splitlines()
    return [line.partition(" :")[0].strip() for line in lines if line.startswith("/dev/")]


def set_label(device: str, wanted: str) -> None:
    """Replace the id of a partition table."""
    _run("sfdisk", "--disk-id", device, wanted)
    io_files.sync_path(device)


def make_esp(device: str, volume: str) -> None:
    """Create the file system of the EFI system partition.

    :arg volume: its id, eight hexadecimal digits.
    """
    _run("mkfs.vfat", "-F", "32", "-n", "ESP", "-i", volume, device)


def make_root(device: str, uuid: str) -> None:
    """Create the root file system."""
    _run("mkfs.ext4", "-q", "-F", "-L", "root", "-U", uuid, device)


def make_volume(device: str, group: str, size: int) -> str:
    """Create a volume group and the volume root in it; its device. Other disks are neither read nor written."""
    only = ("--devices", device, "--yes")
    _run("pvcreate", *only, "--force", "--force", device)
    _run("vgcreate", *only, group, device)
    _run("lvcreate", *only, "--wipesignatures", "y", "--name", "root", "--size", f"{size}b", group)
    _run("udevadm", "settle")
    return f"/dev/{group}/root"


def mount(device: str, place: str) -> None:
    """Mount a file system below the target."""
    path = pathlib.Path(TARGET) / place
    path.mkdir(parents=True, exist_ok=True)
    if not place:
        # services have mount namespaces of their own, in which mounts below a copy of /sys would stay and keep the file system in use
        _run("mount", "--bind", TARGET, TARGET)
        _run("mount", "--make-private", TARGET)
    _run("mount", device, str(path))


def unpack(url: str, sha256: str) -> None:
    """Unpack the archive of the boot server into the target, while it is received."""
    digest = hashlib.sha256()
    argv = ["tar", "--extract", "--zstd", "--numeric-owner", "--preserve-permissions", "--xattrs", "--xattrs-include=*", "--directory", TARGET, "--file", "-"]
    with _opened(f"{url}/{_ARCHIVE}") as stream:
        # errors go to a file: on a full or failing disk there is one for each file, and tar would wait until someone reads them
        with tempfile.TemporaryFile() as errors:
            # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
            with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors) as process:
                if process.stdin is None:
                    raise AssertionError("tar has no input")
                with contextlib.suppress(BrokenPipeError):
                    for block in _blocks(stream, f"{url}/{_ARCHIVE}"):
                        digest.update(block)
                        process.stdin.write(block)
                    process.stdin.close()
            errors.seek(0)
            problem = errors.read(_BLOCK).decode("utf-8", "replace")
    if process.returncode:
        raise CommandError(argv, process.returncode, problem)
    if digest.hexdigest() != sha256:
        raise BackendError(f"{url}/{_ARCHIVE} is not what {url}/root.json describes.", hint="Wait until the boot server has built it, and run again.")


def _blocks(stream: t.Any, url: str) -> t.Iterator[bytes]:
    """Yield the blocks of an answer."""
    while True:
        try:
            block = stream.read(_BLOCK)
        except (OSError, http.client.HTTPException) as error:
            hint = "Check the boot server and the network between, and run again, which starts the installation again."
            raise BackendError(f"{url} was not received to its end: {error}.", hint=hint) from error
        if not block:
            return
        yield block


def put(path: str, text: str, mode: int) -> None:
    """Write a file of the target."""
    target = pathlib.Path(TARGET) / path
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if path.startswith("root/") else 0o755)
    # a link of the archive could lead out of the target
    target.unlink(missing_ok=True)
    target.touch(mode)
    target.write_text(text, "utf-8")
    target.chmod(mode)


def boot_loader(device: str, firmware_uefi: bool) -> None:
    """Install the boot loader with the programs of the target.

    :arg device: the disk.
    """
    # grub-probe finds the file systems by their links in /dev
    _run("udevadm", "settle")
    for name in _INSIDE:
        # with the variables of the firmware; without slave, unmounting would unmount them here as well
        how = ("--rbind", "--make-rslave") if name == "sys" else ("--bind",)
        _run("mount", *how, f"/{name}", f"{TARGET}/{name}")
    if firmware_uefi:
        # removable: firmware that lost its variables still finds it
        argv = ["grub-install", "--target=x86_64-efi", "--efi-directory=/boot/efi", "--bootloader-id=debian", "--force-extra-removable"]
        try:
            _inside(*argv)
        except CommandError:
            # the variables of the firmware may be full or read-only
            _inside(*argv, "--no-nvram")
    else:
        _inside("grub-install", "--target=i386-pc", device)
    _inside("update-grub")


def finish(group: str | None, part: str) -> None:
    """Write everything to the disk, and leave the target.

    :arg part: the device of the volume group.
    """
    _run("sync")
    release(())
    if group:
        # all of it is written, and the server restarts next
        with contextlib.suppress(CommandError):
            _run("vgchange", "--devices", part, "--activate", "n", group)
    _run("sync")


def _inside(*argv: str) -> str:
    return _run("chroot", TARGET, *argv)


def _run(*argv: str, stdin: str | None = None) -> str:
    return io_command.run(argv, stdin=stdin, timeout=_TIMEOUT, variables={"LVM_SUPPRESS_FD_WARNINGS": "1"}).stdout
