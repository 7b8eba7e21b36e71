# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records on a host: only a file that does not exist in a folder that can be read is none."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner, run_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ASK, FORMER, Record

RECORD = Record("lab", "m", "u", "lab-m")


@pytest.fixture(autouse=True)
def fixture_home(tmp_path, monkeypatch):
    monkeypatch.setattr(io_owner, "HOME", tmp_path / "vms")
    monkeypatch.setattr(io_owner, "RUN", tmp_path / "run")
    monkeypatch.setattr(io_owner, "PERMITS", tmp_path / "run/standby")


def test_known_absent_unknown(tmp_path):
    # this host never had a record
    assert io_owner.known("u") is None and not io_owner.is_prepared()
    io_owner.write(RECORD)
    assert io_owner.known("u") == RECORD and io_owner.known("other") is None and io_owner.is_prepared()
    (io_owner.HOME / "other.json").write_text(RECORD.to_json())
    with pytest.raises(BackendError, match="not the UUID in the name"):
        io_owner.known("other")
    (io_owner.HOME / ".present").unlink()
    with pytest.raises(BackendError, match=".present is missing"):
        io_owner.known("third")
    (io_owner.HOME / "third.json").symlink_to("third.json")
    with pytest.raises(BackendError, match="cannot be read"):
        io_owner.known("third")
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
    assert io_owner.release("u") and io_owner.known("u") is None and not io_owner.is_permitted("u")


def test_the_vms_of_other_hosts_are_listed_even_if_their_record_is_damaged():
    assert io_owner.read_all() == {}
    away = RECORD._replace(role=FORMER, to="metal2")
    for record in (away, RECORD._replace(uuid="own")):
        io_owner.write(record)
    (io_owner.HOME / "damaged.json").write_text("{half")
    (io_owner.HOME / ".left.json").write_text("")
    assert io_owner.read_all() == {"u": away, "damaged": Record("", "", "damaged", "", role=FORMER, to="another host")}
    assert io_owner.away("u") == away and io_owner.away("own") is None and io_owner.away("none") is None
    (io_owner.HOME / ".present").unlink()
    with pytest.raises(BackendError, match="cannot read which VMs other hosts have"):
        io_owner.read_all()


def test_the_record_of_a_removed_vm_ends_with_its_guard():
    """Copies end after the removal of their VM; what would stay then refuses a VM of that name that is moved here later."""
    io_owner.RUN.mkdir()
    io_owner.write(RECORD._replace(epoch=3, to="metal1", proof="handed over by metal2"))
    io_owner.guard(RECORD, permitted=True)
    run_owner.removed("u")
    assert io_owner.is_guarded("u")
    assert io_owner.release("u") and io_owner.known("u") is None
    # without a guard at once; again without a record
    io_owner.write(RECORD._replace(epoch=3))
    run_owner.removed("u")
    run_owner.removed("u")
    assert io_owner.known("u") is None
