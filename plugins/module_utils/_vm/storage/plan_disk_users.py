# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VM of a host has which file, folder or device, and where two of them would destroy each other's data. No I/O."""

from __future__ import annotations

import typing as t


class Use(t.NamedTuple):
    """One VM's use of one place.

    ``path`` is what its document names, ``keys`` is every name of what stands there: its path without
    symbolic links, its inode, its device. ``layer`` is an image behind a disk, which is only read.
    ``shareable`` means that this VM agrees to share it. ``volume`` is a folder that is a volume of a pool.
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
        """Whether only one VM can write to it: everything but a folder of the host that several may use as such."""
        return not self.folder or self.root or self.volume


class Conflict(t.NamedTuple):
    """Two uses that do not go together; ``same`` means one and the same place, otherwise one contains the other."""

    mine: Use
    other: Use
    same: bool

    @property
    def sentence(self) -> str:
        """What is wrong, with both VMs and the path."""
        mine, other = self.mine, self.other
        theirs = f"the VM {other.vm}" if other.uuid != mine.uuid else "the same VM"
        what = f"{mine.path} ({mine.device} of the VM {mine.vm})"
        if not self.same:
            return f"{what} and {other.path} ({other.device} of {theirs}) contain one another."
        if mine.layer:
            return f"{what} is an image behind this disk, and {theirs} writes to it ({other.device})."
        if other.layer:
            return f"{what} is an image behind the disk {other.device} of {theirs}; writing to it destroys that disk."
        also = f", there named {other.path}" if other.path != mine.path else ""
        return f"{what} is also {other.device} of {theirs}{also}."


class Users:
    """The uses of all VMs of a host, to be found by place."""

    def __init__(self) -> None:
        self._at: dict[str, list[Use]] = {}
        # path → the uses of what is below it
        self._below: dict[str, list[Use]] = {}

    def add(self, use: Use) -> None:
        """Count a use in."""
        for key in use.keys:
            self._at.setdefault(key, []).append(use)
            for above in _above(key):
                self._below.setdefault(above, []).append(use)

    def conflicts(self, mine: Use) -> list[Conflict]:
        """What a use does not go together with."""
        found = [Conflict(mine, other, True) for key in mine.keys for other in self._at.get(key, ()) if _clash(mine, other)]
        for key in mine.keys:
            # a folder around another's place is only read, or it could write there
            found += [Conflict(mine, other, False) for other in self._below.get(key, ()) if mine.writes and _clash(mine, other) and _apart(mine, other)]
            # a folder another VM has of the host may well contain pools; its root may not
            for above in _above(key):
                found += [Conflict(mine, other, False) for other in self._at.get(above, ()) if other.writes and other.alone and _clash(mine, other)]
        return list(dict.fromkeys(found))


def clashes(uses: t.Sequence[Use]) -> list[Conflict]:
    """What does not go together within one VM, whose disks agree to share with each other only by ``shareable``."""
    users = Users()
    found = []
    for use in uses:
        found += [conflict for conflict in users.conflicts(use) if conflict.same]
        users.add(use)
    return found


def known(use: Use, before: t.Iterable[Use]) -> bool:
    """Whether a VM had a use already: the same place, and it was allowed to do there what it does now."""
    return any(set(use.keys) & set(one.keys) and (one.writes or not use.writes) for one in before)


def _clash(mine: Use, other: Use) -> bool:
    if not mine.writes and not other.writes or mine.shareable and other.shareable:
        return False
    return mine.alone or other.alone


def _apart(mine: Use, other: Use) -> bool:
    """Whether what is below a folder is no concern of the VM that has the folder; a folder that is only read may be below any."""
    return not (other.folder and not other.writes)


def _above(key: str) -> t.Iterator[str]:
    """The folders above a path, or the devices a device is part of; of other names there are none."""
    if not key.startswith("/"):
        return
    at = key.rfind("/")
    # the root is left out: a container that has all of its host is no reason to refuse every VM
    while at > 0:
        key = key[:at]
        yield key
        at = key.rfind("/")
