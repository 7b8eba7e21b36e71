# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies of VMs with the same ID in two clusters on the same servers; tests/standby has real copies."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import time
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._keys import run_one_time_key
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_machine import Machine
from ansible_collections.reduced.footprint.plugins.module_utils._service.io_service_host import ServiceHost
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_service_files import UnitFound
from ansible_collections.reduced.footprint.plugins.module_utils._standby import (
    io_copies,
    io_store,
    plan_standby,
    run_agent,
    run_guard,
    run_standby,
    run_standby_info,
)
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Copy, Job, job_data, parse_job
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import vm_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner, run_hook

from tests.support.control_node import ROOT
from tests.support.records import away

STANDBY = {"name": "metal2", "host": "192.0.2.12", "port": 22, "host_keys": ["ssh-ed25519 AAAA"]}
JOB = Job("m", "blue", "blue-m", vm_uuid("blue", "m"), "qemu:///system", Machine("metal2", "192.0.2.12", 22, ("ssh-ed25519 AAAA",)), (), 900, 2, 0, "metal1")


@pytest.fixture(autouse=True)
def fixture_homes(tmp_path, monkeypatch):
    monkeypatch.setattr(io_copies, "HOME", tmp_path / "copies")
    monkeypatch.setattr(io_store, "HOME", tmp_path / "standby")
    monkeypatch.setattr(io_store, "ENDED", tmp_path / "ended")
    monkeypatch.setattr(run_standby.io_look, "find", lambda *given: ("qemu:///system", types.SimpleNamespace(name="green-m", uuid="u")))
    monkeypatch.setattr(run_standby, "_refuse_unfit", lambda uri, uuid: None)
    monkeypatch.setattr(run_standby.io_timers, "remove", lambda vm_id: None)
    monkeypatch.setattr(run_standby.io_owner, "release", lambda name: None)
    monkeypatch.setattr(run_standby, "_forget_checkpoints", lambda job: None)


@pytest.mark.parametrize("check_mode", [True, False])
def test_the_copies_of_another_cluster_are_not_replaced(check_mode):
    store = io_store.StandbyStore("m")
    store.write_job(job_data(JOB))
    given = {"id": "m", "cluster": "green", "state": "present", "standby": STANDBY, "interval_seconds": 900, "copies": 2}
    with pytest.raises(RefusedError, match="the VM m of another cluster is copied from this server"):
        run_standby.apply(given, check_mode=check_mode)
    assert store.job() is not None and store.job().cluster == "blue"


@pytest.mark.parametrize(("cluster", "kept"), [("green", True), ("blue", False)])
def test_a_move_ends_the_copies_of_its_own_cluster_only(cluster, kept):
    store = io_store.StandbyStore("m")
    store.write_job(job_data(JOB))
    assert run_standby.apply({"id": "m", "cluster": cluster, "state": "absent"}, check_mode=False)["changed"] is not kept
    assert (store.job() is not None) is kept


@pytest.mark.parametrize(("cluster", "kept"), [("green", True), ("blue", False)])
def test_a_move_keeps_the_copies_that_another_cluster_has_here(cluster, kept):
    store = io_copies.CopyStore("blue", "m")
    store.write_record({"state": "receiving"})
    store.commit(Copy("20261124T100001Z", "m", JOB.uuid, "m", "metal3", 1.0, 1.0, False, "full", 1, 1.0, "<domain/>", {}, True, ()), {})
    run_standby.apply({"id": "m", "cluster": cluster, "state": "absent"}, check_mode=False)
    assert bool(store.copies()) is kept


def test_copies_are_not_removed_after_a_start_that_held_their_lock(monkeypatch):
    store = io_copies.CopyStore("blue", "m")
    store.write_record({"state": "receiving"})
    locked = io_copies.CopyStore.locked

    @contextlib.contextmanager
    def late(self, **given):
        with locked(self, **given):
            store.write_record({"state": "started"})
            yield

    monkeypatch.setattr(io_copies.CopyStore, "locked", late)
    with pytest.raises(RefusedError, match="runs on this server from its copy"):
        run_standby.apply({"id": "m", "cluster": "blue", "state": "absent"}, check_mode=False)
    assert store.record()["state"] == "started"


def test_copies_of_another_vm_are_not_received():
    store = io_copies.CopyStore("blue", "m")
    store.write_record({"state": "receiving"})
    store.commit(Copy("20261124T100001Z", "m", JOB.uuid, "blue-m", "metal3", 1.0, 1.0, False, "full", 1, 1.0, "<domain/>", {}, True, ()), {})
    given = {"copy": "20261124T100002Z", "uuid": vm_uuid("green", "m"), "disks": [], "facts": {"uuid": vm_uuid("green", "m")}}
    with pytest.raises(RefusedError, match="the standby has copies of another VM with the ID m: blue-m."):
        run_agent.answer("begin", "blue", "m", given)
    assert [each.uuid for each in store.copies()] == [JOB.uuid]


METAL3 = Machine("metal3", "192.0.2.13", 22, ("ssh-ed25519 AAAA",))


def test_earlier_standbys_are_known_until_their_copies_are_removed():
    moved = JOB._replace(standby=METAL3)
    assert plan_standby.former(None, JOB, ()) == plan_standby.former(JOB, JOB, ()) == ()
    moved = moved._replace(former=plan_standby.former(JOB, moved, ()))
    assert moved.former == ("metal2",)
    # it is not forgotten by the next run, and survives the file
    assert parse_job(job_data(moved)) == moved
    assert plan_standby.former(moved, moved, ()) == ("metal2",)
    assert plan_standby.former(moved, JOB, ()) == ("metal3",)
    assert plan_standby.former(moved, moved, ["metal2"]) == ()


def test_earlier_witnesses_are_known_until_their_key_is_withdrawn():
    witness = METAL3._replace(name="w1")
    before = JOB._replace(witnesses=(witness, METAL3))
    assert before.accepting == ("metal2", "w1", "metal3")
    job = JOB._replace(witnesses=(witness,))
    assert plan_standby.former(before, before, ()) == ()
    assert plan_standby.former(before, job, ()) == ("metal3",) and plan_standby.former(before, job, ["metal3"]) == ()
    assert plan_standby.former(before, JOB._replace(standby=METAL3, witnesses=(witness,)), ()) == ("metal2",)


LINE = "ssh-ed25519 AAAA reduced.footprint-migrate-standby-m@blue"


@pytest.mark.parametrize(("withdrawn", "left"), [((), ["metal2", "w1"]), (["metal2"], ["w1"]), (["metal2", "w1"], [])])
def test_machines_that_accept_the_key_of_ended_copies_are_known(withdrawn, left):
    store = io_store.StandbyStore("m")
    store.write_job(job_data(JOB._replace(witnesses=(METAL3._replace(name="w1"),))))
    (store.directory / "id_ed25519.pub").write_text(LINE + "\n", "ascii")
    given = {"id": "m", "cluster": "blue", "state": "absent", "withdrawn_from": withdrawn}
    assert run_standby.apply(given, check_mode=True)["changed"] and not io_store.read_ended()
    assert run_standby.apply(given, check_mode=False)["changed"] and not store.directory.exists()
    found = run_standby_info.standbys()
    assert [(each["part"], each["key_accepted_by"], each["public_key"]) for each in found] == ([("ended", left, LINE)] if left else [])
    given = {"id": "m", "cluster": "blue", "state": "withdrawn", "withdrawn_from": ["metal2"]}
    for check_mode in (True, False):
        assert run_standby.apply({**given, "cluster": "green"}, check_mode=check_mode) == {"changed": False, "diff": {"before": "", "after": ""}}
        assert run_standby.apply(given, check_mode=check_mode)["changed"] is ("metal2" in left)
    assert not run_standby.apply(given, check_mode=False)["changed"]
    assert [each.machines for each in io_store.read_ended()] == ([("w1",)] if left else [])
    run_standby.apply({**given, "withdrawn_from": ["w1"]}, check_mode=False)
    assert run_standby_info.standbys() == []


def test_two_keys_of_a_vm_are_both_known():
    store = io_store.StandbyStore("m")
    for line in (LINE, LINE.replace("AAAA", "BBBB")):
        store.write_job(job_data(JOB))
        (store.directory / "id_ed25519.pub").write_text(line + "\n", "ascii")
        run_standby.apply({"id": "m", "cluster": "blue", "state": "absent"}, check_mode=False)
    assert [each.public_key[12:16] for each in io_store.read_ended()] == ["AAAA", "BBBB"]


@pytest.mark.parametrize(("there", "withdrawn"), [(LINE, True), (LINE.replace("AAAA", "BBBB"), False)])
def test_the_key_of_another_server_is_not_withdrawn(there, withdrawn, tmp_path, monkeypatch):
    monkeypatch.setattr(run_one_time_key.io_authorized_keys, "PATH", tmp_path / "authorized_keys")
    monkeypatch.setattr(run_one_time_key.io_authorized_keys, "ALLOWED", tmp_path)
    text = f"restrict {there}\n"
    (tmp_path / "authorized_keys").write_text(text, "ascii")
    given = {"name": "m", "cluster": "blue", "purpose": "standby", "state": "absent", "public_key": LINE}
    assert run_one_time_key.apply(given, check_mode=True)["changed"] is withdrawn
    assert run_one_time_key.apply(given, check_mode=False)["changed"] is withdrawn
    assert (tmp_path / "authorized_keys").read_text("ascii") == ("" if withdrawn else text)
    assert not run_one_time_key.apply(given, check_mode=False)["changed"]
    with pytest.raises(FootprintError, match="is not the one-time key of this name"):
        run_one_time_key.apply({**given, "name": "n"}, check_mode=False)


@pytest.mark.parametrize(("former", "facts", "copied"), [
    ((), {"at": 1.0}, "1970-01-01T00:00:01Z"),
    (("metal3",), {"at": 1.0}, None),
    (("metal3",), {"at": 1.0, "standby": "metal3"}, None),
    (("metal3",), {"at": 1.0, "standby": "metal2"}, "1970-01-01T00:00:01Z"),
])
def test_a_copy_on_an_earlier_standby_is_not_one_of_the_present_one(former, facts, copied, monkeypatch):
    monkeypatch.setattr(io_owner, "is_guarded", lambda name: False)
    store = io_store.StandbyStore("m")
    store.write_job(job_data(JOB._replace(former=former)))
    journal = store.journal()
    journal.facts.update(facts)
    store.write(journal)
    (entry,) = run_standby_info.standbys()
    assert (entry["copied"], entry["former_standbys"]) == (copied, list(former))


def test_two_clusters_share_a_witness(monkeypatch):
    """Each state that reads or writes a record, through the module and through the key."""
    monkeypatch.setattr(run_standby, "DomainHost", None)

    def on(cluster, state, **more):
        return run_standby.apply({"id": "m", "cluster": cluster, "state": state, **more}, check_mode=False)["changed"]

    def looks(cluster):
        return run_agent.answer("look", cluster, "m", {})["record"]["state"]

    def listed():
        return [(each["cluster"], each["id"], each["state"]) for each in run_standby_info.standbys()]

    assert on("blue", "claimed", source="metal1") and not on("blue", "claimed", source="metal1")
    assert (looks("blue"), looks("green")) == ("started", "receiving")
    assert not on("green", "returned") and not on("green", "absent")
    assert on("green", "claimed", source="metal7")
    assert listed() == [("blue", "m", "started"), ("green", "m", "started")]
    assert [each["cluster"] for each in run_standby_info.standbys("m", "green")] == ["green"]
    assert on("blue", "returned") and (looks("blue"), looks("green")) == ("receiving", "started")
    assert on("blue", "absent") and not on("blue", "absent")
    assert listed() == [("green", "m", "started")]
    with pytest.raises(RefusedError, match="runs on this server from its copy"):
        on("green", "absent")


@pytest.mark.parametrize("cluster", [None, "", "../x", "a/b"])
def test_a_cluster_is_a_valid_name(cluster):
    with pytest.raises(FootprintError):
        run_standby.apply({"id": "m", "cluster": cluster, "state": "claimed"}, check_mode=False)
    assert io_copies.names() == []


def test_one_function_makes_the_path():
    # a reader of another path would not find a start, and the VM would run twice
    folders = [ROOT / "plugins", ROOT / "roles", ROOT / "playbooks"]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".yml")]
    assert {path.name for path in files if "standby-copies" in path.read_text("utf-8")} == {"io_copies.py"}
    text = (ROOT / "plugins/module_utils/_standby/io_copies.py").read_text("utf-8")
    # for a VM, and for the list of all
    assert text.count("home or HOME") == 2


@pytest.fixture(name="moved")
def fixture_moved():
    """The VM was moved to a third server, and its copies were paused before."""
    store = io_store.StandbyStore("m")
    store.write_job(job_data(JOB._replace(uuid="u")))
    store.pause()
    io_owner.write(away("moved", "metal3", "m", cluster="blue"))
    return store


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_vm_that_gets_a_standby_after_it_was_moved_is_not_copied_from_its_old_server(moved, check_mode):
    (moved.directory / "job.json").unlink()
    moved.resume()
    given = {"id": "m", "cluster": "blue", "state": "present", "standby": STANDBY, "interval_seconds": 900, "copies": 2}
    result = run_standby.apply(given, check_mode=check_mode)
    assert not result["changed"] and "m was moved to another server" in result["warnings"][0]
    assert moved.job() is None


def test_a_moved_vm_is_not_copied_from_its_old_server(moved):
    given = {"id": "m", "cluster": "blue", "state": "present", "standby": STANDBY, "interval_seconds": 900, "copies": 2}
    for check_mode in (True, False):
        result = run_standby.apply(given, check_mode=check_mode)
        assert not result["changed"] and "m was moved to another server" in result["warnings"][0]
    # its standby would not confirm that it was started there
    assert run_standby.apply({"id": "m", "cluster": "blue", "state": "released"}, check_mode=False) == {"changed": False}
    (entry,) = run_standby_info.standbys()
    assert (entry["state"], entry["problem"], entry["kept_off"]) == ("moved", None, False)


def test_a_server_from_which_a_vm_was_moved_may_be_its_standby_now(moved):
    copies = io_copies.CopyStore("blue", "m")
    copies.write_record({"state": "receiving"})
    copies.commit(Copy("20261124T100001Z", "m", "u", "m", "metal3", 1.0, 1.0, False, "full", 1, 1.0, "<domain/>", {}, True, ()), {})
    given = {"id": "m", "cluster": "blue", "state": "absent"}
    # the copies that it made
    assert run_standby.apply(given, check_mode=False)["changed"] and moved.job() is None
    assert copies.copies()
    # those that it keeps
    assert run_standby.apply(given, check_mode=False)["changed"]
    assert not copies.copies() and not run_standby.apply(given, check_mode=False)["changed"]


@pytest.mark.parametrize(("cluster", "ended"), [("blue", True), ("green", False)])
def test_copies_are_paused_before_a_move(cluster, ended, monkeypatch):
    steps = []
    monkeypatch.setattr(run_standby.io_timers, "stop", lambda vm_id: steps.append("stopped"))
    monkeypatch.setattr(run_standby, "_forget_checkpoints", lambda job: steps.append("checkpoints"))
    monkeypatch.setattr(run_standby.io_owner, "release", lambda name: steps.append("released"))
    monkeypatch.setattr(run_standby.io_owner, "is_guarded", lambda name: False)
    given = {"id": "m", "cluster": cluster, "state": "paused"}
    assert run_standby.apply(given, check_mode=True) == run_standby.apply(given, check_mode=False) == {"changed": False}
    store = io_store.StandbyStore("m")
    store.write_job(job_data(JOB))
    assert run_standby.apply(given, check_mode=True)["changed"] is ended and not steps and store.paused_seconds() is None
    assert run_standby.apply(given, check_mode=False)["changed"] is ended
    # the guard stays: this server may lose its power during the move, and the VM be started on its standby
    assert steps == (["stopped", "checkpoints"] if ended else []) and (store.paused_seconds() is not None) is ended
    # job and key stay
    assert store.job() == JOB


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_vm_that_may_run_on_its_standby_is_not_moved(check_mode, monkeypatch):
    monkeypatch.setattr(run_standby.io_owner, "is_guarded", lambda name: True)
    monkeypatch.setattr(run_standby.io_owner, "is_permitted", lambda name: False)
    store = io_store.StandbyStore("m")
    store.write_job(job_data(JOB))
    with pytest.raises(RefusedError, match="m stays off until metal2 or a witness confirms"):
        run_standby.apply({"id": "m", "cluster": "blue", "state": "paused"}, check_mode=check_mode)
    assert store.paused_seconds() is None


def test_the_vm_of_another_cluster_is_not_released():
    io_store.StandbyStore("m").write_job(job_data(JOB))
    assert run_standby.apply({"id": "m", "cluster": "green", "state": "released"}, check_mode=False) == {"changed": False}


def test_the_hook_of_a_killed_run_is_found_by_libvirt(tmp_path, monkeypatch):
    orders = []
    libvirt = UnitFound(known=True, active=True, started=time.time() - 60)

    class Systemd(ServiceHost):
        units = staticmethod(lambda names: {name: libvirt if name == "libvirtd.service" else UnitFound() for name in names})
        order = staticmethod(lambda verb, names: orders.extend((verb, name) for name in names))
        write = staticmethod(lambda file: pathlib.Path(file.path).write_text(file.content, "ascii"))
        settle = staticmethod(lambda file: os.chmod(file.path, file.mode))

    monkeypatch.setattr(run_guard.run_service_files, "ServiceHost", Systemd)
    monkeypatch.setattr(run_hook, "PATHS", (tmp_path / "hook",))
    assert run_guard.install_hook(check_mode=True) and not orders and not list(tmp_path.iterdir())
    # the first run is killed before libvirt restarts
    monkeypatch.setattr(Systemd, "order", staticmethod(lambda verb, names: None))
    assert run_guard.install_hook(check_mode=False)
    monkeypatch.setattr(Systemd, "order", staticmethod(lambda verb, names: orders.extend((verb, name) for name in names)))
    (tmp_path / "hook").chmod(0o755)
    assert run_guard.install_hook(check_mode=False) and orders == [("restart", "libvirtd.service")]
    libvirt = dataclasses.replace(libvirt, started=time.time() + 60)
    assert not run_guard.install_hook(check_mode=False) and len(orders) == 1


def test_the_pause_before_a_move_does_not_depend_on_the_time_of_day(monkeypatch):
    store = io_store.StandbyStore("m")
    store.directory.mkdir(parents=True)
    assert store.paused_seconds() is None
    store.pause()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86400)
    assert (store.paused_seconds() or 0) < 60
    # since the boot, if the server was restarted
    monkeypatch.setattr(io_store, "_boot_id", lambda: "another")
    assert (store.paused_seconds() or 0) == pytest.approx(io_store._clock(), abs=60)
    store.resume()
    assert store.paused_seconds() is None
