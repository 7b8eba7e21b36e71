# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Detects conflicts where two VMs of a host would use the same file, folder or device. No I/O."""

from __future__ import annotations

import typing as t


class Use(t.NamedTuple):
    """One VM's use of a file, folder or device.

    ``path`` is the path in its document, ``keys`` are all its names: its real path, its inode,
    its device. ``layer``: a backing file of a disk, which is only read.
    ``shareable``: this VM allows sharing. ``volume``: a folder that is a volume of a pool.
    """

    uuid: str
    vm: str
    device: str
    path: str
    keys: tuple[str, ...]
    writes: bool = True
    shareable: bool = False
    layer: bool = False
    folder: bool = False
    root: bool = False
    volume: bool = False

    @property
    def alone(self) -> bool:
        """Whether only one VM may write to it: true except for plain folders of the host."""
        return not self.folder or self.root or self.volume


class Conflict(t.NamedTuple):
    """Two conflicting uses; ``same`` means the same file or device, otherwise one contains the other."""

    mine: Use
    other: Use
    same: bool

    @property
    def sentence(self) -> str:
        """The conflict as a sentence, with both VMs and the path."""
        mine, other = self.mine, self.other
        theirs = f"the VM {other.vm}" if other.uuid != mine.uuid else "the same VM"
        what = f"{mine.path} ({mine.device} of the VM {mine.vm})"
        if not self.same:
            return f"{what} and {other.path} ({other.device} of {theirs}) overlap: one contains the other."
        if mine.layer:
            return f"{what} is a backing file of this disk, and {theirs} writes to it ({other.device})."
        if other.layer:
            return f"{what} is a backing file of the disk {other.device} of {theirs}; writing to it destroys that disk."
        also = f", with the path {other.path}" if other.path != mine.path else ""
        return f"{what} is also {other.device} of {theirs}{also}."


class Users:
    """The uses of all VMs of a host, indexed by key."""

    def __init__(self) -> None:
        self._at: dict[str, list[Use]] = {}
        # path → the uses of paths below it
        self._below: dict[str, list[Use]] = {}

    def add(self, use: Use) -> None:
        """Add a use."""
        for key in use.keys:
            self._at.setdefault(key, []).append(use)
            for above in _above(key):
                self._below.setdefault(above, []).append(use)

    def conflicts(self, mine: Use) -> list[Conflict]:
        """The conflicts of a use."""
        found = [Conflict(mine, other, True) for key in mine.keys for other in self._at.get(key, ()) if _clash(mine, other)]
        for key in mine.keys:
            # a folder that contains a path of another VM conflicts only if it is written, with a read-only folder never
            below = [other for other in self._below.get(key, ()) if mine.writes and (other.writes or not other.folder)]
            found += [Conflict(mine, other, False) for other in below if _clash(mine, other)]
            # a plain folder of the host in another VM can contain pools; a container's root must not
            for above in _above(key):
                found += [Conflict(mine, other, False) for other in self._at.get(above, ()) if other.writes and other.alone and _clash(mine, other)]
        return list(dict.fromkeys(found))


def clashes(uses: t.Sequence[Use]) -> list[Conflict]:
    """The conflicts within one VM, whose disks can share only with ``shareable``."""
    users = Users()
    found = []
    for use in uses:
        found += [conflict for conflict in users.conflicts(use) if conflict.same]
        users.add(use)
    return found


def known(use: Use, before: t.Iterable[Use]) -> bool:
    """Whether a VM had a use already: the same key, with at least the same access."""
    return any(set(use.keys) & set(one.keys) and (one.writes or not use.writes) for one in before)


def _clash(mine: Use, other: Use) -> bool:
    if not mine.writes and not other.writes or mine.shareable and other.shareable:
        return False
    return mine.alone or other.alone


def _above(key: str) -> t.Iterator[str]:
    """The parent folders of a path, or of a device in sysfs; none for other keys."""
    if not key.startswith("/"):
        return
    at = key.rfind("/")
    # the root is omitted: a container with the whole file system of the host must not block every VM
    while at > 0:
        key = key[:at]
        yield key
        at = key.rfind("/")
