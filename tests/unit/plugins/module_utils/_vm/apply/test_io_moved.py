# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_moved
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_moved import CONFIRMED, MOVED, Moved

NOTE = Moved("c1", "lab", "controller1", "6d1d2c5e-52f4-4d0b-9c7a-0f2b7e5f4a11", "metal3", "2030-01-01T00:00:00Z", MOVED)


def test_no_folder_is_no_note(tmp_path):
    assert io_moved.read_all(tmp_path / "none") == {}
    assert not io_moved.forget(NOTE.uuid, tmp_path / "none")


def test_a_note_is_kept_and_forgotten(tmp_path):
    io_moved.write(NOTE, tmp_path)
    assert io_moved.read_all(tmp_path) == {NOTE.uuid: NOTE}
    assert (tmp_path / f"{NOTE.uuid}.json").stat().st_mode & 0o777 == 0o600
    assert io_moved.read(NOTE.uuid, tmp_path) == NOTE
    assert io_moved.forget(NOTE.uuid, tmp_path)
    assert io_moved.read(NOTE.uuid, tmp_path) is None


def test_unreadable_note_still_counts(tmp_path):
    (tmp_path / f"{NOTE.uuid}.json").write_text("{half", "utf-8")
    (tmp_path / f".{NOTE.uuid}.json.tmp").write_text("left over", "utf-8")
    found = io_moved.read_all(tmp_path)
    assert list(found) == [NOTE.uuid]
    assert found[NOTE.uuid].state == CONFIRMED


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendError, match="cannot read which VMs were moved away") as raised:
        io_moved.read_all(tmp_path / "file")
    assert raised.value.path == str(tmp_path / "file") and raised.value.hint
