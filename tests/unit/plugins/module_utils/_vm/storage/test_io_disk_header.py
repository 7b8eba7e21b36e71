# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Headers of disk files, read without a process, beside what qemu-img says."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import threading

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_disk_header import (
    chain,
    image_state,
    inspect,
    note_origin,
    origin_of,
    read_header,
)


def create(path: pathlib.Path, form: str, *options: str) -> pathlib.Path:
    """A disk."""
    subprocess.run(["qemu-img", "create", "-q", "-f", form, *options, str(path), "12M"], check=True)
    return path


OPTIONS = [(), ("-o", "compat=0.10"), ("-o", "cluster_size=4k"), ("-o", "extended_l2=on"), ("-o", "compression_type=zstd")]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("relative", [True, False])
def test_it_says_what_qemu_says(tmp_path: pathlib.Path, options: tuple[str, ...], relative: bool) -> None:
    base = create(tmp_path / "base with space.qcow2", "qcow2")
    path = create(tmp_path / "layer", "qcow2", *options, "-b", base.name if relative else str(base), "-F", "qcow2")
    said = json.loads(subprocess.run(["qemu-img", "info", "--output=json", str(path)], check=True, capture_output=True, text=True).stdout)
    header = read_header(path)
    assert (header.format, header.capacity) == (said["format"], said["virtual-size"]) == ("qcow2", 12 * 1024**2)
    assert (header.backing, header.backing_format) == (str(base), said["backing-filename-format"])
    assert chain(str(path)) == [str(base)]


def test_raw_stays_raw_where_that_is_known(tmp_path: pathlib.Path) -> None:
    path = create(tmp_path / "disk", "qcow2")
    assert read_header(path).format == "qcow2"
    assert (read_header(path, "raw").format, read_header(path, "raw").capacity) == ("raw", path.stat().st_size)


RUBBISH = [b"", b"QFI\xfb", b"QFI\xfb" + b"\xff" * 80, b"QFI\xfb" + b"\xff" * 5000]
# a name of 32 zeros
RUBBISH.append(b"QFI\xfb\0\0\0\3" + bytes(7) + b"\x40" + bytes(3) + b"\x20" + bytes(80))


@pytest.mark.parametrize("content", RUBBISH, ids=range(len(RUBBISH)))
def test_rubbish_is_no_trouble(tmp_path: pathlib.Path, content: bytes) -> None:
    path = tmp_path / "rubbish"
    path.write_bytes(content)
    assert read_header(path).format in ("raw", "qcow2")
    assert chain(str(path)) == []


def fake_layer(path: pathlib.Path, backing: str) -> pathlib.Path:
    """What a guest can write into its raw disk."""
    name = backing.encode()
    path.write_bytes((b"QFI\xfb\0\0\0\3" + (104).to_bytes(8, "big") + len(name).to_bytes(4, "big")).ljust(104, b"\0") + name)
    return path


def test_the_header_in_a_raw_disk_names_no_backing_file(tmp_path: pathlib.Path) -> None:
    victim = create(tmp_path / "victim", "raw")
    path = fake_layer(tmp_path / "disk", str(victim))
    assert (chain(str(path)), chain(str(path), "raw")) == ([str(victim)], [])
    layer = create(tmp_path / "layer", "qcow2", "-b", str(path), "-F", "raw")
    assert chain(str(layer), "qcow2") == [str(path)]


def test_only_files_and_block_devices_are_opened(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # opened without this check, the named pipe would block, and a watchdog would start
    os.mkfifo(tmp_path / "pipe")
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *more, **options: opened.append(str(path)) or real(path, *more, **options))
    for special in ("/dev/null", str(tmp_path / "pipe")):
        with pytest.raises(OSError, match="neither a file nor a block device"):
            read_header(special)
        assert chain(str(fake_layer(tmp_path / "disk", special))) == [special]
        assert special not in opened


def test_a_pipe_is_not_opened(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    layer = create(tmp_path / "layer", "qcow2", "-u", "-b", str(tmp_path / "pipe"), "-F", "qcow2")
    found: list[str] = []
    # its reader would wait for ever
    reader = threading.Thread(target=lambda: found.extend(chain(str(layer))), daemon=True)
    reader.start()
    reader.join(60)
    assert found == [str(tmp_path / "pipe")]


def test_a_circle_of_layers_ends(tmp_path: pathlib.Path) -> None:
    first, second = create(tmp_path / "a", "qcow2"), create(tmp_path / "b", "qcow2")
    for one, other in ((first, second), (second, first)):
        subprocess.run(["qemu-img", "rebase", "-u", "-b", str(other), "-F", "qcow2", "-f", "qcow2", str(one)], check=True)
    assert len(chain(str(first))) == 64


def test_a_volume_remembers_its_image(tmp_path: pathlib.Path) -> None:
    image, volume = create(tmp_path / "image", "raw"), create(tmp_path / "volume", "raw")
    assert origin_of(str(volume)) is None
    note_origin(volume, "deb", str(image))
    origin = inspect(str(volume)).origin
    assert origin is not None and (origin.image, origin.path, (origin.size, origin.changed)) == ("deb", str(image), image_state(str(image)))
    # in the root of a container, the guest can change it
    for wrong in (b"{broken", b'{"image": "x", "path": "/", "size": Infinity, "changed": 1}', b"[" * 3000):
        os.setxattr(volume, "user.footprint.image", wrong)
        assert origin_of(str(volume)) is None
    assert image_state(str(tmp_path / "nowhere")) is None


def test_sizes_are_sparse(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "disk"
    with path.open("wb") as stream:
        stream.truncate(12 * 1024**2)
        assert (inspect(str(path)).capacity, inspect(str(path)).allocation) == (12 * 1024**2, 0)
        stream.write(b"x" * 65536)
        stream.flush()
        os.fsync(stream.fileno())
        assert (inspect(str(path)).capacity, inspect(str(path)).allocation) == (12 * 1024**2, 65536)
    folder = inspect(str(tmp_path))
    assert (folder.format, folder.capacity, folder.allocation) == ("dir", None, None)
