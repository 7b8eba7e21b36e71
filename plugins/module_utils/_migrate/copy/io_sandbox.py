# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container for the programs of the copy, because root on the source decides what they do.

systemd-nspawn gives them namespaces of their own, users that have no rights on this host, and no network. Of this host's devices they
see their own disks, read-only, and a small empty disk for the boot loader, whose boot code is copied to the real one.
"""

from __future__ import annotations

import os
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed, run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_image
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import RAW

#: First user of the container and their number; the range is not in use by systemd, accounts or other containers.
USERS = (0x70000000, 0x10000000)
# of those that systemd-nspawn keeps; the rest concerns the owners and modes of files
_NO_CAPABILITIES = ",".join(
    f"CAP_{each}"
    for each in (
        "AUDIT_CONTROL", "AUDIT_WRITE", "IPC_OWNER", "KILL", "LEASE", "LINUX_IMMUTABLE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW",
        "SETFCAP", "SETPCAP", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_NICE", "SYS_PTRACE", "SYS_RESOURCE", "SYS_TTY_CONFIG",
    )
)  # fmt: skip
_CONTAINER = (
    "systemd-nspawn", "--kill-signal=SIGKILL", "--quiet", "--register=no", "--keep-unit", "--as-pid2", "--console=pipe", "--private-network",
    f"--private-users={USERS[0]}:{USERS[1]}", "--private-users-ownership=map", "--no-new-privileges=yes",
    f"--drop-capability={_NO_CAPABILITIES}", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
)  # fmt: skip
# exit code of timeout
_TIMED_OUT = 124
_ENVIRONMENT = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "TERM=dumb")
# of the disk for the boot loader, and the parts of it that belong to GRUB: boot code before the partition table, and its partition
_BOOT_SIZE = 4 * MIB
_BOOT_CODE = ((0, 440), (MIB, MIB))


class Sandbox:
    """The mounted copy as a container; use as a context manager.

    :arg image: the disks of the copy, mounted.
    """

    def __init__(self, image: io_image.DiskImage) -> None:
        self.image = image
        self.tree = image.tree
        self._root = image.work / "sandbox"
        self._devices = image.work / "dev"
        self._boot = image.work / "boot.img"
        self._loops: list[str] = []
        self._binds: list[str] = []

    def __enter__(self) -> Sandbox:
        try:
            self._set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        for place in (self._root, self._devices):
            if os.path.ismount(place):
                run(["umount", "--lazy", str(place)], ok=range(256))
        for loop in [*self._loops, *io_image.loops_of(str(self._boot))]:
            run(["partx", "--delete", loop], ok=range(256))
            run(["losetup", "--detach", loop], ok=range(256))
        self._boot.unlink(missing_ok=True)

    def _set_up(self) -> None:
        for path in ("/proc", "/sys", "/dev", "/run", "/tmp"):
            found = self.tree.status(path, follow=False)
            if found is not None and not stat.S_ISDIR(found.st_mode):
                raise BackendError(f"{path} of the copy is not a folder.", hint="Replace it by a folder on the source.")
        for place in (self._root, self._devices):
            place.mkdir(exist_ok=True)
        # without the file systems below it: systemd-nspawn maps the users of each separately
        run(["mount", "--bind", self.tree.place("/"), str(self._root)])
        # /run is mounted with nodev, so the device nodes need another mount
        run(["mount", "-t", "tmpfs", "-o", "mode=0755,size=1m,dev,nosuid,noexec", "footprint-dev", str(self._devices)])
        run(["sync"])
        by_uuid = self._devices / "disk" / "by-uuid"
        by_uuid.mkdir(parents=True)
        for folder in (by_uuid, by_uuid.parent):
            # the worker's umask would hide them from the container
            folder.chmod(0o755)
        for disk, path in self.image.disks():
            # under the names of the mount table, but another device: a program must not write to a mounted file system
            name, loop = os.path.basename(self.image.loop_of(disk)), self._attach(path, "--read-only")
            self._add(name, os.stat(loop).st_rdev)
            for each in self.image.layout.on(disk):
                self._add(f"{name}p{each.number}", io_image.partition_device(loop, each.number))
                if each.fs != RAW:
                    (by_uuid / each.uuid).symlink_to(f"../../{name}p{each.number}")
        self._bind(str(self._devices / "disk"), "/dev/disk")
        for mount, place in self.image.mounted().items():
            if mount != "/":
                self._bind(place, mount, "idmap")

    def _attach(self, path: str, *options: str) -> str:
        loop = io_image.attach_loop(path, *options)
        self._loops.append(loop)
        run(["partx", "--update", loop], ok=(0, 1))
        return loop

    def _add(self, name: str, device: int) -> None:
        node = self._devices / name
        io_image.make_node(str(node), device)
        os.chown(node, USERS[0], USERS[0])
        self._bind(str(node), f"/dev/{name}")

    def _bind(self, source: str, target: str, *options: str) -> None:
        self._binds.append("--bind=" + ":".join([source.replace(":", "\\:"), target.replace(":", "\\:"), *options]))

    def run(self, argv: t.Sequence[str], *, stdin: str | None = None, timeout: float = 1800, ok: t.Container[int] = (0,)) -> Completed:
        """Run a program of the copy."""
        container = [*_CONTAINER, f"--machine=copy-{os.getpid()}", f"--directory={self._root}", *self._binds, "/usr/bin/env", "-i", *_ENVIRONMENT]
        try:
            # not killed, which would leave the programs running
            return run(["timeout", "--kill-after=30", str(timeout), *container, *argv], stdin=stdin, ok=ok, variables={"SYSTEMD_LOG_TARGET": "console"})
        except CommandError as error:
            raise CommandError(argv, None if error.rc == _TIMED_OUT else error.rc, error.stderr) from error

    def has(self, program: str) -> bool:
        """Whether a program is installed in the copy."""
        return any(self.tree.status(f"{folder}/{program}") for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"))

    def install_boot_code(self, install: str) -> None:
        """Install GRUB for BIOS: on a disk that has only its partition, from which it is copied to the boot disk."""
        with open(self._boot, "wb") as stream:
            stream.truncate(_BOOT_SIZE)
        run(["sfdisk", "--quiet", str(self._boot)], stdin=f"label: gpt\nunit: sectors\nstart={MIB // 512}, size={MIB // 512}, type={io_image.BIOS_GRUB}\n")
        loop = self._attach(str(self._boot))
        name = os.path.basename(loop)
        self._add(name, os.stat(loop).st_rdev)
        self._add(f"{name}p1", io_image.partition_device(loop, 1))
        self.run([install, "--target=i386-pc", "--recheck", loop])
        with open(loop, "rb") as source, open(self.image.loop, "rb+") as target:
            for start, size in _BOOT_CODE:
                source.seek(start)
                target.seek(start)
                target.write(source.read(size))
            target.flush()
            os.fsync(target.fileno())
