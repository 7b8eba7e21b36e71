# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans each disk of a VM: keep, grow, or create its volume in one of four ways; and which volumes are removed with a VM."""

from __future__ import annotations

import posixpath
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage, plan_disk_places

_SECTOR = 512
# volume groups and partition tables round up to whole extents; the largest common extent size
_EXTENT = 128 * model_size.MIB


def plan_volume(
    disk: model_vm.Disk, pool: model_storage.Pool, found: model_storage.Volume | None, image: model_storage.Image | None, path: str, online: bool = False
) -> model_storage.VolumePlan:
    """Plan one disk. An existing volume is never overwritten and never shrunk.

    :arg image: the inspected base image; ``None`` where the disk names none or the volume exists.
    :arg online: whether a running domain has this volume open.
    """
    if found is not None:
        return _plan_existing(disk, pool, found, path, online)
    if disk.format == "dir":
        if not pool.files:
            message = f"the pool {pool.name} is of type {pool.type} and does not support directories."
            raise model_errors.InputError(message, f"{path}.pool", "Use a pool of type dir.")
        if image is None:
            if disk.mount == "/":
                message = "is required: a container needs a root file system."
                raise model_errors.InputError(message, f"{path}.image", "Set a base image (a tar archive of a root file system).")
            return model_storage.VolumePlan(model_storage.EMPTY, disk, pool, None, 0)
        if image.format != "tar":
            message = f"{image.path} is {image.format}, but a container requires a tar archive."
            raise model_errors.InputError(message, f"{path}.image", "Use a tar archive of a root file system.")
        return model_storage.VolumePlan(model_storage.UNPACK, disk, pool, image, 0)
    if disk.format != "raw" and not pool.files:
        raise model_errors.InputError(f"the pool {pool.name} is of type {pool.type} and supports only raw volumes.", f"{path}.format", "Set format: raw.")
    if image is None:
        if disk.size is None:
            raise model_errors.InputError("is required for a disk without an image.", f"{path}.size", "Set a size or an image for the disk.")
        return model_storage.VolumePlan(model_storage.EMPTY, disk, pool, None, _whole(disk.size))
    if image.format not in ("raw", "qcow2"):
        raise model_errors.InputError(f"{image.path} is {image.format}, not a disk image.", f"{path}.image", "Use a raw or qcow2 image.")
    size = disk.size or image.virtual_size
    if size < image.virtual_size:
        raise model_errors.InputError(
            f"{model_size.size_text(size)} is less than the {model_size.size_text(image.virtual_size)} of the base image {image.name}.",
            f"{path}.size",
            f"Set {model_size.size_text(image.virtual_size)} or more, or remove the size.",
        )
    return model_storage.VolumePlan(model_storage.BACKING if disk.backing else model_storage.COPY, disk, pool, image, _whole(size))


def refuse_remote(plan: model_storage.VolumePlan, path: str) -> None:
    """Refuse what libvirt cannot do on another host."""
    if plan.pool.remote and plan.how == model_storage.GROW and plan.pool.type == "logical":
        message = f"libvirt cannot grow the logical volume {plan.disk.name}, and the connection is remote."
        raise model_errors.RefusedError(message, f"{path}.size", "Run the module on that host, without uri, or grow it there with lvextend.")


def check_room(pool: model_storage.Pool, requested: int, left: int, path: str) -> None:
    """Refuse disks that exceed the free space of a pool that allocates all bytes at creation; rounding up is not counted.

    :arg requested: bytes that the VM's disks in the pool still need.
    :arg left: free bytes of the pool.
    """
    if requested > left:
        raise model_errors.RefusedError(
            f"need {model_size.size_text(requested)} more in the pool {pool.name}, which has {model_size.size_text(max(0, left))} left.",
            f"{path}.disks",
            "Reduce the sizes of the disks, free space in the pool, or use another pool.",
        )


def _whole(size: int) -> int:
    """A size rounded up to whole sectors."""
    return -(-size // _SECTOR) * _SECTOR


def _plan_existing(disk: model_vm.Disk, pool: model_storage.Pool, found: model_storage.Volume, path: str, online: bool) -> model_storage.VolumePlan:
    if found.format != disk.format:
        raise model_errors.RefusedError(
            f"the volume {found.path} exists and is {found.format}, wanted is {disk.format}; the format of a volume cannot change.",
            f"{path}.format",
            f"Keep format: {found.format}, or give the disk another name to get a new volume.",
        )
    notices = _ignored_details(disk, found)
    capacity = found.capacity
    if capacity is None or disk.size is None:
        return model_storage.VolumePlan(model_storage.KEEP, disk, pool, None, capacity or 0, found, online, notices)
    wanted = _whole(disk.size)
    if wanted > capacity:
        return model_storage.VolumePlan(model_storage.GROW, disk, pool, None, wanted, found, online, notices)
    if capacity - wanted >= (_SECTOR if pool.files else _EXTENT):
        has, requested = model_size.size_text(capacity), model_size.size_text(wanted)
        if has == requested:
            has, requested = f"{capacity} B", f"{wanted} B"
        raise model_errors.RefusedError(
            f"the volume {found.path} has {has}, wanted is {requested}; shrinking would destroy data.",
            f"{path}.size",
            f"Set {has} or more, or give the disk another name to get a new volume.",
        )
    return model_storage.VolumePlan(model_storage.KEEP, disk, pool, None, capacity, found, online, notices)


def _ignored_details(disk: model_vm.Disk, found: model_storage.Volume) -> tuple[str, ...]:
    """Notices about image options that do not apply to an existing volume."""
    origin = found.origin
    if origin is not None and disk.image is not None and disk.image != origin.image:
        return (f"the volume {found.path} was created from the image {origin.image} and is kept; image: {disk.image} applies only when a volume is created",)
    if disk.format == "qcow2" and disk.backing and found.backing is None:
        return (f"the volume {found.path} is not a layer over an image; backing: true applies only when a volume is created",)
    if disk.format == "qcow2" and disk.image and not disk.backing and found.backing is not None:
        return (f"the volume {found.path} remains a layer over {found.backing}; backing: false applies only when a volume is created",)
    return ()


def image_changed(origin: model_storage.Origin | None, now: tuple[int, int] | None) -> str | None:
    """The problem with the backing file of a layer, in a few words; ``None`` when there is none.

    :arg now: its size and mtime in ns, ``None`` when it is missing.
    """
    if now is None:
        return "is missing"
    if origin is not None and (origin.size, origin.changed) != now:
        return "has changed since the layer was created: its size or time differs"
    return None


def kept_because(path: str, pool_path: str, protected: bool, users: t.Sequence[str], pools: t.Mapping[str, str] | None = None) -> str | None:
    """Why a volume of a removed VM must be kept; ``None`` when it can be removed.

    :arg users: names of other domains and volumes that need it or something in it.
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
