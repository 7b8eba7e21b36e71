# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that are copied back over older ones, with a real rsync; tests/move has real moves."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._move.io_copy import Copier
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import Item

# runs the command in the folder of the other host instead of there
SSH = """#!/bin/sh
shift
cd {there} && exec "$@"
"""


class Here(Copier):
    """A copier whose other host has the same files in a folder of this one."""

    def _remote(self, item: Item, path: str) -> str:
        return super()._remote(item, os.path.basename(path))


@pytest.mark.parametrize("form", ["raw", "qcow2"])
def test_a_disk_that_grew_there_comes_back_whole(tmp_path: pathlib.Path, form: str) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        folder.mkdir()
        subprocess.run(["qemu-img", "create", "-q", "-f", form, str(folder / "disk"), "1M"], check=True)
    subprocess.run(["qemu-img", "resize", "-q", "-f", form, str(there / "disk"), "8M"], check=True)
    subprocess.run(["qemu-io", "-f", form, "-c", "write -P 7 7M 512K", str(there / "disk")], check=True, stdout=subprocess.DEVNULL)
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH.format(there=there), "utf-8")
    ssh.chmod(0o755)
    copier, item = Here([str(ssh)], "there"), Item(str(here / "disk"), "file", format=form)
    copier.pull(item)
    copier.compare(item, item.path)
    assert (here / "disk").read_bytes() == (there / "disk").read_bytes()
    read = subprocess.run(["qemu-img", "info", "-f", form, str(here / "disk")], check=True, capture_output=True, encoding="utf-8")
    assert "8 MiB" in read.stdout
