# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The new master's disks where another machine has them, brought over ssh and seen as files of this host.

    disk of the machine → qemu-nbd → ssh → nbdfuse → file → loop device

From the file on it is a :class:`DiskImage` like any other. All of it belongs to the calling process:
its unit ends the programs with it, its mount namespace the files, and the loop devices go with their last user.
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
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, LostWriteError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_image import DiskImage, sync_path
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout

_CONNECTS = 60.0
_ENDS = 20.0
# in sectors of 512 bytes: 4 MiB
_READ_AHEAD = "8192"
_HINT_LOST = "Look whether the pool of the VM's disks is full, then run again."


class Machine(t.Protocol):
    """Whoever has the disks."""

    def up(self) -> list[str]:
        """See to it that it runs and answers; returns ssh and where to, without a command."""

    def down(self) -> None:
        """Switch it off and take away what it needed."""

    def socket(self, disk: int) -> str:
        """Where it exports a disk, by the disk's number."""


class RemoteDisk(DiskImage):
    """Disks of another machine.

    :arg work: as of :class:`DiskImage`.
    :arg export: the name under which each disk is exported.
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
        # those whose file is dead are not found by it any more
        for held in self._held.values():
            os.close(held)
        self._held = {}

    def settle(self) -> None:
        super().settle()
        # with the programs in between, all that is on the way would be gone
        if self._loops and not self._connected():
            raise BackendError("The bootstrap system went away while its disks were written to.", hint=_HINT_LOST)

    def _lost(self, error: Exception) -> BackendError:
        # a disk that is gone takes nothing any more, so what is on it belongs together, as after a power loss
        kind = LostWriteError if self._connected() else BackendError
        return kind(f"What was written did not reach the bootstrap system's disks: {error}.", hint=_HINT_LOST)

    def _connected(self) -> bool:
        return self._ssh is not None and bool(self._files) and all(each.poll() is None for each in (self._ssh, *self._files))

    def release(self) -> None:
        """Let go of the disks and switch the machine off that has them."""
        self.detach()
        self._disconnect()
        self.machine.down()

    def _loop(self, image: str) -> str:
        loop = super()._loop(image)
        # in use while it is detached, it goes when we do: the file behind it will not outlive us
        self._held[loop] = os.open(loop, os.O_RDONLY | os.O_CLOEXEC)
        run(["losetup", "--detach", loop])
        # each request is a way there and back, one after the other: few and large ones, and nothing cached twice
        run(["losetup", "--direct-io=on", loop], ok=range(256))
        run(["blockdev", "--setra", _READ_AHEAD, loop], ok=range(256))
        return loop

    def _free(self, loop: str) -> None:
        if loop in self._held:
            os.close(self._held.pop(loop))
        else:
            super()._free(loop)

    def _connect(self) -> None:
        """Bring the disks here; nothing is done where they are."""
        if self._connected():
            return
        self.detach()
        self._disconnect()
        argv = self.machine.up()
        # what is a file there now is what a killed process left
        self.far.mkdir(parents=True, exist_ok=True, mode=0o700)
        forwards = []
        for disk, image in self._disks():
            self._local(disk.index).unlink(missing_ok=True)
            forwards += ["-L", f"{self._local(disk.index)}:{self.machine.socket(disk.index)}"]
            pathlib.Path(image).touch(mode=0o600)
        *ssh, address = argv
        options = ["-N", "-n", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindMask=0177", "-o", "StreamLocalBindUnlink=yes"]
        self._ssh = self._start("ssh", [*ssh, *options, *forwards, address])
        self._await("ssh", self._ssh, lambda: all(self._local(disk.index).exists() for disk, _image in self._disks()))
        for disk, image in self._disks():
            file = self._start(f"disk{disk.index}", ["nbdfuse", image, f"nbd+unix:///{self.export}?socket={self._local(disk.index)}"])
            self._files.append(file)
            self._await(f"disk{disk.index}", file, lambda image=image, size=disk.size: _size(image) >= size)

    def _local(self, disk: int) -> pathlib.Path:
        return self.far / f"{disk}.sock"

    def _start(self, name: str, argv: t.Sequence[str]) -> subprocess.Popen[bytes]:
        with open(self.far / f"{name}.log", "wb") as log:
            # pylint: disable-next=ansible-bad-function,consider-using-with  # no AnsibleModule reaches this layer; it runs on
            return subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "LC_ALL": "C"})

    def _await(self, name: str, process: subprocess.Popen[bytes], ready: t.Callable[[], bool]) -> None:
        until = time.monotonic() + _CONNECTS
        while not ready():
            if process.poll() is not None or time.monotonic() > until:
                said = " | ".join((self.far / f"{name}.log").read_text(errors="replace").strip().splitlines()[-3:])
                how = "took too long" if process.poll() is None else f"ended with exit code {process.poll()}"
                self._disconnect()
                raise BackendError(f"The disks of the bootstrap system cannot be had: {name} {how}: {said or 'it said nothing'}", hint="Run again.")
            time.sleep(0.1)

    def _disconnect(self) -> None:
        """End the programs between the disks and here, when all is written; what cannot be written is not waited for."""
        for image, file in zip(self.images, self._files):
            if file.poll() is None:
                with contextlib.suppress(OSError):
                    sync_path(image)
        for process in (*self._files, *([self._ssh] if self._ssh else [])):
            process.terminate()
            try:
                process.wait(timeout=_ENDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._files, self._ssh = [], None
        for image in self.images:
            # of a process that was killed, where it had no mount namespace of its own
            run(["umount", "--lazy", image], ok=range(256))
            with contextlib.suppress(OSError):
                os.unlink(image)
        for each in self.far.glob("*.sock"):
            each.unlink(missing_ok=True)


def _size(path: str) -> int:
    """Size of a file once there is more than its place; -1 before."""
    try:
        told = os.stat(path)
    except OSError:
        return -1
    return told.st_size if stat.S_ISREG(told.st_mode) else -1
