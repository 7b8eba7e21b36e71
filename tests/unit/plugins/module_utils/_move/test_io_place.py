# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is flushed to disk; tests/move has real moves."""

from __future__ import annotations

import os
import pathlib

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_place
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import STATE, Item

UUID = "6a1f3c6e-0000-4000-8000-000000000001"


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
    monkeypatch.setattr(io_files, "sync_path", lambda path: flushed.append(str(path)))
    monkeypatch.setattr(io_files, "_rename_new", lambda old, new: flushed.append(f"renamed: {pathlib.Path(new).name}"))
    io_place.place(items, UUID)
    first, second = (str(io_place.partial(item.path)) for item in items)
    assert flushed == [first, "renamed: disk", str(tmp_path), f"sync --file-system {second}", second, "renamed: root", str(tmp_path)]


def arrive(tmp_path, *kinds):
    """Receive items, which are not placed yet."""
    items = [Item(str(tmp_path / f"m-{number}"), kind) for number, kind in enumerate(kinds)]
    for item in items:
        half = io_place.partial(item.path)
        half.mkdir() if item.kind == "dir" else half.write_text("moved", "utf-8")
    return items


@pytest.mark.parametrize("kind", ["file", "dir"])
def test_what_others_created_meanwhile_is_neither_replaced_nor_removed(tmp_path, kind):
    (item,) = arrive(tmp_path, kind)
    final = pathlib.Path(item.path)
    final.write_text("the only copy of something else", "utf-8")
    with pytest.raises(BackendError, match="already exists"):
        io_place.place([item], UUID)
    assert io_place.discard([item], UUID) == ([str(io_place.partial(item.path))], [item.path])
    assert final.read_text("utf-8") == "the only copy of something else"
    # nor is it taken for what arrived
    with pytest.raises(BackendError, match="was not received"):
        io_place.place([item], UUID)


def test_a_base_image_that_arrived_with_another_vm_is_used_if_it_is_the_same(tmp_path):
    base = arrive(tmp_path, "file")[0]._replace(base=True)
    pathlib.Path(base.path).write_text("moved", "utf-8")
    inode = os.stat(base.path).st_ino
    io_place.place([base], UUID)
    assert os.stat(base.path).st_ino == inode and not io_place.partial(base.path).exists()
    arrive(tmp_path, "file")
    pathlib.Path(base.path).write_text("other", "utf-8")
    with pytest.raises(BackendError, match="already exists"):
        io_place.place([base], UUID)


def test_what_arrived_is_placed_again_and_removed_after_a_kill(tmp_path):
    items = arrive(tmp_path, "file", "dir")
    io_place.place(items, UUID)
    io_place.place(items, UUID)
    other = "6a1f3c6e-0000-4000-8000-000000000002"
    assert [io_place.has_arrived(item, UUID) for item in items] == [True, True] and not io_place.has_arrived(items[0], other)
    assert io_place.discard(items, other) == ([], [item.path for item in items])
    # replaced by a file of the same name
    pathlib.Path(items[0].path).unlink()
    pathlib.Path(items[0].path).write_text("new", "utf-8")
    assert io_place.discard(items, UUID) == ([items[1].path], [items[0].path])


def test_after_the_move_the_files_are_those_of_the_host(tmp_path):
    items = arrive(tmp_path, "file", "dir")
    io_place.place(items, UUID)
    io_place.settle(items)
    io_place.settle(items)
    assert os.listxattr(items[0].path) == os.listxattr(items[1].path) == []
    assert io_place.discard(items, UUID)[0] == []
    assert io_place.discard(items, None) == ([item.path for item in items], [])


def test_base_images_and_the_state_of_devices(tmp_path):
    (base, state) = (item._replace(**more) for item, more in zip(arrive(tmp_path, "file", "file"), ({"base": True}, {"carried": STATE})))
    io_place.place([base, state], UUID)
    # libvirt has created it, in a live migration
    io_place.settle([state])
    assert io_place.discard([base, state], UUID) == ([state.path], []) and os.path.exists(base.path)
