# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files belong to a VM; tests/move has real ones."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._move import io_look


@pytest.mark.parametrize(("form", "files"), [("raw", ["disk"]), ("qcow2", ["disk", "other"])])
def test_a_guest_does_not_choose_what_is_copied(tmp_path: pathlib.Path, form: str, files: list[str]) -> None:
    """It can write anything into a raw disk, also the header of a layer over the disk of another VM."""
    (tmp_path / "other").write_text("another tenant", "utf-8")
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(tmp_path / "other"), "-F", "raw", str(tmp_path / "disk"), "1M"]
    subprocess.run(argv, check=True)
    unfit: list[str] = []
    found = io_look._layers(str(tmp_path / "disk"), False, form, unfit, "disk")
    assert [pathlib.Path(item.path).name for item in found] == files and not unfit


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["-b", 'json:{"driver":"qcow2","file":{"driver":"file","filename":"base"}}', "-F", "qcow2", "top"], "is based on something that is not a file"),
        (["-o", "data_file=content,data_file_raw=on", "top", "1M"], "has its content in another file"),
    ],
)
def test_what_would_be_left_behind_is_refused(tmp_path: pathlib.Path, options: list[str], reason: str) -> None:
    for argv in (["base", "1M"], options, ["-b", str(tmp_path / "top"), "-F", "qcow2", "over"]):
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *argv], cwd=tmp_path, check=True)
    for disk in ("top", "over"):
        unfit: list[str] = []
        io_look._layers(str(tmp_path / disk), False, "qcow2", unfit, "disk")
        assert [reason in each and f"{tmp_path}/top " in each for each in unfit] == [True]
