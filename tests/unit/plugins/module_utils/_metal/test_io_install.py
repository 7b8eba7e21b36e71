# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a file system was last mounted, read from real ones."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._metal import io_install


@pytest.mark.parametrize("place", ["/", io_install.TARGET, "/" + 62 * "x"])
def test_the_place_of_the_last_mount(tmp_path: pathlib.Path, place: str) -> None:
    disk = tmp_path / "disk"
    with disk.open("wb") as stream:
        stream.truncate(8 << 20)
    assert io_install.last_mounted(str(disk)) == ""
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", str(disk)], check=True, capture_output=True)
    assert io_install.last_mounted(str(disk)) == ""
    subprocess.run(["/sbin/tune2fs", "-M", place, str(disk)], check=True, capture_output=True)
    assert io_install.last_mounted(str(disk)) == place


def test_a_short_device_was_never_mounted(tmp_path: pathlib.Path) -> None:
    (tmp_path / "disk").write_bytes(b"x" * 512)
    assert io_install.last_mounted(str(tmp_path / "disk")) == ""
