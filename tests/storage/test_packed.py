# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A packed image never becomes the disk of a guest, whatever its name is."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pathlib
import subprocess
import tarfile
import typing as t
import zipfile

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from remote_host import RemoteHost
from storage_host import StorageHost

NAMES = ["haos.qcow2", "haos.img", "haos.raw", "haos", "haos.qcow2.xz"]


def zipped(content: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("haos.qcow2", content)
    return target.getvalue()


def tarred(content: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        entry = tarfile.TarInfo("haos.qcow2")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()


def zstandard(content: bytes) -> bytes:
    return subprocess.run(["zstd", "--quiet", "--stdout"], input=content, check=True, capture_output=True).stdout


PACKED: dict[str, t.Callable[[bytes], bytes]] = {
    "xz": lzma.compress, "gzip": gzip.compress, "bzip2": bz2.compress, "zstd": zstandard, "zip": zipped, "tar": tarred,
}  # fmt: skip


def refused(host: StorageHost | RemoteHost, image: str, **options: t.Any) -> str:
    """The error about a VM with this image; check mode says the same, and nothing is created."""
    errors = []
    for check in (True, False):
        with pytest.raises(InputError) as caught:
            host.call({"id": "a", "disks": [{"image": image}]}, check=check, **options)
        errors.append(str(caught.value))
    assert errors[0] == errors[1] and host.volumes() == []
    assert "vms[0].disks[0].image" in errors[0]
    return errors[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("packed", PACKED)
def test_a_packed_image_is_refused(host: StorageHost, tmp_path: pathlib.Path, packed: str, name: str) -> None:
    image = host.image("plain.qcow2")
    (host.images / name).write_bytes(PACKED[packed](image.read_bytes()))
    error = refused(host, name if name.endswith(".xz") else "haos")
    assert f"{host.images / name} is packed ({packed}). Unpack it" in error


def test_a_container_needs_an_archive_that_tar_reads(host: StorageHost) -> None:
    (host.images / "root.tar").write_bytes(zipped(b"x"))
    assert "not a tar archive" in refused(host, "root", kind="lxc", template="lxc")


@pytest.mark.parametrize("there", [True, False])
def test_the_images_of_another_host_count_as_well(remote: RemoteHost, tmp_path: pathlib.Path, there: bool) -> None:
    content = lzma.compress(remote.image("plain.qcow2").read_bytes())
    (remote.images if there else tmp_path).joinpath("haos.img").write_bytes(content)
    assert "haos.img is packed (xz)" in refused(remote, "haos", images_path=str(tmp_path))
