# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_tree import Tree
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy import io_boot
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_image import DiskImage
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import plan_layout


def test_changes_keep_the_mode_and_take_files_away(tmp_path):
    (tmp_path / "etc").mkdir()
    for name in ("fstab", "old"):
        (tmp_path / "etc" / name).write_text("x\n")
    (tmp_path / "etc/fstab").chmod(0o640)
    io_boot.write_changes(Tree(tmp_path), {"/etc/fstab": "new\n", "/etc/old": None, "/etc/gone": None, "/etc/made/here": "y\n", "/.autorelabel": "-F\n"})
    assert (tmp_path / "etc/fstab").read_text() == "new\n" and (tmp_path / "etc/fstab").stat().st_mode & 0o7777 == 0o640
    assert sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()) == [".autorelabel", "etc/fstab", "etc/made/here"]


def test_a_link_that_leads_out_of_the_copy_is_not_followed(tmp_path):
    outside, copy = tmp_path / "outside", tmp_path / "copy"
    for each in (outside, copy / "srv/etc", copy / "boot"):
        each.mkdir(parents=True)
    (outside / "fstab").write_text("of the host\n")
    (copy / "etc").symlink_to(outside)
    with pytest.raises(BackendError, match="/etc.* of the copy cannot be used"):
        io_boot.write_changes(Tree(copy), {"/etc/fstab": "x\n"})
    # as on the source, where it is a path of its own
    (copy / "etc").unlink()
    (copy / "etc").symlink_to("/srv/etc")
    (copy / "srv/etc/fstab").symlink_to(outside / "fstab")
    for name in ("swapfile", "boot/vmlinuz-1"):
        (copy / name).symlink_to(outside / "fstab")
    assert io_boot.read_files(Tree(copy), ["/etc/*", "/etc/fstab"]) == {}
    io_boot.fill_holes(Tree(copy), ["/swapfile"])
    io_boot.write_changes(Tree(copy), {"/etc/fstab": "x\n", "/boot/../../../outside/new": "y\n"})
    assert (copy / "srv/etc/fstab").read_text() == "x\n" and (copy / "outside/new").read_text() == "y\n"
    assert {each.name: each.read_text() for each in outside.iterdir()} == {"fstab": "of the host\n"}


def test_the_boot_loader_is_neither_written_to_nor_read_from_this_host(tmp_path, monkeypatch):
    """The links that gave a private key of the host to the VM, and wrote GRUB's modules to a folder of the host."""
    monkeypatch.setattr(io_boot.platform, "machine", lambda: "x86_64")
    layout = plan_layout([6 * 1024**3], (), (), "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11", "efi")
    outside, copy = tmp_path / "outside", tmp_path / "copy"
    for each in (outside, copy / "usr/lib/grub/x86_64-efi", copy / "boot/grub", copy / "boot/efi"):
        each.mkdir(parents=True)
    (outside / "key").write_text("secret")
    (copy / "usr/lib/grub/x86_64-efi/normal.mod").write_text("module")
    (copy / "usr/lib/grub/x86_64-efi/key.mod").symlink_to(outside / "key")
    (copy / "boot/grub/x86_64-efi").symlink_to(outside)
    image = DiskImage([], layout, tmp_path)
    image.tree = Tree(copy)
    with pytest.raises(BackendError, match="/boot/grub/x86_64-efi.* of the copy cannot be used"):
        io_boot._grub_efi(NoPrograms(copy), image, False)
    assert [each.name for each in outside.iterdir()] == ["key"]
    (copy / "boot/efi/k").symlink_to(outside / "key")
    with pytest.raises(BackendError, match="/boot/efi/k of the copy is neither a file nor a folder"):
        image._esp_files("/boot/efi")


def test_a_swap_file_has_no_holes_and_keeps_its_header(tmp_path):
    swap = tmp_path / "swapfile"
    with open(swap, "wb") as stream:
        stream.write(b"header")
        stream.truncate(1024 * 1024)
    assert os.stat(swap).st_blocks * 512 < 1024 * 1024
    io_boot.fill_holes(Tree(tmp_path), ["/swapfile", "/not/there"])
    assert os.stat(swap).st_blocks * 512 >= 1024 * 1024
    assert swap.read_bytes()[:7] == b"header\0"


class NoPrograms:
    """A copy whose programs must not be asked; a signed boot loader of another distribution cannot be had here."""

    def __init__(self, root):
        self.tree = Tree(root)

    def run(self, argv, **unused):
        raise AssertionError(f"{argv} was run")


@pytest.mark.parametrize("there", [[], ["BOOT/BOOTX64.EFI"]])
def test_a_signed_boot_loader_is_kept_and_found_by_firmware_that_remembers_nothing(tmp_path, monkeypatch, there):
    monkeypatch.setattr(io_boot.platform, "machine", lambda: "x86_64")
    layout = plan_layout([6 * 1024**3], (), (), "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11", "efi")
    folder = tmp_path / "boot/efi/EFI"
    for name in ("rocky/shimx64.efi", "rocky/grubx64.efi", "rocky/mmx64.efi", "rocky/grub.cfg", *there):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    io_boot._grub_efi(NoPrograms(tmp_path), types.SimpleNamespace(layout=layout, tree=Tree(tmp_path)), True)
    found = {each.name: each.read_text() for each in (folder / "BOOT").iterdir()}
    if there:
        assert found == {"BOOTX64.EFI": "BOOT/BOOTX64.EFI"}
    else:
        assert found == {"BOOTX64.EFI": "rocky/shimx64.efi", "grubx64.efi": "rocky/grubx64.efi", "mmx64.efi": "rocky/mmx64.efi"}
