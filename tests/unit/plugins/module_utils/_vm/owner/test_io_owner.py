# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records on a host: only a file that does not exist in a folder that can be read is none."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ASK, FORMER, Absent, Known, Record, Unknown

RECORD = Record("lab", "m", "u", "lab-m")


@pytest.fixture(autouse=True)
def fixture_home(tmp_path, monkeypatch):
    monkeypatch.setattr(io_owner, "HOME", tmp_path / "vms")
    monkeypatch.setattr(io_owner, "RUN", tmp_path / "run")
    monkeypatch.setattr(io_owner, "PERMITS", tmp_path / "run/standby")


def test_known_absent_unknown(tmp_path):
    # this host never had a record
    assert io_owner.read("u") == Absent() and io_owner.known("u") is None and not io_owner.is_prepared()
    io_owner.write(RECORD)
    assert io_owner.read("u") == Known(RECORD) and io_owner.read("other") == Absent() and io_owner.is_prepared()
    (io_owner.HOME / "other.json").write_text(RECORD.to_json())
    assert "not the UUID in the name" in io_owner.read("other").reason
    (io_owner.HOME / ".present").unlink()
    assert isinstance(io_owner.read("third"), Unknown)
    (io_owner.HOME / "third.json").symlink_to("third.json")
    assert "cannot be read" in io_owner.read("third").reason
    with pytest.raises(BackendError, match="not known whether the VM third may run") as raised:
        io_owner.is_guarded("third")
    assert raised.value.path == str(io_owner.HOME) and raised.value.hint


def test_a_guard_keeps_what_the_record_says():
    io_owner.RUN.mkdir()
    former = RECORD._replace(role=FORMER, epoch=3, to="metal2")
    io_owner.write(former)
    io_owner.guard(RECORD, permitted=False)
    assert io_owner.known("u") == former._replace(start=ASK) and io_owner.is_guarded("u") and not io_owner.is_permitted("u")
    assert io_owner.release("u") and io_owner.known("u") == former


def test_a_released_vm_that_was_always_here_has_no_record():
    io_owner.RUN.mkdir()
    io_owner.guard(RECORD, permitted=True)
    assert io_owner.is_permitted("u") and not io_owner.is_start_due("u")
    assert io_owner.release("u") and io_owner.read("u") == Absent() and not io_owner.is_permitted("u")
