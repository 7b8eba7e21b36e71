# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a VM that is moved to this host: received under a temporary name, then renamed.

Until the move has ended, an extended attribute shows which files have arrived with it: only these are removed when it is rolled back.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import rename, sync_path
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import STATE, Item
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volume_files import mounts_below, remove_path, with_us

_CHUNK = 4 * 1024 * 1024
_ARRIVED = "trusted.reduced.footprint.arrived"


def partial(path: str) -> pathlib.Path:
    """The temporary path of a file or folder until it is complete."""
    final = pathlib.Path(path)
    return final.with_name(f".{final.name}.moving")


def content_hash(path: str) -> str:
    """SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while True:
            chunk = stream.read(_CHUNK)
            if not chunk:
                return digest.hexdigest()
            digest.update(chunk)


def prepare(items: t.Iterable[Item]) -> None:
    """Create the parent folders of the items."""
    for item in items:
        os.makedirs(os.path.dirname(item.path), mode=0o711, exist_ok=True)


def make_empty(item: Item) -> None:
    """Create an empty disk of the same format and size, for libvirt to mirror while the guest runs."""
    half = partial(item.path)
    remove_path(half)
    os.close(os.open(str(half), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    if item.format == "raw":
        os.truncate(half, item.capacity)
    else:
        behind = ["-b", item.backing, "-F", item.backing_format or "raw"] if item.backing else []
        run([*with_us(), "qemu-img", "create", "-q", "-f", item.format, *behind, str(half), str(item.capacity)])


def place(items: t.Iterable[Item], uuid: str) -> None:
    """Sync complete items to disk and rename them to their final path, where nothing may exist; those without a temporary file have been renamed before.

    :raises BackendError: an item is missing, or something else has its final path.
    """
    for item in items:
        half, final = partial(item.path), pathlib.Path(item.path)
        if not os.path.lexists(half):
            if not (os.path.lexists(final) if item.base else has_arrived(item, uuid)):
                raise BackendError(f"{final} was not received.")
            continue
        if item.kind == "dir":
            _sync(half, item.kind)
        if not item.base:
            # where the file system has no attributes, it is not known later
            with contextlib.suppress(OSError):
                os.setxattr(half, _ARRIVED, uuid.encode("ascii"))
        try:
            rename(half, final, new=True)
        except FileExistsError as error:
            if item.base and final.is_file() and content_hash(item.path) == content_hash(str(half)):
                # another VM with this base image was moved here meanwhile
                remove_path(half)
                continue
            raise BackendError(f"{final} already exists.", hint="It was created after the checks of the move. Remove it if no VM needs it.") from error


def has_arrived(item: Item, uuid: str) -> bool:
    """Whether what is at the final path has arrived with the present move of a VM; false if that is not known."""
    if item.carried == STATE:
        # libvirt creates it as well; the name is that of the VM, or its UUID
        return os.path.lexists(item.path)
    try:
        return os.getxattr(item.path, _ARRIVED, follow_symlinks=False) == uuid.encode("ascii")
    except OSError:
        return False


def settle(items: t.Iterable[Item]) -> None:
    """Remove the attribute: the move has ended, and the files belong to this host."""
    for item in items:
        with contextlib.suppress(OSError):
            os.removexattr(item.path, _ARRIVED, follow_symlinks=False)


def sync(items: t.Iterable[Item]) -> None:
    """Flush the items at their final paths, and the folders that contain them, to disk: afterwards a power loss does not change them."""
    folders = set()
    for item in items:
        final = pathlib.Path(item.path)
        _sync(final, item.kind)
        folders.add(final.parent)
    for folder in sorted(folders):
        sync_path(folder)


def _sync(path: pathlib.Path, kind: str) -> None:
    if kind == "dir":
        # one call for the whole file system instead of thousands of files
        run(["sync", "--file-system", str(path)])
    else:
        sync_path(path)


def discard(items: t.Iterable[Item], arrived: str | None) -> tuple[list[str], list[str]]:
    """Remove items, under their temporary and final names; base images are kept.

    :arg arrived: only what has arrived with the present move of the VM with this UUID.
    :returns: the removed paths, and those at which is something else.
    :raises BackendError: a file system is mounted below one.
    """
    gone, left = [], []
    for item in items:
        final = [] if item.base else [pathlib.Path(item.path)]
        if arrived and final and os.path.lexists(item.path) and not has_arrived(item, arrived):
            left.append(item.path)
            final = []
        for path in [partial(item.path), *final]:
            if os.path.lexists(path):
                below = mounts_below(str(path))
                if below:
                    raise BackendError(f"cannot remove {path}: {below[0]} is mounted there.", hint="Unmount it, then run again.")
                remove_path(path)
                gone.append(str(path))
    return gone, left
