# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies of VMs with the same ID in two clusters on the same servers; tests/standby has real copies."""

from __future__ import annotations

import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies, io_store, run_standby
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Copy, Job, Voter, job_data
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import vm_uuid

STANDBY = {"name": "metal2", "host": "192.0.2.12", "port": 22, "host_keys": ["ssh-ed25519 AAAA"]}
JOB = Job("m", "blue", "blue-m", vm_uuid("blue", "m"), "qemu:///system", Voter("metal2", "192.0.2.12", 22, ("ssh-ed25519 AAAA",)), (), 900, 2, 0, "metal1")


@pytest.fixture(autouse=True)
def fixture_homes(tmp_path, monkeypatch):
    monkeypatch.setattr(io_copies, "HOME", tmp_path / "copies")
    monkeypatch.setattr(io_store, "HOME", tmp_path / "standby")
    monkeypatch.setattr(run_standby.io_look, "find", lambda *given: ("qemu:///system", types.SimpleNamespace(name="green-m", uuid="u")))
    monkeypatch.setattr(run_standby, "_refuse_unfit", lambda uri, uuid: None)
    monkeypatch.setattr(run_standby.io_timers, "remove", lambda vm_id: None)
    monkeypatch.setattr(run_standby.io_guard, "release", lambda name: None)
    monkeypatch.setattr(run_standby, "_forget_checkpoints", lambda job: None)


@pytest.mark.parametrize("check_mode", [True, False])
def test_the_copies_of_another_cluster_are_not_replaced(check_mode):
    store = io_store.StandbyStore("m")
    store.write_job(job_data(JOB))
    given = {"id": "m", "cluster": "green", "state": "present", "standby": STANDBY, "interval_seconds": 900, "copies": 2}
    with pytest.raises(RefusedError, match="the VM m of another cluster is copied from this server"):
        run_standby.apply(given, check_mode=check_mode)
    assert store.job() is not None and store.job().cluster == "blue"


@pytest.mark.parametrize(("cluster", "kept"), [("green", True), ("blue", False), (None, False)])
def test_a_move_ends_the_copies_of_its_own_cluster_only(cluster, kept):
    store = io_store.StandbyStore("m")
    store.write_job(job_data(JOB))
    assert run_standby.apply({"id": "m", "cluster": cluster, "state": "absent"}, check_mode=False)["changed"] is not kept
    assert (store.job() is not None) is kept


@pytest.mark.parametrize(("cluster", "kept"), [("green", True), ("blue", False), (None, False)])
def test_a_move_keeps_the_copies_that_another_cluster_has_here(cluster, kept):
    store = io_copies.CopyStore("m")
    store.write_record({"state": "receiving"})
    store.commit(Copy("20261124T100001Z", "m", JOB.uuid, "m", "metal3", 1.0, 1.0, False, "full", 1, 1.0, "<domain/>", {}, True, ()), {})
    run_standby.apply({"id": "m", "cluster": cluster, "state": "absent"}, check_mode=False)
    assert bool(store.copies()) is kept


def test_the_vm_of_another_cluster_is_not_released():
    io_store.StandbyStore("m").write_job(job_data(JOB))
    assert run_standby.apply({"id": "m", "cluster": "green", "state": "released"}, check_mode=False) == {"changed": False}
