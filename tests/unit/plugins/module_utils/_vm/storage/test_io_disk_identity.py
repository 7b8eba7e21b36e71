# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One thing has one identity, whatever it is called."""

from __future__ import annotations

import os
import pathlib
import struct

from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_disk_identity import Identities


def layer(path: pathlib.Path, below: pathlib.Path) -> None:
    """The header of a qcow2 file, as far as it is read."""
    name = os.fsencode(below)
    path.write_bytes((b"QFI\xfb" + struct.pack(">IQIIQ", 2, 512, len(name), 16, 1 << 20)).ljust(512, b"\0") + name)


def test_links_lead_to_the_same_thing(tmp_path: pathlib.Path) -> None:
    disk = tmp_path / "disk.img"
    disk.write_bytes(b"x")
    os.symlink(disk, tmp_path / "soft")
    os.symlink(tmp_path, tmp_path / "folder")
    os.link(disk, tmp_path / "hard")
    identities = Identities()
    keys = set(identities.of(str(disk)).keys)
    for name in ("soft", "hard", "folder/disk.img", "../" + tmp_path.name + "/disk.img"):
        assert keys & set(identities.of(str(tmp_path / name)).keys), name
    (tmp_path / "other.img").write_bytes(b"x")
    assert not keys & set(identities.of(str(tmp_path / "other.img")).keys)


def test_what_is_not_there_yet_has_its_name(tmp_path: pathlib.Path) -> None:
    os.symlink(tmp_path, tmp_path / "folder")
    assert Identities().of(str(tmp_path / "folder" / "new.img")).keys == (os.path.realpath(tmp_path / "new.img"),)


def test_the_images_behind_a_layer(tmp_path: pathlib.Path) -> None:
    (tmp_path / "base").write_bytes(b"x")
    layer(tmp_path / "middle", tmp_path / "base")
    layer(tmp_path / "top", tmp_path / "middle")
    real = [os.path.realpath(tmp_path / name) for name in ("middle", "base")]
    identities = Identities()
    assert list(identities.of(str(tmp_path / "top"), "qcow2").behind) == real
    # the content of a raw disk is not parsed as a header
    assert identities.of(str(tmp_path / "top"), "raw").behind == ()
    assert identities.of(str(tmp_path / "top")).behind == ()


def test_paths_of_another_host_are_only_names() -> None:
    assert Identities(local=False).of("/bin//../etc/./passwd", "qcow2").keys == ("/etc/passwd",)
