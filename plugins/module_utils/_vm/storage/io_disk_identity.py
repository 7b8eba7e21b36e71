# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resolves the path of a disk: symbolic links, hard links, device numbers, backing files and devices."""

from __future__ import annotations

import os
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header

_DEEPEST = 64


class Identity(t.NamedTuple):
    """All names of a file or device: real path, inode, device in sysfs. ``behind`` are its backing files or underlying devices."""

    keys: tuple[str, ...]
    behind: tuple[str, ...] = ()


class Identities:
    """Resolves paths, each once.

    :arg local: whether the paths are on this host; otherwise only names are compared.
    """

    def __init__(self, local: bool = True) -> None:
        self._local = local
        self._known: dict[tuple[str, bool], Identity] = {}

    def of(self, path: str, form: str | None = None) -> Identity:
        """The identity of an existing or future path.

        :arg form: the format of the disk's driver: a raw disk must not be parsed, because the guest controls its content.
        """
        layered = form not in (None, "raw")
        found = self._known.get((path, layered))
        if found is None:
            found = self._known[path, layered] = self._resolve(path, form) if self._local else Identity((os.path.normpath(path),))
        return found

    def _resolve(self, path: str, form: str | None) -> Identity:
        real = os.path.realpath(path)
        try:
            state = os.stat(real)
        except OSError:
            return Identity((real,))
        if stat.S_ISBLK(state.st_mode):
            device = os.path.realpath(f"/sys/dev/block/{os.major(state.st_rdev)}:{os.minor(state.st_rdev)}")
            if not device.startswith("/sys/devices/"):
                device = f"device:{state.st_rdev}"
            return Identity((real, device), tuple(_parts(device)))
        behind = _chain(real, form) if stat.S_ISREG(state.st_mode) and form not in (None, "raw") else ()
        return Identity((real, f"inode:{state.st_dev}:{state.st_ino}"), tuple(behind))


def _chain(path: str, form: str | None) -> t.Iterator[str]:
    """The backing files of a disk file; the format recorded in a layer is used for the next one."""
    for unused in range(_DEEPEST):
        try:
            header = io_disk_header.read_header(path, form)
        except OSError:
            return
        if header.backing is None:
            return
        path, form = os.path.realpath(header.backing), header.backing_format
        yield path


def _parts(device: str) -> t.Iterator[str]:
    """The underlying devices of a device-mapper or RAID device, from sysfs."""
    waiting, seen = [device], {device}
    while waiting:
        try:
            names = os.listdir(f"{waiting.pop()}/slaves")
        except OSError:
            continue
        for name in names:
            part = os.path.realpath(f"/sys/class/block/{name}")
            if part not in seen:
                seen.add(part)
                waiting.append(part)
                yield part
