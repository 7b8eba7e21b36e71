# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a VM that is moved to this host: received under a temporary name, then renamed."""

from __future__ import annotations

import hashlib
import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import sync_path
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import Item
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volume_files import mounts_below, remove_path, with_us

_CHUNK = 4 * 1024 * 1024


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
    """Create an empty disk of the same format and size, for libvirt to mirror while the guest runs.

    :raises BackendError: it cannot be created, for example without free space.
    """
    half = partial(item.path)
    remove_path(half)
    os.close(os.open(str(half), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    if item.format == "raw":
        os.truncate(half, item.capacity)
    else:
        behind = ["-b", item.backing, "-F", item.backing_format or "raw"] if item.backing else []
        run([*with_us(), "qemu-img", "create", "-q", "-f", item.format, *behind, str(half), str(item.capacity)])


def place(items: t.Iterable[Item]) -> None:
    """Sync complete items to disk and rename them to their final path; items without a temporary file must already exist there.

    :raises BackendError: an item is missing, or its folder already exists.
    """
    folders = set()
    for item in items:
        half, final = partial(item.path), pathlib.Path(item.path)
        if not os.path.lexists(half):
            if not os.path.lexists(final):
                raise BackendError(f"{final} was not received.")
            continue
        _sync(half, item.kind)
        if os.path.lexists(final) and item.kind == "dir":
            raise BackendError(f"{final} already exists.", hint="Remove it if no VM needs it.")
        os.rename(half, final)
        folders.add(final.parent)
    for folder in folders:
        sync_path(folder)


def sync(items: t.Iterable[Item]) -> None:
    """Flush the items at their final paths, and the folders that contain them, to disk: afterwards a power loss does not change them.

    :raises FootprintError: a folder could not be written.
    :raises OSError: a file could not be written.
    """
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


def discard(items: t.Iterable[Item], *, finals: bool) -> list[str]:
    """Remove received items, with ``finals`` also the renamed ones; base images are kept. Returns the removed paths.

    :raises BackendError: a file system is mounted below one.
    """
    gone = []
    for item in items:
        for path in [partial(item.path), *([pathlib.Path(item.path)] if finals and not item.base else [])]:
            if os.path.lexists(path):
                below = mounts_below(str(path))
                if below:
                    raise BackendError(f"cannot remove {path}: {below[0]} is mounted there.", hint="Unmount it, then run again.")
                remove_path(path)
                gone.append(str(path))
    return gone
