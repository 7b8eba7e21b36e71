# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Containers of a real engine, stopped and started as by a source."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys


def test_commands_are_accepted_by_a_real_podman(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "root"
    for name in ("bin", "proc", "sys", "dev", "etc", "run", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin" / "busybox")
    (root / "bin" / "sleep").symlink_to("busybox")
    storage = tmp_path / "storage.conf"
    storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/graph"\nrunroot = "{tmp_path}/run"\n', encoding="ascii")
    story = pathlib.Path(__file__).with_name("container_story.py")
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, str(story), str(root)],
        env={**os.environ, "CONTAINERS_STORAGE_CONF": str(storage)},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    assert seen["before"] == [["running", "running", "missing"], ["db", "web"]]
    assert seen["stopped"] == [["stopped", "stopped", "missing"], []]
    assert seen["failed"] == ["gone"]
    assert seen["after"] == [["running", "running", "missing"], ["db", "web"]]
