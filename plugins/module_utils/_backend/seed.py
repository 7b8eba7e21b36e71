# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seeds of cloud-init: a small ISO for machines, files in the root of a container.

The content carries secrets. It is only ever in files of mode 0600 and in memory, never on a
command line and in no message; what stands there is compared by reading it, so no checksum of it
is kept anywhere.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
import struct
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend import command
from ansible_collections.reduced.footprint.plugins.module_utils._backend import volume_files
from ansible_collections.reduced.footprint.plugins.module_utils._model import cloud_init
from ansible_collections.reduced.footprint.plugins.module_utils._model import errors

_NAMES = ("user-data", "meta-data", "network-config")
_SECTOR = 2048
_FIRST_DESCRIPTOR = 16
_JOLIET = (b"%/@", b"%/C", b"%/E")
# larger than any seed that is accepted
_MOST = 64 * 1024 * 1024
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def write_iso(final: pathlib.Path, seed: cloud_init.CloudInit) -> None:
    """Make or replace the ISO of a seed; a reader finds the old one or the new one, whole.

    :raises BackendError: xorriso is missing or failed.
    """
    work = final.with_name(f".{final.name}.partial")
    try:
        volume_files.remove_path(work)
        # nobody else may look in, from the first moment on
        work.mkdir(mode=0o700)
        try:
            files = work / "files"
            files.mkdir(mode=0o700)
            for name, content in seed.files().items():
                (files / name).write_bytes(content)
            image = work / "seed.iso"
            argv = ["xorriso", "-no_rc", "-as", "mkisofs", "-quiet", "-volid", cloud_init.LABEL, "-joliet", "-rational-rock", "-output", str(image), str(files)]
            command.run([*volume_files.with_us(), *argv], mend="Install xorriso on the host (role virt_host does).")
            os.chmod(image, 0o600)
            with image.open("rb") as stream:
                os.fsync(stream.fileno())
            os.rename(image, final)
        finally:
            volume_files.remove_path(work)
        volume_files.sync_folder(final.parent)
    except OSError as error:
        raise errors.BackendError(f"cannot make {final}: {error.strerror or error}.", mend="Check space and permissions of the pool.") from error


def read_iso(path: str) -> dict[str, bytes] | None:
    """The files of a seed's ISO; ``None`` when there is none, or something else stands there."""
    try:
        with open(path, "rb") as stream:
            if os.fstat(stream.fileno()).st_size > _MOST:
                return None
            data = stream.read()
        return _files_of(data)
    except (OSError, struct.error, UnicodeDecodeError, IndexError):
        return None


def write_tree(root: str, seed: cloud_init.CloudInit) -> None:
    """Put a seed into the root of a container.

    What is in there belongs to the guest: no link of its making is followed.

    :raises BackendError: the file system refused, or a link stands in the way.
    """
    files = seed.files()
    try:
        with _seed_folder(root, make=True) as folder:
            for name in _NAMES:
                if name in files:
                    _replace(folder, name, files[name])
                else:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)
            os.fsync(folder)
    except OSError as error:
        place = os.path.join(root, *cloud_init.SEED_FOLDER)
        mend = "Check what stands there in the container's root."
        raise errors.BackendError(f"cannot write the seed into {place}: {error.strerror or error}.", mend=mend) from error


def read_tree(root: str) -> dict[str, bytes] | None:
    """The files of a seed in the root of a container, ``None`` when there is none."""
    found: dict[str, bytes] = {}
    try:
        with _seed_folder(root, make=False) as folder:
            for name in _NAMES:
                with contextlib.suppress(FileNotFoundError):
                    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
                    with os.fdopen(handle, "rb") as stream:
                        state = os.fstat(stream.fileno())
                        if stat.S_ISREG(state.st_mode) and state.st_size <= _MOST:
                            found[name] = stream.read()
    except OSError:
        return None
    return found or None


@contextlib.contextmanager
def _seed_folder(root: str, make: bool) -> t.Iterator[int]:
    """The seed's folder below a root as an open directory."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for index, part in enumerate(cloud_init.SEED_FOLDER):
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700 if index == len(cloud_init.SEED_FOLDER) - 1 else 0o755, dir_fd=folder)
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _replace(folder: int, name: str, content: bytes) -> None:
    temporary = f".{name}.partial"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _files_of(data: bytes) -> dict[str, bytes] | None:
    """The root folder of an ISO 9660 image by its Joliet names."""
    label, joliet = None, None
    at = _FIRST_DESCRIPTOR * _SECTOR
    while data[at + 1 : at + 6] == b"CD001" and data[at] != 255:
        if data[at] == 1:
            label = data[at + 40 : at + 72].decode("ascii").rstrip()
        elif data[at] == 2 and data[at + 88 : at + 91] in _JOLIET:
            joliet = data[at + 156 : at + 190]
        at += _SECTOR
    if label != cloud_init.LABEL or joliet is None:
        return None
    files = {}
    start, length = _extent(joliet)
    folder = data[start : start + length]
    at = 0
    while at < len(folder):
        size = folder[at]
        if size == 0:
            # an entry never crosses a sector
            at = (at // _SECTOR + 1) * _SECTOR
            continue
        entry = folder[at : at + size]
        at += size
        raw = entry[33 : 33 + entry[32]]
        # the folder itself and the one above it have names of one byte
        if len(raw) > 1 and not entry[25] & 2:
            begin, length = _extent(entry)
            files[raw.decode("utf-16-be").split(";")[0]] = data[begin : begin + length]
    return files


def _extent(entry: bytes) -> tuple[int, int]:
    sector, length = struct.unpack("<I", entry[2:6])[0], struct.unpack("<I", entry[10:14])[0]
    return sector * _SECTOR, length
