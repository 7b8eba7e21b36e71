# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ctypes
import errno
import os
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import meminfo


def test_meminfo_has_sizes_in_bytes_and_no_counts(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal:       16384000 kB\nMemAvailable:   1 kB\nHugePages_Total:       7\n", "utf-8")
    assert meminfo(str(tmp_path)) == {"MemTotal": 16384000 * 1024, "MemAvailable": 1024}
    assert meminfo(str(tmp_path / "none")) == {}


def test_meminfo_of_this_machine():
    assert meminfo()["MemTotal"] > meminfo()["MemAvailable"] > 0


def test_a_link_survives_a_power_loss(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(io_files, "sync_path", lambda path: synced.append((path, [each.name for each in path.iterdir()])))
    link, target = tmp_path / "wants" / "a.service", tmp_path / "a.service"
    for unused in range(2):
        io_files.make_link(link, target)
        assert link.readlink() == target and synced == [(tmp_path / "wants", ["a.service"])]


def without_renameat2(monkeypatch, number=errno.EINVAL):
    """Let the call fail as on a file system, or in a kernel, that does not support it."""

    def refuse(*_unused):
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_unused, **_more: types.SimpleNamespace(renameat2=refuse))


@pytest.fixture(name="supported", params=[None, errno.EINVAL, errno.ENOSYS], ids=["renameat2", "not in the file system", "not in the kernel"])
def fixture_supported(request, monkeypatch):
    """The system with renameat2, and without."""
    if request.param:
        without_renameat2(monkeypatch, request.param)


@pytest.mark.usefixtures("supported")
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_new_name_never_replaces_anything(tmp_path, kind):
    source, target = tmp_path / "source", tmp_path / "target"

    def make():
        {"file": lambda: source.write_text("new"), "folder": source.mkdir, "link": lambda: source.symlink_to("nowhere")}[kind]()

    make()
    for other in (lambda: target.write_text("the only copy of something else"), target.mkdir, lambda: target.symlink_to("elsewhere")):
        other()
        before = os.lstat(target)
        with pytest.raises(FileExistsError):
            io_files.rename(source, target, new=True)
        assert os.path.samestat(os.lstat(target), before) and os.path.lexists(source)
        target.rmdir() if target.is_dir() else target.unlink()
    io_files.rename(source, target, new=True)
    assert os.listdir(tmp_path) == ["target"]
    target.rmdir() if kind == "folder" else target.unlink()
    with pytest.raises(FileNotFoundError):
        io_files.rename(source, target, new=True)


def test_a_kill_between_the_two_names_of_one_file(tmp_path, monkeypatch):
    without_renameat2(monkeypatch)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("new")
    os.link(source, target)
    io_files.rename(source, target, new=True)
    assert os.listdir(tmp_path) == ["target"]


@pytest.mark.parametrize("new", [True, False])
def test_content_is_flushed_before_the_name_and_the_name_before_the_end(tmp_path, monkeypatch, new):
    done = []
    (tmp_path / "a").mkdir()
    source, target = tmp_path / "a" / "source", tmp_path / "target"
    source.write_text("x")
    monkeypatch.setattr(io_files, "sync_path", lambda path: done.append((str(path), target.exists())))
    io_files.rename(source, target, new=new)
    assert done[0] == (str(source), False) and sorted(done[1:]) == [(str(tmp_path), True), (str(tmp_path / "a"), True)]


def test_new_folders_are_flushed_in_their_parents(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(io_files, "sync_path", lambda path: synced.append(str(path)))
    io_files.make_folder(tmp_path / "a" / "b")
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    io_files.make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_written_bytes_and_texts(tmp_path):
    path = tmp_path / "sub" / "file"
    io_files.write_atomic(path, b"\xff\n", new=True)
    assert io_files.read_text(path) == "\udcff\n" and path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        io_files.write_atomic(path, "b", new=True)
    assert os.listdir(path.parent) == ["file"] and path.read_bytes() == b"\xff\n"
    io_files.write_atomic(path, "\udcff\u00e9")
    assert path.read_bytes() == b"\xff\xc3\xa9"
