# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which move a call concerns; tests/move has real ones."""

from __future__ import annotations

import json
import threading
import time
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import run_move
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import CONFIRMED, FAILED, MOVED, RETURNED, RUNNING, MoveJournal
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_pool_mounts

PARAMS = {"id": "c1", "cluster": "green", "destination": {"name": "metal2", "host": "192.0.2.12", "host_keys": ["ssh-ed25519 AAAA"]}}


@pytest.fixture(name="started")
def fixture_started(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(run_move, "MoveStore", lambda name: MoveStore(name, tmp_path))
    monkeypatch.setattr(run_move, "_start", lambda store, action, params: started.append(action))
    monkeypatch.setattr(run_move, "_outcome", lambda store, params, good: {"changed": True})
    monkeypatch.setattr(run_move, "_find", lambda params, vm_id: ("qemu:///system", types.SimpleNamespace(uuid="u")))
    monkeypatch.setattr(run_move.io_units, "unit_active", lambda name: False)
    monkeypatch.setattr(run_move.io_owner, "away", lambda uuid: None)
    monkeypatch.setattr(run_move.io_remote_source, "scan_host_keys", lambda *given: [])
    monkeypatch.setattr(io_lock, "lock_folder", lambda: tmp_path / "locks")
    return started


def kept(tmp_path, **values) -> None:
    """Store a move of the VM with the same ID in another cluster."""
    store = MoveStore("c1", tmp_path)
    store.write_job({"action": "moved", "params": {**PARAMS, "cluster": "blue"}})
    store.write(MoveJournal(**{"name": "c1", "started": 1.0, **values}))


@pytest.mark.parametrize("state", [MOVED, RUNNING])
@pytest.mark.parametrize("check_mode", [True, False])
def test_the_unconfirmed_move_of_another_cluster_is_not_replaced(tmp_path, started, state, check_mode):
    kept(tmp_path, state=state, switched=state == MOVED)
    with pytest.raises(RefusedError, match="the stored move of c1 is that of the VM of the cluster blue, not green"):
        run_move.move({**PARAMS, "state": MOVED}, check_mode=check_mode)
    assert not started


@pytest.mark.parametrize("state", [CONFIRMED, RETURNED, FAILED])
def test_a_move_of_another_cluster_that_has_ended_is_replaced(tmp_path, started, state):
    kept(tmp_path, state=state)
    run_move.move({**PARAMS, "state": MOVED}, check_mode=False)
    assert started == [MOVED]


@pytest.mark.parametrize("state", [CONFIRMED, RETURNED])
def test_the_move_of_another_cluster_is_not_ended(tmp_path, started, state):
    kept(tmp_path, state=MOVED, switched=True)
    with pytest.raises(RefusedError, match="is that of the VM of the cluster blue, not green"):
        run_move.move({"id": "c1", "cluster": "green", "state": state}, check_mode=False)
    assert not started
    run_move.move({"id": "c1", "cluster": "blue", "state": state}, check_mode=False)
    # the cluster need not be given
    run_move.move({"id": "c1", "state": state}, check_mode=False)
    assert started == [state, state]


@pytest.mark.parametrize(
    ("action", "to", "words"), [(MOVED, "metal3", "is being moved to metal3, not to metal2"), (RETURNED, "metal2", "state: returned for c1")]
)
def test_the_end_of_another_run_is_not_the_one_that_is_waited_for(tmp_path, started, monkeypatch, action, to, words):
    kept(tmp_path, state=RUNNING)
    MoveStore("c1", tmp_path).write_job({"action": action, "params": {**PARAMS, "destination": {**PARAMS["destination"], "name": to}}})
    monkeypatch.setattr(run_move.io_units, "unit_active", lambda name: True)
    with pytest.raises(RefusedError, match=words):
        run_move.move({**PARAMS, "state": MOVED}, check_mode=False)
    MoveStore("c1", tmp_path).write_job({"action": MOVED, "params": PARAMS})
    assert run_move.move({**PARAMS, "state": MOVED}, check_mode=False) == {"changed": True}
    assert not started


@pytest.mark.parametrize(("held", "expected"), [({"running": True, "autostart": True}, [RETURNED]), (None, [])])
def test_a_vm_that_its_failed_move_left_off_is_started_again_by_a_return(tmp_path, started, held, expected):
    kept(tmp_path, state=FAILED, facts={"held": held})
    run_move.move({"id": "c1", "state": RETURNED}, check_mode=False)
    assert started == expected


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize("lost", [True, False])
def test_disks_of_an_interrupted_return_are_not_started(tmp_path, started, check_mode, lost):
    kept(tmp_path, state=FAILED, switched=True, going=RETURNED, facts={"mixed": True, "vm": {"uuid": "u"}})
    with pytest.raises(RefusedError, match="already replaced a part of the old disks"):
        run_move.move({"id": "c1", "state": RETURNED, "discard_changes": True, "destination_lost": "metal2" if lost else None}, check_mode=check_mode)
    assert not started
    run_move.move({"id": "c1", "state": RETURNED}, check_mode=False)
    assert started == [RETURNED]


@pytest.mark.parametrize("state", [None, RETURNED, RUNNING])
def test_a_running_worker_is_reported_as_running(tmp_path, monkeypatch, state):
    # a play removes the one-time key otherwise, which the worker needs; what it wrote may be from an earlier move
    monkeypatch.setattr(run_move, "MoveStore", lambda name: MoveStore(name, tmp_path))
    monkeypatch.setattr(run_move.io_units, "unit_active", lambda name: True)
    if state:
        kept(tmp_path, state=state)
    assert run_move._outcome(MoveStore("c1", tmp_path), {"wait": False}, MOVED)["move"]["state"] == RUNNING
    with pytest.raises(FootprintError, match="still running"):
        run_move._outcome(MoveStore("c1", tmp_path), {"wait": True, "wait_timeout": 0}, MOVED)
    assert run_move.unfinished({"id": "c1"})["move"]["state"] == RUNNING
    monkeypatch.setattr(run_move.io_units, "unit_active", lambda name: False)
    assert run_move.unfinished({"id": "c1"}) == run_move.unfinished({"id": "../c1"}) == {}


def test_check_mode_reports_a_move_that_is_running(tmp_path, started, monkeypatch):
    # its checks would find the half of the VM at the destination
    store = MoveStore("c1", tmp_path)
    store.write_job({"action": "moved", "params": PARAMS})
    store.write(MoveJournal(name="c1", started=1.0, state=RUNNING))
    monkeypatch.setattr(run_move.io_units, "unit_active", lambda name: True)
    result = run_move.move({**PARAMS, "state": MOVED, "destination_facts": {}}, check_mode=True)
    assert result["changed"] and result["move"]["state"] == RUNNING and result["warnings"] == ["The move of c1 is running."]
    with pytest.raises(RefusedError, match="is being moved to metal2, not to metal3"):
        run_move.move({**PARAMS, "state": MOVED, "destination": {**PARAMS["destination"], "name": "metal3"}}, check_mode=True)


def to(name):
    """Return the parameters of a move to a server."""
    return {**PARAMS, "state": MOVED, "destination": {**PARAMS["destination"], "name": name}}


def test_the_second_of_two_moves_at_once_is_refused(tmp_path, started, monkeypatch):
    both = threading.Barrier(2)
    refused = []

    def start(store, action, params):
        # as slowly as systemd; meanwhile the other run reads the state
        time.sleep(0.3)
        store.write_job({"action": action, "params": params})
        started.append(params["destination"]["name"])

    def move(name):
        both.wait()
        try:
            run_move.move(to(name), check_mode=False)
        except RefusedError as error:
            refused.append(str(error))

    monkeypatch.setattr(run_move, "_start", start)
    monkeypatch.setattr(run_move.io_units, "unit_active", lambda name: bool(started))
    runs = [threading.Thread(target=move, args=(name,)) for name in ("metal2", "metal3")]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    (first,) = started
    second = {"metal2": "metal3", "metal3": "metal2"}[first]
    (message,) = refused
    assert f"the VM c1 is being moved to {first}, not to {second}." in message


@pytest.mark.parametrize("check_mode", [True, False])
def test_an_interrupted_move_keeps_its_destination(tmp_path, started, check_mode):
    # its worker begins again after the restart of this host, and a part of the VM is at metal3
    store = MoveStore("c1", tmp_path)
    store.write_job({"action": MOVED, "params": to("metal3")})
    store.write(MoveJournal(name="c1", started=1.0, state=RUNNING))
    with pytest.raises(RefusedError, match="is being moved to metal3, not to metal2"):
        run_move.move(to("metal2"), check_mode=check_mode)
    assert not started
    run_move.move(to("metal3"), check_mode=False)
    assert started == [MOVED]


def test_a_refused_call_names_the_destination_of_the_worker(tmp_path, started, monkeypatch):
    # which has not written its journal yet
    MoveStore("c1", tmp_path).write_job({"action": MOVED, "params": to("metal3")})
    monkeypatch.setattr(run_move.io_units, "unit_active", lambda name: True)
    assert run_move.unfinished(to("metal2"))["move"]["to"] == "metal3"


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize("state", [CONFIRMED, RETURNED])
def test_a_move_does_not_end_while_a_pool_is_not_mounted(tmp_path, started, monkeypatch, state, check_mode):
    monkeypatch.setattr(io_pool_mounts, "STATE", tmp_path / "pool-mounts.json")
    (tmp_path / "pool-mounts.json").write_text(json.dumps({"schema": 1, "/pool": "/pool"}), "utf-8")
    kept(tmp_path, state=MOVED, switched=True, facts={"vm": {"items": [{"path": "/pool/c1", "base": False}], "pools": {"/pool": "vms"}}})
    with pytest.raises(RefusedError, match="the storage pool vms of .* is on the file system of /pool, which is not mounted"):
        run_move.move({"id": "c1", "state": state}, check_mode=check_mode)
    # so the move is as before, and can be confirmed or returned
    assert not started and MoveStore("c1", tmp_path).journal().state == MOVED


LOST = {"id": "c1", "state": RETURNED, "discard_changes": True, "destination_lost": "metal2"}


@pytest.fixture(name="waits")
def fixture_waits(tmp_path, started, monkeypatch):
    """The worker of a return waits for the destination; returns the units that are stopped."""
    store, stopped = MoveStore("c1", tmp_path), []
    store.write_job({"action": RETURNED, "params": PARAMS})
    facts = {"vm": {"uuid": "u"}, "held": {"running": True}}
    reason, progress = "waiting for metal2, which must answer.", {"waiting_for": "metal2"}
    store.write(MoveJournal(name="c1", started=1.0, state=RUNNING, switched=True, going=RETURNED, facts=facts, reason=reason, progress=progress))
    monkeypatch.setattr(run_move.io_units, "unit_active", lambda name: not stopped)
    monkeypatch.setattr(run_move, "run", lambda argv, timeout: stopped.append(argv[-1]))
    return stopped


def test_a_lost_destination_ends_the_wait_of_a_return(waits, started):
    # one that asks for nothing else waits with it
    run_move.move({"id": "c1", "state": RETURNED}, check_mode=False)
    run_move.move(LOST, check_mode=True)
    assert not waits and not started
    run_move.move(LOST, check_mode=False)
    assert waits == ["reduced-footprint-move-c1.service"] and started == [RETURNED]


def test_a_lost_destination_ends_the_wait_of_a_move(tmp_path, waits, started):
    MoveStore("c1", tmp_path).write_job({"action": MOVED, "params": PARAMS})
    run_move.move(LOST, check_mode=False)
    assert waits and started == [RETURNED]


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize(
    ("lost", "keys", "words"),
    [
        ("metal3", [], "'metal3' is not the destination of this move, metal2"),
        ("true", [], "'true' is not the destination of this move, metal2"),
        ("metal2", ["ssh-ed25519 AAAA"], "metal2 is not lost: it answers at 192.0.2.12"),
        # another machine has its address
        ("metal2", ["ssh-ed25519 BBBB"], None),
    ],
)
def test_a_destination_is_lost_only_if_it_was_named_and_does_not_answer(waits, started, monkeypatch, lost, keys, words, check_mode):
    monkeypatch.setattr(run_move.io_remote_source, "scan_host_keys", lambda address, port, known: keys)
    given = {**LOST, "destination_lost": lost}
    if words is None:
        assert run_move.move(given, check_mode=check_mode)
        return
    with pytest.raises(FootprintError, match=words):
        run_move.move(given, check_mode=check_mode)
    assert not started and not waits


def test_disks_that_a_return_has_begun_to_replace_meanwhile_are_not_started(tmp_path, waits, started, monkeypatch):
    def stop(argv, timeout):
        journal = MoveStore("c1", tmp_path).journal()
        journal.facts["mixed"] = True
        MoveStore("c1", tmp_path).write(journal)

    monkeypatch.setattr(run_move, "run", stop)
    with pytest.raises(RefusedError, match="already replaced a part of the old disks"):
        run_move.move(LOST, check_mode=False)
    assert not started


def test_what_a_worker_waits_for_is_reported(tmp_path, waits, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(run_move, "MoveStore", lambda name: MoveStore(name, tmp_path))
    monkeypatch.setattr(run_move.io_units, "unit_active", lambda name: True)
    with pytest.raises(FootprintError, match="the move of c1 is still running: waiting for metal2, which must answer"):
        run_move._outcome(MoveStore("c1", tmp_path), {"wait": True, "wait_timeout": 0}, RETURNED)
    assert run_move.unfinished({"id": "c1"})["move"]["reason"] == "waiting for metal2, which must answer."
    assert run_move._outcome(MoveStore("c1", tmp_path), {"wait": False}, RETURNED)["move"]["reason"] == "waiting for metal2, which must answer."


def test_each_job_has_its_own_token(tmp_path, monkeypatch):
    monkeypatch.setattr(run_move.run_jobs.io_units, "keep_code", lambda: None)
    monkeypatch.setattr(run_move.run_jobs.io_units, "start_unit", lambda *given, **more: None)
    store = MoveStore("c1", tmp_path)
    tokens = []
    for action in (MOVED, RETURNED):
        # a later job has the parameters of the first one
        run_move._start(store, action, (store.read_job() or {"params": PARAMS})["params"])
        tokens.append(store.read_job()["params"]["token"])
    assert all(tokens) and tokens[0] != tokens[1]
