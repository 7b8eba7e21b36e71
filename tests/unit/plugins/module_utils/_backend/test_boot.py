# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._backend import boot
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError


def test_changes_keep_the_mode_and_take_files_away(tmp_path):
    (tmp_path / "etc").mkdir()
    for name in ("fstab", "old"):
        (tmp_path / "etc" / name).write_text("x\n")
    (tmp_path / "etc/fstab").chmod(0o640)
    boot.write_changes(tmp_path, {"/etc/fstab": "new\n", "/etc/old": None, "/etc/gone": None, "/etc/made/here": "y\n", "/.autorelabel": "-F\n"})
    assert (tmp_path / "etc/fstab").read_text() == "new\n" and (tmp_path / "etc/fstab").stat().st_mode & 0o7777 == 0o640
    assert sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()) == [".autorelabel", "etc/fstab", "etc/made/here"]


def test_a_link_that_leads_out_of_the_copy_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    (tmp_path / "copy").mkdir()
    outside.mkdir()
    (tmp_path / "copy" / "etc").symlink_to(outside)
    with pytest.raises(BackendError, match="leads out of the copy"):
        boot.write_changes(tmp_path / "copy", {"/etc/fstab": "x\n"})
    assert not list(outside.iterdir())


def test_a_swap_file_has_no_holes_and_keeps_its_header(tmp_path):
    swap = tmp_path / "swapfile"
    with open(swap, "wb") as stream:
        stream.write(b"header")
        stream.truncate(1024 * 1024)
    assert os.stat(swap).st_blocks * 512 < 1024 * 1024
    boot.fill_holes(tmp_path, ["/swapfile", "/not/there"])
    assert os.stat(swap).st_blocks * 512 >= 1024 * 1024
    assert swap.read_bytes()[:7] == b"header\0"
