# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Storage of VMs: pools, volumes, base images and plans for them."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_size

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_parts
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot.model_host_key import HostKey

# pools whose volumes are files in a directory of this host
FILE_POOLS = ("dir", "fs", "netfs")
# pools of block devices, where volumes get the requested name, and all bytes are allocated at creation
WHOLE_POOLS = ("logical", "disk", "zfs")

IMAGES_FOLDER = "images"

# how a volume is created or changed
KEEP = "keep"
GROW = "grow"
EMPTY = "empty"
COPY = "copy"
BACKING = "backing"
UNPACK = "unpack"


def inside(inner: str, outer: str) -> bool:
    """Whether a path is equal to or below another one; both without symbolic links."""
    return inner == outer or inner.startswith(f"{outer.rstrip('/')}/")


def overlap(one: str, other: str) -> bool:
    """Whether one of two paths contains the other, or both are equal."""
    return inside(one, other) or inside(other, one)


class Pool(t.NamedTuple):
    """A storage pool of libvirt: its type (``dir``, ``logical``, ...) and the path of its volumes; ``remote`` if it is on another host."""

    name: str
    type: str
    path: str
    remote: bool = False

    @property
    def files(self) -> bool:
        """Whether volumes are plain files (or directories) below ``path``, on the host of the pool."""
        return self.type in FILE_POOLS

    @property
    def whole(self) -> bool:
        """Whether all bytes of a volume are allocated at creation."""
        return self.type in WHOLE_POOLS


class Image(t.NamedTuple):
    """A base image: ``format`` is raw, qcow2 or tar; ``virtual_size`` in bytes, 0 for a tar.

    ``upload`` is the file name of an image of this host that another host needs, ``uploads`` the place
    (``pool/volume``) for the first disk that needs it.
    """

    name: str
    path: str
    format: str
    virtual_size: int
    upload: str | None = None
    uploads: str | None = None


class DiskSource(t.NamedTuple):
    """The source of a disk on the host: ``type`` is file, block or dir; ``format`` only where it differs from the disk's."""

    type: str
    path: str
    pool: str
    format: str | None = None


class Origin(t.NamedTuple):
    """The base image a volume was created from, as of then: ``size`` in bytes, ``changed`` its mtime in ns."""

    image: str
    path: str
    size: int
    changed: int


class Volume(t.NamedTuple):
    """An existing volume.

    ``format`` is raw, qcow2 or dir; sizes in bytes. A folder's ``capacity`` and ``allocation`` are
    ``None``: it has no limit, and measuring a large tree takes too long. ``backing`` is the
    backing file of a layer, ``None`` where there is none.
    """

    path: str
    type: str
    format: str
    capacity: int | None
    allocation: int | None
    backing: str | None = None
    origin: Origin | None = None


class VolumePlan(t.NamedTuple):
    """The plan for a volume; ``size`` in bytes is its final virtual size (0 for a directory).

    ``online``: it is grown through the block layer of the running domain. ``notices`` are sentences about
    details that do not apply to an existing volume. ``host_key`` and ``authorized_keys`` are written to the root of a container.
    """

    how: str
    disk: model_parts.Disk
    pool: Pool
    image: Image | None
    size: int
    found: Volume | None = None
    online: bool = False
    notices: tuple[str, ...] = ()
    host_key: HostKey | None = None
    authorized_keys: tuple[str, ...] = ()

    @property
    def creates(self) -> bool:
        """Whether a volume is created."""
        return self.how not in (KEEP, GROW)

    @property
    def action(self) -> str:
        """The action as the result names it."""
        return f"{'grow' if self.how == GROW else 'create'}_volume {self.pool.name}/{self.disk.name}"

    @property
    def actions(self) -> list[str]:
        """The actions as the result names them, with the upload of the image."""
        upload = self.image.uploads if self.image is not None else None
        return [f"upload_image {upload}", self.action] if upload else [self.action]

    def describe(self) -> str:
        """The planned volume in a few words, for the diff."""
        parts = [f"{self.pool.name}/{self.disk.name}", self.disk.format]
        if self.size:
            parts.append(model_size.size_text(self.size))
        if self.image is not None:
            parts.append(f"from {self.image.name}" if self.how != BACKING else f"backed by {self.image.name}")
        return ", ".join(parts)

    def describe_found(self) -> str:
        """The existing volume in a few words, for the diff."""
        capacity = self.found.capacity if self.found else None
        return ", ".join([f"{self.pool.name}/{self.disk.name}", self.disk.format] + ([model_size.size_text(capacity)] if capacity else []))


class Removal(t.NamedTuple):
    """A volume that is removed with its VM; ``wipe`` overwrites it first."""

    pool: Pool
    name: str
    path: str
    wipe: bool

    @property
    def action(self) -> str:
        """The action as the result names it."""
        return f"{'wipe' if self.wipe else 'remove'}_volume {self.pool.name}/{self.name}"
