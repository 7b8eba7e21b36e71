# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: the diagnostic snapshot of all hosts, one archive on the control node."""

from __future__ import annotations

import base64
import binascii
import io
import json
import pathlib
import re
import tarfile
import time
import typing as t
import urllib.parse
import zlib

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import make_folder, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import masked
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import mask_known, redact
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic.plan_archive import clean

#: The document of a host has at most twice the size of its texts, and names.
_NAMES = 4 << 20
_DIRECTORY = "diagnostic_snapshot_directory"


class Host(t.NamedTuple):
    """What is known of a host.

    :arg reason: why it has no texts; empty if it has.
    :arg file: file with the document that it returned.
    :arg status: its answer to the status.
    """

    reason: str
    file: str = ""
    status: t.Mapping[str, t.Any] = {}


def keep(folder: str, host: str, content: str) -> str:
    """Store what a host returned until the end of the run, and return the path of the file.

    :arg folder: the temporary folder of this run of Ansible, which removes it.
    """
    path = pathlib.Path(folder, "diagnostic", f"host-{urllib.parse.quote(host, safe='')}")
    write_atomic(path, content)
    return str(path)


def texts_of(content: str, size: int) -> dict[str, str]:
    """Return the texts in the document of a host, which is not trusted.

    :arg size: bytes of all texts together.
    :raises ValueError: it is not such a document, or larger.
    """
    try:
        decompress = zlib.decompressobj(31)
        data = decompress.decompress(base64.b64decode(content, validate=True), 2 * size + _NAMES)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"cannot be unpacked: {error}") from error
    if not decompress.eof:
        raise ValueError("is larger than requested or incomplete")
    document = json.loads(data)
    found = {_name(name): clean(str(text)) for name, text in document["texts"].items()}
    return {**found, "index.json": clean(json.dumps(document["index"], indent=1, ensure_ascii=False))}


def _name(name: str) -> str:
    """Return a path that stays within the folder it is unpacked to, without characters that a file name should not have."""
    parts = [re.sub(r"[^\w.@:+-]", "_", part) for part in name.split("/")]
    return "/".join(part for part in parts if part.strip("."))


def write(
    directory: str, stamp: str, hosts: t.Mapping[str, Host], status: t.Mapping[str, str], secrets: t.Iterable[str], size: int
) -> tuple[str, dict[str, str]]:
    """Write the archive, readable only by its owner, and return its path, and host → why it has no texts.

    :arg directory: of the archive.
    :arg stamp: the time in its name.
    :arg status: name → text, of the whole footprint.
    :arg secrets: those that the control node knows.
    :arg size: bytes of the texts of one host together.
    """
    name = f"{stamp}-diagnostic"
    path = pathlib.Path(directory).expanduser().absolute() / f"{name}.tar.gz"
    silent = {host: each.reason for host, each in hosts.items() if not each.file}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        known = sorted(secrets)
        for host, each in hosts.items():
            texts, folder = {}, f"{name}/{_name(host.replace('/', '_'))}"
            if each.file:
                try:
                    texts = texts_of(pathlib.Path(each.file).read_text("utf-8"), size)
                except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
                    silent[host] = f"what it returned {error}"
            texts = {inner: mask_known(text, known) for inner, text in texts.items()}
            if host in silent:
                texts["no-answer.txt"] = redact(f"{silent[host]}\n", known)
            if each.status:
                texts["status.json"] = redact(json.dumps(masked(each.status), indent=1, sort_keys=True), known)
            for inner, text in texts.items():
                _add(archive, f"{folder}/{inner}", text)
        summary = {"hosts": {host: silent.get(host) for host in hosts}, "time": stamp}
        for inner, text in {**status, "index.json": json.dumps(summary, indent=1)}.items():
            _add(archive, f"{name}/{inner}", redact(text, known))
    try:
        make_folder(path.parent)
        write_atomic(path, buffer.getvalue(), new=True)
    except FileExistsError:
        raise InputError(f"{path} already exists.", _DIRECTORY, "Run it again, which uses another name.") from None
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}.", _DIRECTORY, "Use a folder that can be written.") from error
    return str(path), silent


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode("utf-8", "replace")
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
    archive.addfile(entry, io.BytesIO(data))
