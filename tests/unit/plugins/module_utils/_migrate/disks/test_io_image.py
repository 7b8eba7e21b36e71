# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Partitions of a loop device that appear late: the kernel and partx are of the test, the real ones are met when a master is migrated."""

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_image


def test_partitions_are_added_until_the_kernel_shows_them(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def run(argv: list[str], **_options: t.Any) -> None:
        assert argv == ["partx", "--update", "/dev/loop9"]
        calls.append(argv)
        if len(calls) == 3:
            shown = tmp_path / "loop9" / "loop9p2"
            shown.mkdir(parents=True)
            (shown / "dev").write_text("259:7\n", "ascii")

    monkeypatch.setattr(io_image, "_BLOCK", tmp_path)
    monkeypatch.setattr(io_image, "run", run)
    assert io_image.partition_device("/dev/loop9", 2) == os.makedev(259, 7) and len(calls) == 3
    monkeypatch.setattr(io_image, "_SHOWN", 0)
    with pytest.raises(BackendError, match="does not show partition 3 of loop9"):
        io_image.partition_device("/dev/loop9", 3)
