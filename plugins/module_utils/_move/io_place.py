# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a VM that comes to this host: half there under a name of their own, then put in their place."""

from __future__ import annotations

import hashlib
import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import Item
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volume_files import mounts_below, remove_path, sync_folder, with_us

_CHUNK = 4 * 1024 * 1024


def partial(path: str) -> pathlib.Path:
    """Where a file or folder stands until it is whole."""
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
    """Make the folders the items come into; those of a pool are there."""
    for item in items:
        os.makedirs(os.path.dirname(item.path), mode=0o711, exist_ok=True)


def make_empty(item: Item) -> None:
    """An empty disk of the same form, for libvirt to fill while the guest runs.

    :raises BackendError: something that is not ours stands there, or there is no space.
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
    """Put what is whole in its place, safe against a power loss; what stands there already is left."""
    folders = set()
    for item in items:
        half, final = partial(item.path), pathlib.Path(item.path)
        if not os.path.lexists(half):
            if not os.path.lexists(final):
                raise BackendError(f"{final} did not arrive.")
            continue
        if item.kind == "dir":
            run(["sync", "--file-system", str(half)])
        else:
            with half.open("rb") as stream:
                os.fsync(stream.fileno())
        if os.path.lexists(final) and item.kind == "dir":
            raise BackendError(f"{final} is there already.", hint="Remove it, if no VM needs it.")
        os.rename(half, final)
        folders.add(final.parent)
    for folder in folders:
        sync_folder(folder)


def discard(items: t.Iterable[Item], *, finals: bool) -> list[str]:
    """Remove what arrived, with ``finals`` also what was put in its place; base images stay.

    :raises BackendError: something is mounted there.
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
