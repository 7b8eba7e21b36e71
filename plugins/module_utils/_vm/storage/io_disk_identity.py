# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a path of a disk really is: symbolic links, hard links and device numbers resolved, and what is behind it."""

from __future__ import annotations

import os
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header

_DEEPEST = 64


class Identity(t.NamedTuple):
    """Every name of one thing: real path, inode, device in sysfs. ``behind`` are the images or devices it is made of."""

    keys: tuple[str, ...]
    behind: tuple[str, ...] = ()


class Identities:
    """Looks at each path once.

    :arg local: whether the paths are those of this host; otherwise names are all there is.
    """

    def __init__(self, local: bool = True) -> None:
        self._local = local
        self._known: dict[tuple[str, bool], Identity] = {}

    def of(self, path: str, form: str | None = None) -> Identity:
        """What stands at a path, or will.

        :arg form: the format the disk's driver names: what a guest wrote into a raw disk is no header.
        """
        layered = form not in (None, "raw")
        found = self._known.get((path, layered))
        if found is None:
            found = self._known[path, layered] = self._look(path, form) if self._local else Identity((os.path.normpath(path),))
        return found

    def _look(self, path: str, form: str | None) -> Identity:
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
    """The images behind a disk file; where a layer names the format of the next one, that counts."""
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
    """The devices a device of the device mapper or a RAID is made of, as sysfs has them."""
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
