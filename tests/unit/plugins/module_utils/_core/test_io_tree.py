# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ctypes
import errno
import os
import pathlib
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_tree
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_tree import Tree
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

# every way by which a link or a path can lead out of a folder
WAYS = ("{outside}", "../outside", "/../../../..{outside}", "/proc/self/root{outside}", "/proc/{pid}/root{outside}", "/proc/self/cwd/../outside")


@pytest.fixture(name="folders")
def fixture_folders(tmp_path: pathlib.Path) -> tuple[Tree, pathlib.Path, pathlib.Path]:
    top, outside = tmp_path / "top", tmp_path / "outside"
    for each in (top / "etc", outside):
        each.mkdir(parents=True)
    (outside / "file").write_text("of the host")
    return Tree(top), top, outside


@pytest.mark.parametrize("way", WAYS)
def test_no_link_leads_out(folders, way, monkeypatch):
    tree, top, outside = folders
    monkeypatch.chdir(outside)
    way = way.format(outside=outside, pid=os.getpid())
    (top / "link").symlink_to(way)
    (top / "etc/file").symlink_to(f"{way}/file")
    for path in ("/link/file", "link/file", "/etc/file", f"{way}/file", "/etc/../link/file"):
        assert tree.read(path) is None and tree.status(path) is None
    assert tree.names("/link") == [] and tree.glob("/link/*") == [] and tree.mounted("/link") is None
    for action in (tree.make_folder, tree.place):
        with pytest.raises(BackendError, match="cannot be used"):
            action("/link/new")
    with pytest.raises(BackendError, match="cannot be used"):
        tree.write("/link/new", "x")
    tree.unlink("/link/file")
    # the link itself is replaced
    tree.write("/etc/file", "x")
    assert (top / "etc/file").read_text() == "x" and not (top / "etc/file").is_symlink()
    tree.unlink("/link")
    assert {each.name: each.read_text() for each in outside.iterdir()} == {"file": "of the host"}


def test_links_lead_where_they_lead_on_that_machine(folders):
    tree, top, _outside = folders
    (top / "srv").mkdir()
    (top / "srv/etc").symlink_to("/etc")
    (top / "up").symlink_to("../../etc")
    tree.write("/srv/etc/a", "text\n")
    assert (top / "etc/a").read_text() == tree.read_text("/up/a") == "text\n"
    assert tree.place("/srv/etc") == str(top / "etc") and tree.place("/srv/etc", follow=False) == str(top / "srv/etc")
    assert tree.make_folder("/srv/etc/b/c") == str(top / "etc/b/c") and tree.make_folder("/") == str(top)
    assert tree.glob("/srv/*/a") == ["/srv/etc/a"] and tree.glob("/*/b/c") == ["/etc/b/c", "/up/b/c"]


def test_owner_and_mode_are_kept_and_bytes_preserved(folders):
    tree, top, _outside = folders
    (top / "etc/a").write_bytes(b"\xff\n")
    (top / "etc/a").chmod(0o640)
    tree.write("/etc/a", (tree.read_text("/etc/a") or "") + "more\n")
    assert (top / "etc/a").read_bytes() == b"\xff\nmore\n" and (top / "etc/a").stat().st_mode & 0o7777 == 0o640
    tree.write("/etc/new", b"x")
    assert (top / "etc/new").stat().st_mode & 0o7777 == 0o644 and sorted(os.listdir(top / "etc")) == ["a", "new"]


def test_new_folders_and_files_can_be_read_by_all_users_of_that_machine(folders):
    tree, top, _outside = folders
    before = os.umask(0o077)
    try:
        tree.write("/etc/systemd/network/a.link", "x")
    finally:
        os.umask(before)
    assert [(top / f"etc/{path}").stat().st_mode & 0o7777 for path in ("systemd", "systemd/network", "systemd/network/a.link")] == [0o755, 0o755, 0o644]


def test_only_regular_files_are_read(folders):
    tree, top, _outside = folders
    os.mkfifo(top / "fifo")
    with open(top / "large", "wb") as stream:
        stream.truncate((16 << 20) + 1)
    (top / "loop").symlink_to("loop")
    assert [tree.read(path) for path in ("/fifo", "/large", "/loop", "/etc", "/etc/file/x")] == [None] * 5
    for path in ("/etc", "/fifo/x", "/loop/x", "/.."):
        with pytest.raises(BackendError):
            tree.write(path, "x")


def test_a_file_that_is_too_large_is_not_read(folders):
    tree, top, _outside = folders
    (top / "file").write_bytes(b"x" * 10)
    assert (tree.read("file", most=10), tree.read("file", most=9)) == (b"x" * 10, None)


def test_a_file_that_grows_while_it_is_read_takes_no_memory(folders, monkeypatch):
    tree, top, _outside = folders
    with (top / "file").open("wb") as stream:
        stream.truncate(2**40)
    real = os.fstat
    # the size before a container enlarged it
    monkeypatch.setattr(io_tree.os, "fstat", lambda handle: types.SimpleNamespace(st_mode=real(handle).st_mode, st_size=10))
    assert tree.read("file", most=10) is None


def test_a_file_that_is_replaced_while_it_is_read_is_not_read(folders, monkeypatch):
    tree, top, _outside = folders
    os.mkfifo(top / "file")
    regular = (top / "etc" / "regular").write_text("x") and os.stat(top / "etc" / "regular")
    # what it was before
    monkeypatch.setattr(tree, "status", lambda path, follow: regular)
    assert tree.read("file") is None


def test_a_new_folder_that_is_replaced_by_a_link_does_not_change_the_host(folders, monkeypatch):
    tree, top, outside = folders
    outside.chmod(0o711)
    made = os.mkdir

    def mkdir(name, mode, *, dir_fd):
        made(name, mode, dir_fd=dir_fd)
        os.rmdir(name, dir_fd=dir_fd)
        os.symlink(outside, name, dir_fd=dir_fd)

    monkeypatch.setattr(io_tree.os, "mkdir", mkdir)
    with pytest.raises(BackendError, match="cannot be used"):
        tree.make_folder("/new")
    assert outside.stat().st_mode & 0o777 == 0o711 and (top / "new").is_symlink()


def test_an_old_kernel_is_refused(folders, monkeypatch):
    tree, top, _outside = folders
    (top / "etc/a").write_text("x")

    def syscall(*unused):
        ctypes.set_errno(errno.ENOSYS)
        return -1

    monkeypatch.setattr(io_tree.ctypes, "CDLL", lambda *unused, **more: types.SimpleNamespace(syscall=syscall))
    for action in (tree.read, tree.status, tree.names, tree.make_folder, tree.place, tree.unlink):
        with pytest.raises(BackendError, match="does not support openat2"):
            action("/etc/a")


def test_renames_elsewhere_on_the_host_do_not_matter(folders, monkeypatch):
    """The kernel fails with EAGAIN then, if the path contains ``..``; seen once in 2500 attempts next to a loop of renames."""
    tree, top, _outside = folders
    (top / "usr").mkdir()
    (top / "usr/release").write_text("of the copy")
    (top / "etc/release").symlink_to("../usr/release")
    real, failures = ctypes.CDLL(None, use_errno=True), [errno.EAGAIN] * 3

    def syscall(*values):
        if failures:
            ctypes.set_errno(failures.pop())
            return -1
        return real.syscall(*values)

    monkeypatch.setattr(ctypes, "CDLL", lambda *unused, **named: types.SimpleNamespace(syscall=syscall))
    assert tree.read_text("/etc/release") == "of the copy" and not failures
    failures += [errno.EAGAIN] * 10_000
    with pytest.raises(BlockingIOError):
        tree.open("/etc/release")
