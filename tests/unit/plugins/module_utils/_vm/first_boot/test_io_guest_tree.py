# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that a running guest changes while they are read."""

from __future__ import annotations

import os
import pathlib
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_guest_tree


def read(folder: pathlib.Path, most: int) -> bytes | None:
    with io_guest_tree.folder(str(folder), ()) as handle:
        return io_guest_tree.read(handle, "file", most)


def test_a_file_that_is_too_large_is_not_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10)
    assert (read(tmp_path, 10), read(tmp_path, 9)) == (b"x" * 10, None)


def test_a_file_that_grows_while_it_is_read_takes_no_memory(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "file").open("wb") as stream:
        stream.truncate(2**40)
    real = os.fstat
    # the size before the guest enlarged it
    monkeypatch.setattr(io_guest_tree.os, "fstat", lambda handle: types.SimpleNamespace(st_mode=real(handle).st_mode, st_size=10))
    assert read(tmp_path, 10) is None
