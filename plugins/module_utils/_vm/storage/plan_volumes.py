# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What to do about each disk of a VM: nothing, grow its volume, or make it in one of four ways; and which volumes go with a VM."""

from __future__ import annotations

import posixpath
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage, plan_disk_places

_SECTOR = 512
# volume groups and partition tables round up to whole extents; the largest usual ones
_EXTENT = 128 * model_size.MIB


def plan_volume(
    disk: model_vm.Disk, pool: model_storage.Pool, found: model_storage.Volume | None, image: model_storage.Image | None, path: str, online: bool = False
) -> model_storage.VolumePlan:
    """Decide for one disk. A volume that exists is never written over and never shrinks.

    :arg found: the volume, where there is one.
    :arg image: the base image as it was found; ``None`` where the disk names none or the volume exists.
    :arg path: of the disk in the user's input.
    :arg online: whether a running domain has this very volume open.
    :raises InputError: the disk and its image or pool do not go together.
    :raises RefusedError: the volume exists and cannot become what is wanted.
    """
    if found is not None:
        return _plan_existing(disk, pool, found, path, online)
    if disk.format == "dir":
        if not pool.files:
            raise model_errors.InputError(f"the pool {pool.name} is of type {pool.type} and holds no directories.", f"{path}.pool", "Use a pool of type dir.")
        if image is None:
            if disk.mount == "/":
                raise model_errors.InputError("is missing; a container needs a root file system.", f"{path}.image", "Name a base image (a tar of a root).")
            return model_storage.VolumePlan(model_storage.EMPTY, disk, pool, None, 0)
        if image.format != "tar":
            raise model_errors.InputError(f"{image.path} is {image.format}, a container's root comes from a tar.", f"{path}.image", "Name a tar of a root.")
        return model_storage.VolumePlan(model_storage.UNPACK, disk, pool, image, 0)
    if disk.format != "raw" and not pool.files:
        raise model_errors.InputError(f"the pool {pool.name} is of type {pool.type} and holds raw volumes only.", f"{path}.format", "Use format raw.")
    if image is None:
        if disk.size is None:
            raise model_errors.InputError("is missing and there is no image to take it from.", f"{path}.size", "Give the disk a size or an image.")
        return model_storage.VolumePlan(model_storage.EMPTY, disk, pool, None, _whole(disk.size))
    if image.format not in ("raw", "qcow2"):
        raise model_errors.InputError(f"{image.path} is {image.format}, not the image of a disk.", f"{path}.image", "Name a raw or qcow2 image.")
    size = disk.size or image.virtual_size
    if size < image.virtual_size:
        raise model_errors.InputError(
            f"{model_size.size_text(size)} is less than the {model_size.size_text(image.virtual_size)} of the base image {image.name}.",
            f"{path}.size",
            f"Ask for {model_size.size_text(image.virtual_size)} or more, or leave the size out.",
        )
    return model_storage.VolumePlan(model_storage.BACKING if disk.backing else model_storage.COPY, disk, pool, image, _whole(size))


def check_room(pool: model_storage.Pool, asked: int, left: int, path: str) -> None:
    """Refuse disks for which a pool that gives all at once has no room; what it rounds up to is not counted.

    :arg asked: bytes that the VM's disks there still need.
    :arg path: of the VM in the user's input.
    :raises RefusedError: with the numbers.
    """
    if asked > left:
        raise model_errors.RefusedError(
            f"need {model_size.size_text(asked)} more of the pool {pool.name}, which has {model_size.size_text(max(0, left))} left.",
            f"{path}.disks",
            "Make the disks smaller, free room in the pool, or name another pool.",
        )


def _whole(size: int) -> int:
    """A size in whole sectors; no disk ends within one."""
    return -(-size // _SECTOR) * _SECTOR


def _plan_existing(disk: model_vm.Disk, pool: model_storage.Pool, found: model_storage.Volume, path: str, online: bool) -> model_storage.VolumePlan:
    if found.format != disk.format:
        raise model_errors.RefusedError(
            f"the volume {found.path} exists and is {found.format}, wanted is {disk.format}; the format of a volume cannot change.",
            f"{path}.format",
            f"Keep format: {found.format}, or give the disk another name to get a new volume.",
        )
    told = _cannot_follow(disk, found)
    capacity = found.capacity
    if capacity is None or disk.size is None:
        return model_storage.VolumePlan(model_storage.KEEP, disk, pool, None, capacity or 0, found, online, told)
    wanted = _whole(disk.size)
    if wanted > capacity:
        return model_storage.VolumePlan(model_storage.GROW, disk, pool, None, wanted, found, online, told)
    if capacity - wanted >= (_SECTOR if pool.files else _EXTENT):
        has, asked = model_size.size_text(capacity), model_size.size_text(wanted)
        if has == asked:
            has, asked = f"{capacity} B", f"{wanted} B"
        raise model_errors.RefusedError(
            f"the volume {found.path} has {has}, wanted is {asked}; shrinking would cut off its content.",
            f"{path}.size",
            f"Ask for {has} or more, or give the disk another name to get a new volume.",
        )
    return model_storage.VolumePlan(model_storage.KEEP, disk, pool, None, capacity, found, online, told)


def _cannot_follow(disk: model_vm.Disk, found: model_storage.Volume) -> tuple[str, ...]:
    """What the details say of the image and an existing volume cannot follow any more."""
    origin = found.origin
    if origin is not None and disk.image is not None and disk.image != origin.image:
        return (f"the volume {found.path} was made from the image {origin.image} and stays so; image: {disk.image} counts only when a volume is made",)
    if disk.format == "qcow2" and disk.backing and found.backing is None:
        return (f"the volume {found.path} is no layer over an image; backing: true counts only when a volume is made",)
    if disk.format == "qcow2" and disk.image and not disk.backing and found.backing is not None:
        return (f"the volume {found.path} stays a layer over {found.backing}; backing: false counts only when a volume is made",)
    return ()


def image_changed(origin: model_storage.Origin | None, now: tuple[int, int] | None) -> str | None:
    """What is wrong with the image behind a layer, in a few words; ``None`` when all is well.

    :arg now: its size and mtime in ns, ``None`` when it is gone.
    """
    if now is None:
        return "is gone"
    if origin is not None and (origin.size, origin.changed) != now:
        return "is not the one the layer was made over: its size or time changed"
    return None


def kept_because(path: str, pool_path: str, protected: bool, users: t.Sequence[str], pools: t.Mapping[str, str] | None = None) -> str | None:
    """Why a volume of a VM that goes has to stay; ``None`` when it may go.

    :arg users: names of domains and volumes, other than this VM's own, that need it or something in it.
    :arg pools: folder of each pool of files → its name.
    """
    if protected:
        return "it is protected"
    if path.startswith(posixpath.join(pool_path, model_storage.IMAGES_FOLDER) + "/"):
        return "it is a base image"
    reserved = plan_disk_places.reserved_because(path, pools or {})
    if reserved is not None:
        return reserved
    if users:
        return f"{', '.join(users)} {'needs' if len(users) == 1 else 'need'} it"
    return None
