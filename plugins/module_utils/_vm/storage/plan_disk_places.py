# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Paths in a storage pool that must not be the disk of a VM: base images, and the folders of pools."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage

# names of folders that belong to the pool itself
RESERVED_NAMES = (model_storage.IMAGES_FOLDER,)


def reserved_because(path: str, pools: t.Mapping[str, str]) -> str | None:
    """Why a path must not be the volume of a VM; ``None`` when it is allowed.

    :arg pools: real path of the folder of each pool of files → name of the pool.
    """
    for folder, name in pools.items():
        if model_storage.inside(folder, path):
            return f"it is or contains the folder of the storage pool {name}"
        if model_storage.inside(f"{folder.rstrip('/')}/{model_storage.IMAGES_FOLDER}", path):
            return f"it is the folder of the base images of the storage pool {name}"
    return None


def written_because(path: str, pools: t.Mapping[str, str], folder: bool) -> str | None:
    """Why a VM must not write to a path in its template; ``None`` when it is allowed.

    :arg pools: as for :func:`reserved_because`.
    :arg folder: whether it is a folder and not a disk.
    """
    reason = reserved_because(path, pools) if folder else None
    if reason is not None:
        return reason
    parent, unused, name = path.rpartition("/")
    pool = pools.get(parent.rpartition("/")[0])
    # the folder of a pool can be the folder images of another pool
    if pool is not None and parent not in pools and parent.endswith(f"/{model_storage.IMAGES_FOLDER}"):
        return f"it is a base image of the storage pool {pool}"
    return None


def check_name(pool: model_storage.Pool, name: str, path: str) -> None:
    """Refuse the name of a volume that is reserved in pools of files."""
    if pool.files and name in RESERVED_NAMES:
        raise model_errors.RefusedError(
            f"{name!r} is the folder of the base images of the storage pool {pool.name}; a disk cannot have this name.",
            f"{path}.name",
            "Give the disk another name.",
        )


def check_folder(place: str, pools: t.Mapping[str, str], path: str) -> None:
    """Refuse a folder as the disk of a container if it would expose a whole pool, or base images.

    :arg place: real path of the existing or future folder.
    :arg pools: as for :func:`reserved_because`.
    """
    reason = reserved_because(place, pools)
    if reason is not None:
        raise model_errors.RefusedError(f"{place} cannot be the disk of a container: {reason}.", f"{path}.name", "Give the disk another name or pool.")
