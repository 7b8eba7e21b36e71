# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Base images: inspected before volumes are created from them."""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command, model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header, model_storage

DISK_ENDINGS = ("", ".qcow2", ".img", ".raw")
_ROOT_ENDINGS = ("", ".tar", ".tar.gz", ".tar.xz", ".tar.zst", ".tgz")

_HINT = "Fetch the image again and verify it with its checksum in virt_guests_images."
# those that tar unpacks itself
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2"}
_ARCHIVES = {b"PK\x03\x04": "zip", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!\x1a\x07": "rar", b"\x04\x22\x4d\x18": "lz4", b"LZIP": "lzip", b"\x5d\0\0\x80\0": "lzma"}
# enough for all signatures
HEAD = 512
# exit codes of qemu-img check: check failed, or errors found
_BROKEN = (1, 2)


def find(
    pool: model_storage.Pool, name: str, container: bool, where: str, pending: t.Container[str], known: dict[str, model_storage.Image]
) -> model_storage.Image:
    """Find and inspect a base image in a pool.

    :arg where: path of its name in the user's input.
    :arg pending: file names that count as present although they are not fetched yet.
    :arg known: path → image of those already inspected; extended by this call.
    """
    if not pool.files or not os.path.isdir(pool.path):
        raise model_errors.InputError(f"the pool {pool.name} has no folder for base images on this host.", where, "Use a pool of type dir.")
    folder = pathlib.Path(pool.path) / model_storage.IMAGES_FOLDER
    endings = _ROOT_ENDINGS if container else DISK_ENDINGS
    for ending in endings:
        candidate = folder / f"{name}{ending}"
        if candidate.is_file():
            if str(candidate) not in known:
                known[str(candidate)] = inspect(name, candidate, container, where)
            return known[str(candidate)]
    for ending in endings:
        if f"{name}{ending}" in pending:
            form = "tar" if container else "qcow2" if ending == ".qcow2" else "raw"
            return model_storage.Image(name, str(folder / f"{name}{ending}"), form, 0)
    names = ", ".join(f"{name}{ending}" for ending in endings)
    raise model_errors.InputError(f"the base image {name!r} does not exist in {folder}.", where, f"Add one of {names} there (see virt_guests_images).")


def inspect(name: str, path: pathlib.Path, container: bool, where: str) -> model_storage.Image:
    """Inspect a base image.

    :arg where: path of its name in the user's input.
    """
    if container:
        return _tar(name, path, where)
    refuse_packed(_head(path, where), path, where)
    hint = "Install qemu-utils on the host."
    if io_disk_header.has_data_file(path):
        # before qemu-img opens that file: the header can name any file of the host, and a VM would get its content
        raise model_errors.InputError(f"{path} stores its content in another file.", where, "Convert it where it was made, with qemu-img convert.")
    try:
        facts = json.loads(io_command.run(["qemu-img", "info", "--output=json", str(path)], hint=hint).stdout)
    except model_errors.CommandError as error:
        if error.rc == 127:
            raise
        raise model_errors.InputError(f"{path} is not a valid image: {error.message}.", where, _HINT) from error
    form, suffix = facts["format"], path.suffix[1:]
    if suffix in ("qcow2", "raw") and form != suffix:
        raise model_errors.InputError(f"{path} has the suffix .{suffix}, but its format is {form}.", where, _HINT)
    if facts.get("backing-filename"):
        raise model_errors.InputError(f"{path} needs a backing file ({facts['backing-filename']}).", where, "Flatten it with qemu-img convert.")
    if form not in ("raw", "qcow2"):
        raise model_errors.InputError(f"{path} has the unsupported format {form}.", where, "Convert it to qcow2 or raw.")
    if not facts["virtual-size"]:
        raise model_errors.InputError(f"{path} is empty.", where, _HINT)
    if form == "qcow2":
        checked = io_command.run(["qemu-img", "check", "-q", "-f", form, str(path)], ok=range(256), hint=hint)
        if checked.rc in _BROKEN:
            output = (checked.stderr or checked.stdout).strip().splitlines()
            raise model_errors.InputError(f"{path} is damaged: {output[0] if output else 'qemu-img check found errors'}.", where, _HINT)
    return model_storage.Image(name, str(path), form, int(facts["virtual-size"]))


def refuse_packed(head: bytes, path: str | pathlib.Path, where: str) -> None:
    """Refuse a packed disk image: every format can be read as a raw one, so a guest would get the packed bytes as its disk.

    :arg head: its first bytes (``HEAD``).
    """
    known = {**_COMPRESSED, **_ARCHIVES}
    packed = next((known[start] for start in known if head.startswith(start)), "tar" if _is_tar(head) else None)
    if packed is not None:
        hint = "Unpack it, and use the disk image that is in it, with the suffix of its own format."
        raise model_errors.InputError(f"{path} is packed ({packed}).", where, hint)


def _head(path: pathlib.Path, where: str) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(HEAD)
    except OSError as error:
        raise model_errors.InputError(f"{path} cannot be read: {error.strerror}.", where, _HINT) from error


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def _tar(name: str, path: pathlib.Path, where: str) -> model_storage.Image:
    head = _head(path, where)
    if not _is_tar(head) and not head.startswith(tuple(_COMPRESSED)):
        raise model_errors.InputError(f"{path} is not a tar archive.", where, _HINT)
    return model_storage.Image(name, str(path), "tar", 0)
