# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Storage as the domain part sees it: pools, volumes, base images."""

from __future__ import annotations

import dataclasses

from ansible_collections.reduced.footprint.plugins.module_utils._model.size import size_text
from ansible_collections.reduced.footprint.plugins.module_utils._model.vm_parts import Disk

# pools whose volumes are files in a directory of this host
FILE_POOLS = ("dir", "fs", "netfs")

IMAGES_FOLDER = "images"

# how a volume comes to be
KEEP = "keep"
EMPTY = "empty"
COPY = "copy"
BACKING = "backing"
UNPACK = "unpack"


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


@dataclasses.dataclass(frozen=True)
class Image:
    """A base image: ``format`` is raw, qcow2 or tar; ``virtual_size`` in bytes, 0 for a tar."""

    name: str
    path: str
    format: str
    virtual_size: int


@dataclasses.dataclass(frozen=True)
class DiskSource:
    """Where a disk's content stands on the host: ``type`` is file, block or dir."""

    type: str
    path: str
    pool: str


@dataclasses.dataclass(frozen=True)
class VolumePlan:
    """How a volume comes to be; ``size`` in bytes is its final virtual size (0 for a directory)."""

    how: str
    disk: Disk
    pool: Pool
    image: Image | None
    size: int

    @property
    def creates(self) -> bool:
        """Whether anything is to be made."""
        return self.how != KEEP

    @property
    def action(self) -> str:
        """The action as the result names it."""
        return f"create_volume {self.pool.name}/{self.disk.name}"

    def describe(self) -> str:
        """The new volume in a few words, for the diff."""
        parts = [f"{self.pool.name}/{self.disk.name}", self.disk.format]
        if self.size:
            parts.append(size_text(self.size))
        if self.image is not None:
            parts.append(f"from {self.image.name}" if self.how != BACKING else f"backed by {self.image.name}")
        return ", ".join(parts)
