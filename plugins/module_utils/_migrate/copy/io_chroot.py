# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A chroot for the programs of the copy, with no block devices except its own disks."""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed, run

_NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
_ENVIRONMENT = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "TERM=dumb")


class Chroot:
    """The mounted copy as a chroot; use as a context manager.

    :arg root: where the copy is mounted.
    :arg devices: folder with the block devices that are visible inside.
    """

    def __init__(self, root: pathlib.Path, devices: pathlib.Path) -> None:
        self.root = root
        self.devices = devices

    def __enter__(self) -> Chroot:
        for name, (major, minor) in _NODES.items():
            if not (self.devices / name).exists():
                os.mknod(self.devices / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
            if not (self.devices / name).is_symlink():
                (self.devices / name).symlink_to(target)
        self._mount("proc", ["-t", "proc", "proc"])
        # recursive: in a container /sys consists of several mounts
        self._mount("sys", ["--rbind", "/sys"])
        self._mount("dev", ["--bind", str(self.devices)])
        self._mount("run", ["-t", "tmpfs", "-o", "mode=0755", "tmpfs"])
        return self

    def __exit__(self, *unused: object) -> None:
        for name in ("run", "dev", "sys", "proc"):
            with contextlib.suppress(OSError):
                if os.path.ismount(self.root / name):
                    run(["umount", "-R", str(self.root / name)], ok=range(256))

    def _mount(self, name: str, how: t.Sequence[str]) -> None:
        place = self.root / name
        place.mkdir(exist_ok=True)
        if not os.path.ismount(place):
            run(["mount", *how, str(place)])
            # otherwise unmounting it would propagate to the original
            run(["mount", "--make-rprivate", str(place)])

    def run(self, argv: t.Sequence[str], *, stdin: str | None = None, timeout: float | None = 1800, ok: t.Container[int] = (0,)) -> Completed:
        """Run a program of the copy.

        :raises CommandError: it failed.
        """
        return run(["chroot", str(self.root), "/usr/bin/env", "-i", *_ENVIRONMENT, *argv], stdin=stdin, timeout=timeout, ok=ok)

    def has(self, program: str) -> str | None:
        """Path of a program inside the copy, ``None`` when it is not installed."""
        for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
            if (self.root / folder.lstrip("/") / program).exists():
                return f"{folder}/{program}"
        return None
