# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The journal on a full disk; on real file systems in tests/source/test_full_state.py."""

from __future__ import annotations

import errno
import os

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_journal
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._standby.io_store import StandbyStore


@pytest.fixture(name="store", params=[JournalStore, MoveStore, StandbyStore])
def fixture_store(request, tmp_path, monkeypatch):
    """A store on a disk that has no room while ``full`` says so."""
    store = request.param("m", tmp_path)
    store.full = lambda: False
    write_atomic = io_journal.write_atomic

    def write(path, text, **more):
        if store.full():
            raise OSError(errno.ENOSPC, "No space left on device")
        write_atomic(path, text, **more)

    monkeypatch.setattr(io_journal, "write_atomic", write)
    return store


def test_a_full_disk_is_written_to_in_the_reserve(store):
    store.reserve()
    reserve = store.directory / "reserve"
    assert reserve.stat().st_size == 4 << 20
    store.full = reserve.exists
    store.write(store.kind("m", state="rolled_back"))
    assert store.read().state == "rolled_back" and not reserve.exists()
    # and it is taken again as soon as there is room
    store.reserve()
    assert reserve.exists() and store.release() and not store.release()


def test_full_disk_without_a_reserve_is_an_error(store):
    store.write(store.kind("m", state="running"))
    store.full = lambda: True
    with pytest.raises(OSError):
        store.write(store.kind("m", state="done"))
    assert store.read().state == "running"


def test_missing_space_for_the_reserve_is_reported_first(store, monkeypatch):
    def full(unused):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BackendError, match="No space for the journal") as caught:
        store.reserve()
    assert "4 MiB" in caught.value.hint and not list(store.directory.glob("reserve*"))


def test_a_line_that_cannot_be_written_keeps_nothing_from_being_done(store):
    (store.directory / "log").mkdir(parents=True)
    store.log("a line")
