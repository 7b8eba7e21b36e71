# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What to do about each disk of a VM: nothing, or make its volume in one of four ways."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._model.size import size_text
from ansible_collections.reduced.footprint.plugins.module_utils._model.storage import BACKING, COPY, EMPTY, KEEP, UNPACK, Image, Pool, VolumePlan
from ansible_collections.reduced.footprint.plugins.module_utils._model.vm import Disk


def plan_volume(disk: Disk, pool: Pool, exists: bool, image: Image | None, path: str) -> VolumePlan:
    """Decide for one disk. A volume that exists is never written over, whatever its size (F2).

    :arg image: the base image as it was found; ``None`` where the disk names none.
    :arg path: of the disk in the user's input.
    :raises InputError: the disk and its image or pool do not go together.
    """
    if exists:
        return VolumePlan(KEEP, disk, pool, image, disk.size or 0)
    if disk.format == "dir":
        if not pool.files:
            raise InputError(f"the pool {pool.name} is of type {pool.type} and holds no directories.", f"{path}.pool", "Use a pool of type dir.")
        if image is None:
            if disk.mount == "/":
                raise InputError("is missing; a container needs a root file system.", f"{path}.image", "Name a base image (a tar of a root).")
            return VolumePlan(EMPTY, disk, pool, None, 0)
        if image.format != "tar":
            raise InputError(f"{image.path} is {image.format}, a container's root comes from a tar.", f"{path}.image", "Name a tar of a root.")
        return VolumePlan(UNPACK, disk, pool, image, 0)
    if disk.format != "raw" and not pool.files:
        raise InputError(f"the pool {pool.name} is of type {pool.type} and holds raw volumes only.", f"{path}.format", "Use format raw.")
    if image is None:
        if disk.size is None:
            raise InputError("is missing and there is no image to take it from.", f"{path}.size", "Give the disk a size or an image.")
        return VolumePlan(EMPTY, disk, pool, None, disk.size)
    if image.format not in ("raw", "qcow2"):
        raise InputError(f"{image.path} is {image.format}, not the image of a disk.", f"{path}.image", "Name a raw or qcow2 image.")
    size = disk.size or image.virtual_size
    if size < image.virtual_size:
        raise InputError(
            f"{size_text(size)} is less than the {size_text(image.virtual_size)} of the base image {image.name}.",
            f"{path}.size",
            f"Ask for {size_text(image.virtual_size)} or more, or leave the size out.",
        )
    return VolumePlan(BACKING if disk.backing else COPY, disk, pool, image, size)
