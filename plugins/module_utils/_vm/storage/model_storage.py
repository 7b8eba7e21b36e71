# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Storage as the domain part sees it: pools, volumes, base images."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_parts

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot.model_host_key import HostKey

# pools whose volumes are files in a directory of this host
FILE_POOLS = ("dir", "fs", "netfs")
# pools of block devices, which get the name they are given, and all their bytes at once
WHOLE_POOLS = ("logical", "disk", "zfs")

IMAGES_FOLDER = "images"

# how a volume comes to be
KEEP = "keep"
GROW = "grow"
EMPTY = "empty"
COPY = "copy"
BACKING = "backing"
UNPACK = "unpack"


def inside(inner: str, outer: str) -> bool:
    """Whether a path is another one or below it; both without symbolic links."""
    return inner == outer or inner.startswith(f"{outer.rstrip('/')}/")


def overlap(one: str, other: str) -> bool:
    """Whether one of two paths contains the other, or both are the same."""
    return inside(one, other) or inside(other, one)


@dataclasses.dataclass(frozen=True)
class Pool:
    """A storage pool of libvirt: its type (``dir``, ``logical``, ...) and where its volumes stand."""

    name: str
    type: str
    path: str

    @property
    def files(self) -> bool:
        """Whether volumes are plain files (or directories) below ``path``."""
        return self.type in FILE_POOLS

    @property
    def whole(self) -> bool:
        """Whether a volume takes all its bytes when it is made."""
        return self.type in WHOLE_POOLS


@dataclasses.dataclass(frozen=True)
class Image:
    """A base image: ``format`` is raw, qcow2 or tar; ``virtual_size`` in bytes, 0 for a tar."""

    name: str
    path: str
    format: str
    virtual_size: int


@dataclasses.dataclass(frozen=True)
class DiskSource:
    """Where a disk's content stands on the host: ``type`` is file, block or dir; ``format`` only where it is not the disk's."""

    type: str
    path: str
    pool: str
    format: str | None = None


@dataclasses.dataclass(frozen=True)
class Origin:
    """The base image a volume was made from, as it was then: ``size`` in bytes, ``changed`` its mtime in ns."""

    image: str
    path: str
    size: int
    changed: int


@dataclasses.dataclass(frozen=True)
class Volume:
    """A volume as it was found.

    ``format`` is raw, qcow2 or dir; sizes in bytes. A folder's ``capacity`` and ``allocation`` are
    ``None``: it has no limit, and to count it takes as long as its tree is large. ``backing`` is the
    image behind a layer, ``None`` where there is none.
    """

    path: str
    type: str
    format: str
    capacity: int | None
    allocation: int | None
    backing: str | None = None
    origin: Origin | None = None


@dataclasses.dataclass(frozen=True)
class VolumePlan:
    """How a volume comes to be; ``size`` in bytes is its final virtual size (0 for a directory).

    ``online``: the running domain's own block layer must do it. ``told`` are sentences about what
    the details say and an existing volume cannot follow. ``host_key`` goes into the root of a container.
    """

    how: str
    disk: model_parts.Disk
    pool: Pool
    image: Image | None
    size: int
    found: Volume | None = None
    online: bool = False
    told: tuple[str, ...] = ()
    host_key: HostKey | None = None

    @property
    def creates(self) -> bool:
        """Whether a volume is to be made."""
        return self.how not in (KEEP, GROW)

    @property
    def action(self) -> str:
        """The action as the result names it."""
        return f"{'grow' if self.how == GROW else 'create'}_volume {self.pool.name}/{self.disk.name}"

    def describe(self) -> str:
        """The volume as it will be in a few words, for the diff."""
        parts = [f"{self.pool.name}/{self.disk.name}", self.disk.format]
        if self.size:
            parts.append(model_size.size_text(self.size))
        if self.image is not None:
            parts.append(f"from {self.image.name}" if self.how != BACKING else f"backed by {self.image.name}")
        return ", ".join(parts)

    def describe_found(self) -> str:
        """The volume as it is, for the diff."""
        capacity = self.found.capacity if self.found else None
        return ", ".join([f"{self.pool.name}/{self.disk.name}", self.disk.format] + ([model_size.size_text(capacity)] if capacity else []))


@dataclasses.dataclass(frozen=True)
class Removal:
    """A volume that goes with its VM; ``wipe`` overwrites it first."""

    pool: Pool
    name: str
    path: str
    wipe: bool

    @property
    def action(self) -> str:
        """The action as the result names it."""
        return f"{'wipe' if self.wipe else 'remove'}_volume {self.pool.name}/{self.name}"
