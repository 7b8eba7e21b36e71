# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""cloud-init seeds: a small ISO image for machines, files in the root of a container.

The content includes secrets. It is kept only in files of mode 0600 and in memory, never on a
command line or in a message; an existing seed is compared by reading it, so no checksum of it
is stored.
"""

from __future__ import annotations

import os
import pathlib
import struct

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files, model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_cloud_init

_NAMES = ("user-data", "meta-data", "network-config", model_cloud_init.VENDOR_DATA)
_SECTOR = 2048
_FIRST_DESCRIPTOR = 16
_JOLIET = (b"%/@", b"%/C", b"%/E")
# larger than any accepted seed
MOST = 64 * 1024 * 1024


def write_iso(final: pathlib.Path, seed: model_cloud_init.CloudInit) -> None:
    """Create or replace the ISO image of a seed atomically."""
    # imported for written seeds only; most runs only compare them
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volume_files

    work = final.with_name(f".{final.name}.partial")
    try:
        io_volume_files.remove_path(work)
        # private before any content is written
        work.mkdir(mode=0o700)
        try:
            files = work / "files"
            files.mkdir(mode=0o700)
            for name, content in seed.files().items():
                (files / name).write_bytes(content)
            image = work / "seed.iso"
            argv = [
                "xorriso",
                "-no_rc",
                "-as",
                "mkisofs",
                "-quiet",
                "-volid",
                model_cloud_init.LABEL,
                "-joliet",
                "-rational-rock",
                "-output",
                str(image),
                str(files),
            ]
            io_volume_files.run_tool(argv, "xorriso (role virt_host does)")
            os.chmod(image, 0o600)
            io_files.rename(image, final, new=False)
        finally:
            io_volume_files.remove_path(work)
    except OSError as error:
        raise model_errors.BackendError(f"cannot create {final}: {error.strerror or error}.", hint="Check space and permissions of the pool.") from error


def read_iso(path: str) -> dict[str, bytes] | None:
    """Return the files of a seed's ISO image; ``None`` if it is missing or not a seed."""
    try:
        with open(path, "rb") as stream:
            if os.fstat(stream.fileno()).st_size > MOST:
                return None
            data = stream.read()
        return files_of(data)
    except (OSError, struct.error, UnicodeDecodeError, IndexError):
        return None


def write_tree(root: str, seed: model_cloud_init.CloudInit) -> None:
    """Write a seed into the root of a container.

    The guest controls the content of its root: no link in it leads out of it.
    """
    # imported for containers only
    from ansible_collections.reduced.footprint.plugins.module_utils._core import io_tree

    files, tree, folder = seed.files(), io_tree.Tree(root), "/".join(model_cloud_init.SEED_FOLDER)
    with io_tree.writing("the seed", os.path.join(root, folder), "Check this path in the container's root."):
        for name in _NAMES:
            if name in files:
                tree.write(f"{folder}/{name}", files[name], mode=0o600, folder_mode=0o700)
            else:
                tree.unlink(f"{folder}/{name}")
        tree.sync(folder)


def read_tree(root: str) -> dict[str, bytes] | None:
    """Return the files of a seed in the root of a container, ``None`` without a seed."""
    from ansible_collections.reduced.footprint.plugins.module_utils._core import io_tree

    try:
        found = {name: io_tree.Tree(root).read("/".join((*model_cloud_init.SEED_FOLDER, name)), most=MOST) for name in _NAMES}
    except OSError:
        return None
    return {name: content for name, content in found.items() if content is not None} or None


def files_of(data: bytes) -> dict[str, bytes] | None:
    """Return the files in the root folder of an ISO 9660 image by their Joliet names."""
    label, joliet = None, None
    at = _FIRST_DESCRIPTOR * _SECTOR
    while data[at + 1 : at + 6] == b"CD001" and data[at] != 255:
        if data[at] == 1:
            label = data[at + 40 : at + 72].decode("ascii").rstrip()
        elif data[at] == 2 and data[at + 88 : at + 91] in _JOLIET:
            joliet = data[at + 156 : at + 190]
        at += _SECTOR
    if label != model_cloud_init.LABEL or joliet is None:
        return None
    files = {}
    start, length = _extent(joliet)
    folder = data[start : start + length]
    at = 0
    while at < len(folder):
        size = folder[at]
        if size == 0:
            # directory entries do not cross sector boundaries
            at = (at // _SECTOR + 1) * _SECTOR
            continue
        entry = folder[at : at + size]
        at += size
        raw = entry[33 : 33 + entry[32]]
        # the entries of the folder itself and its parent have names of one byte
        if len(raw) > 1 and not entry[25] & 2:
            begin, length = _extent(entry)
            files[raw.decode("utf-16-be").split(";")[0]] = data[begin : begin + length]
    return files


def _extent(entry: bytes) -> tuple[int, int]:
    sector, length = struct.unpack("<I", entry[2:6])[0], struct.unpack("<I", entry[10:14])[0]
    return sector * _SECTOR, length
