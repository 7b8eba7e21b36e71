# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is flushed to disk; tests/move has real moves."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._move import io_place
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import Item


@pytest.fixture(name="flushed")
def fixture_flushed(monkeypatch):
    flushed: list[str] = []
    monkeypatch.setattr(io_place, "sync_path", lambda path: flushed.append(str(path)))
    monkeypatch.setattr(io_place, "run", lambda argv: flushed.append(" ".join(argv)))
    return flushed


def test_files_folders_and_their_names_survive_a_power_loss(flushed):
    io_place.sync([Item("/pool/c1", "file"), Item("/pool/c1-root", "dir"), Item("/nvram/c1", "file")])
    assert flushed == ["/pool/c1", "sync --file-system /pool/c1-root", "/nvram/c1", "/nvram", "/pool"]


def test_received_files_are_flushed_before_they_are_renamed(flushed, tmp_path, monkeypatch):
    items = [Item(str(tmp_path / "disk"), "file"), Item(str(tmp_path / "root"), "dir")]
    io_place.partial(items[0].path).write_text("data", "utf-8")
    io_place.partial(items[1].path).mkdir()
    monkeypatch.setattr(io_place.os, "rename", lambda old, new: flushed.append(f"renamed: {pathlib.Path(new).name}"))
    io_place.place(items)
    first, second = (str(io_place.partial(item.path)) for item in items)
    assert flushed == [first, "renamed: disk", f"sync --file-system {second}", "renamed: root", str(tmp_path)]
