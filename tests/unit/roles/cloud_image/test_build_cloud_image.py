# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order in which the builders put their files in place: a power loss must not leave a manifest without the files it describes."""

from __future__ import annotations

import argparse
import pathlib

import pytest

from tests.support.program import load


def test_files_are_on_the_disk_before_their_manifest(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builders = {
        "roles/cloud_image/files/build_cloud_image.py": ["sync", "debian.qcow2", "debian.new.json"],
        "roles/boot_server/files/build_root.py": ["sync", "root.tar.zst", "root.json"],
    }
    for path, wanted in builders.items():
        script, order = load(path), list[str]()
        folder = tmp_path / pathlib.Path(path).stem
        folder.mkdir()
        for name in ("install", "configure", "write_disk", "put"):
            monkeypatch.setattr(script, name, lambda *unused: None, raising=False)
        monkeypatch.setattr(script, "packages_of", lambda root: [], raising=False)
        for name in ("compress", "pack"):
            monkeypatch.setattr(script, name, lambda source, target: target.write_text("files", "utf-8"), raising=False)
        with monkeypatch.context() as patch:
            patch.setattr(script.os, "sync", lambda order=order: order.append("sync"))
            patch.setattr(script.os, "replace", lambda source, target, order=order: order.append(target.name))
            script.build(argparse.Namespace(directory=folder, name="debian", inputs="new", release="trixie", size=2, source=[], package=[], kernel="linux"))
        assert order == wanted, path
