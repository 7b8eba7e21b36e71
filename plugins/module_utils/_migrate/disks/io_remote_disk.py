# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The new master's disks on another machine, exported over ssh as files of this host.

    disk of the machine → qemu-nbd → ssh → nbdfuse → file → loop device

From the file on it is a :class:`DiskImage` like any other. Everything belongs to the calling process:
its unit ends the programs, its mount namespace the files, and the loop devices are freed with their last user.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
import subprocess
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import sync_path
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, LostWriteError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_image import DiskImage
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout

# timeouts in seconds
_CONNECT_TIMEOUT = 60.0
_END_TIMEOUT = 20.0
# in sectors of 512 bytes: 4 MiB
_READ_AHEAD = "8192"
_HINT_LOST = "Check whether the pool of the VM's disks is full, then run again."


class Machine(t.Protocol):
    """The machine that has the disks."""

    def up(self) -> list[str]:
        """Make sure that it is running and reachable; returns the ssh command with its address as the last argument, without a remote command."""

    def down(self) -> None:
        """Power it off and remove its resources."""

    def socket(self, disk: int) -> str:
        """Path of the UNIX socket that exports a disk, by the disk's number."""


class RemoteDisk(DiskImage):
    """Disks of another machine.

    :arg work: as for :class:`DiskImage`.
    :arg export: NBD export name of each disk.
    """

    def __init__(self, layout: DiskLayout, work: pathlib.Path, machine: Machine, export: str) -> None:
        self.far = work / "far"
        super().__init__([str(self.far / f"disk{each.index}") for each in layout.disks], layout, work)
        self.machine = machine
        self.export = export
        self._ssh: subprocess.Popen[bytes] | None = None
        self._files: list[subprocess.Popen[bytes]] = []
        self._held: dict[str, int] = {}

    def write_table(self) -> None:
        self._connect()
        super().write_table()

    def attach(self) -> None:
        if not self._loops:
            self._connect()
        super().attach()

    def detach(self) -> None:
        super().detach()
        # loop devices whose file is gone cannot be found by it
        for held in self._held.values():
            os.close(held)
        self._held = {}

    def settle(self) -> None:
        super().settle()
        # if one of the programs in between has ended, data in transit is lost
        if self._loops and not self._connected():
            raise BackendError("The connection to the bootstrap system was lost while its disks were written to.", hint=_HINT_LOST)

    def _lost(self, error: Exception) -> BackendError:
        # a disconnected disk accepts no more writes, so its content is consistent, as after a power loss
        kind = LostWriteError if self._connected() else BackendError
        return kind(f"Written data did not reach the bootstrap system's disks: {error}.", hint=_HINT_LOST)

    def _connected(self) -> bool:
        return self._ssh is not None and bool(self._files) and all(each.poll() is None for each in (self._ssh, *self._files))

    def release(self) -> None:
        """Release the disks and power off the machine that has them."""
        self.detach()
        self._disconnect()
        self.machine.down()

    def _loop(self, image: str) -> str:
        loop = super()._loop(image)
        # a device that is detached while open is freed when this process ends, as is the file behind it
        self._held[loop] = os.open(loop, os.O_RDONLY | os.O_CLOEXEC)
        run(["losetup", "--detach", loop])
        # each request is a network round trip: use few and large ones, and avoid double caching
        run(["losetup", "--direct-io=on", loop], ok=range(256))
        run(["blockdev", "--setra", _READ_AHEAD, loop], ok=range(256))
        return loop

    def _free(self, loop: str) -> None:
        if loop in self._held:
            os.close(self._held.pop(loop))
        else:
            super()._free(loop)

    def _connect(self) -> None:
        """Connect the disks to this host, unless they are connected."""
        if self._connected():
            return
        self.detach()
        self._disconnect()
        argv = self.machine.up()
        # existing files here are left from a killed process
        self.far.mkdir(parents=True, exist_ok=True, mode=0o700)
        forwards = []
        for disk, image in self.disks():
            self._local(disk.index).unlink(missing_ok=True)
            forwards += ["-L", f"{self._local(disk.index)}:{self.machine.socket(disk.index)}"]
            pathlib.Path(image).touch(mode=0o600)
        *ssh, address = argv
        options = ["-N", "-n", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindMask=0177", "-o", "StreamLocalBindUnlink=yes"]
        self._ssh = self._start("ssh", [*ssh, *options, *forwards, address])
        self._await("ssh", self._ssh, lambda: all(self._local(disk.index).exists() for disk, _image in self.disks()))
        for disk, image in self.disks():
            file = self._start(f"disk{disk.index}", ["nbdfuse", image, f"nbd+unix:///{self.export}?socket={self._local(disk.index)}"])
            self._files.append(file)
            self._await(f"disk{disk.index}", file, lambda image=image, size=disk.size: _size(image) >= size)

    def _local(self, disk: int) -> pathlib.Path:
        return self.far / f"{disk}.sock"

    def _start(self, name: str, argv: t.Sequence[str]) -> subprocess.Popen[bytes]:
        with open(self.far / f"{name}.log", "wb") as log:
            # pylint: disable-next=ansible-bad-function,consider-using-with  # no AnsibleModule reaches this layer; the process keeps running
            return subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "LC_ALL": "C"})

    def _await(self, name: str, process: subprocess.Popen[bytes], ready: t.Callable[[], bool]) -> None:
        until = time.monotonic() + _CONNECT_TIMEOUT
        while not ready():
            if process.poll() is not None or time.monotonic() > until:
                output = " | ".join((self.far / f"{name}.log").read_text(errors="replace").strip().splitlines()[-3:])
                how = "timed out" if process.poll() is None else f"ended with exit code {process.poll()}"
                self._disconnect()
                raise BackendError(f"Failed to connect the disks of the bootstrap system: {name} {how}: {output or 'no output'}", hint="Run again.")
            time.sleep(0.1)

    def _disconnect(self) -> None:
        """Flush all writes, then end the programs between the disks and this host; failed writes are ignored."""
        for image, file in zip(self.images, self._files):
            if file.poll() is None:
                with contextlib.suppress(OSError):
                    sync_path(image)
        for process in (*self._files, *([self._ssh] if self._ssh else [])):
            process.terminate()
            try:
                process.wait(timeout=_END_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._files, self._ssh = [], None
        for image in self.images:
            # mounts of a killed process that shared this mount namespace
            run(["umount", "--lazy", image], ok=range(256))
            with contextlib.suppress(OSError):
                os.unlink(image)
        for each in self.far.glob("*.sock"):
            each.unlink(missing_ok=True)


def _size(path: str) -> int:
    """Size of a regular file in bytes; -1 if there is none yet."""
    try:
        status = os.stat(path)
    except OSError:
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1
