# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The new disk and what the source holds, as numbers and names."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class PlannedPartition:
    """One partition with its place. ``start`` and ``size`` in bytes; ``uuid`` as blkid and fstab write it."""

    number: int
    mount: str | None
    fs: str
    start: int
    size: int
    uuid: str
    partuuid: str
    inodes: int | None


@dataclasses.dataclass(frozen=True)
class Filesystem:
    """What the source holds in one file system; ``used`` in bytes as allocated (sparse files count little)."""

    mount: str
    device: str
    fstype: str
    used: int
    inodes_used: int


@dataclasses.dataclass(frozen=True)
class DiskLayout:
    """The whole disk. ``size`` in bytes."""

    size: int
    disk_uuid: str
    partitions: tuple[PlannedPartition, ...]

    @property
    def mounts(self) -> tuple[PlannedPartition, ...]:
        """The partitions that are mounted, parents before children."""
        return tuple(sorted((each for each in self.partitions if each.mount), key=lambda each: (each.mount or "").count("/") if each.mount != "/" else -1))
