# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the migration of a machine finds under its name; tests/migrate and tests/torture have real ones."""

from __future__ import annotations

import contextlib
import os
import time
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_return
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request import run_migrate
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ARRIVING, CONFIRMED, MOVED
from tests.support.records import away, use_folder

FIRST, SECOND = "1" * 32, "2" * 32
PHASES = {"define": {}, "partition": {}, "precopy": {}}


def request(address: str = "192.0.2.2", machine_id: str | None = FIRST) -> dict:
    return {
        "state": "migrated", "name": "master", "vm": {"id": "master", "cpu": 1, "ram": 1},
        "admin": {"address": address, "temporary_address": "192.0.2.9"},
        "source": {"machine_id": machine_id, "host_keys": ["ssh-ed25519 AAAA"]},
    }  # fmt: skip


@pytest.fixture(name="store")
def fixture_store(tmp_path, monkeypatch):
    store = JournalStore("master", tmp_path)
    store.started = []
    monkeypatch.setattr(run_migrate, "JournalStore", lambda name: store)
    monkeypatch.setattr(run_migrate, "vm_details", lambda spec: None)
    monkeypatch.setattr(run_migrate, "described", lambda journal: {})
    monkeypatch.setattr(run_migrate, "summary", lambda migration: [])
    monkeypatch.setattr(run_migrate, "_outcome", lambda store, params, good: {"changed": True})
    monkeypatch.setattr(run_migrate, "_start", lambda store, action, params: store.started.append(params["admin"]["address"]))
    monkeypatch.setattr(run_migrate.io_units, "unit_active", lambda name: False)
    return store


def kept(store, state, **phases) -> None:
    store.write_job({"action": "migrate", "params": request("192.0.2.2/24")})
    store.write(Journal(name="master", state=state, started=1.0, phases={**PHASES, **phases}))


@pytest.mark.parametrize(("state", "phases"), [("done", {}), ("retired", {}), ("rolled_back", {}), ("failed", {"quiesce": {}})])
@pytest.mark.parametrize("machine_id", [SECOND, None])
def test_another_machine_under_the_same_name_is_refused(store, state, phases, machine_id):
    kept(store, state, **phases)
    with pytest.raises(RefusedError, match="the migration master is that of the machine with the address 192.0.2.2, not 192.0.2.3"):
        run_migrate.migrate(request("192.0.2.3", machine_id), check_mode=False)
    assert not store.started


@pytest.mark.parametrize("address", ["192.0.2.2", "192.0.2.3"])
def test_the_same_machine_is_migrated_again_also_at_another_address(store, address):
    kept(store, "rolled_back")
    assert run_migrate.migrate(request(address), check_mode=False)["changed"]
    assert store.started == [address] and store.read().finished("partition") == Journal(name="x", phases=PHASES).finished("partition")
    assert set(store.read().phases) == set(PHASES)


def test_a_finished_migration_is_not_repeated(store):
    kept(store, "done")
    assert not run_migrate.migrate(request(machine_id=None), check_mode=False)["changed"]


def test_a_machine_that_was_installed_again_is_copied_from_the_beginning(store):
    kept(store, "rolled_back")
    run_migrate.migrate(request(machine_id=SECOND), check_mode=False)
    assert store.started and not store.read().phases


@pytest.mark.parametrize("check_mode", [True, False])
def test_data_of_a_vm_that_served_is_not_copied_over(store, check_mode):
    kept(store, "rolled_back")
    journal = store.read()
    journal.facts[run_return.VM_DATA] = "/images/master.img"
    store.write(journal)
    with pytest.raises(RefusedError, match="exists on /images/master.img only") as caught:
        run_migrate.migrate(request(), check_mode=check_mode)
    assert caught.value.path == "discard_vm_data" and not store.started
    assert run_migrate.migrate({**request(), "discard_vm_data": True}, check_mode=False)["changed"]
    # asked once for each rollback
    assert store.started and run_return.VM_DATA not in store.read().facts


DRAIN = {"phase": "quiesce", "when": "before", "on": "source", "command": ["/usr/local/bin/drain"], "command_timeout": 600}
NOTE = {"phase": "commit", "when": "after", "on": "destination", "command": ["/usr/local/bin/note"], "command_timeout": 600}
OTHER = {**DRAIN, "command": ["/usr/local/bin/other"]}


def prepare(store, monkeypatch, hooks, check_mode=False):
    monkeypatch.setattr(run_migrate.run_jobs, "prepare_key", lambda directory, name, check_mode: {"changed": False, "public_key": "k"})
    return run_migrate.migrate({"state": "prepared", "name": "master", "hooks": hooks}, check_mode=check_mode)["commands"]


def migrate_with(hooks, check_mode=False):
    return run_migrate.migrate({**request("192.0.2.2/24"), "hooks": hooks}, check_mode=check_mode)


@pytest.mark.parametrize("check_mode", [True, False])
def test_other_hooks_do_not_replace_those_of_a_running_migration(store, monkeypatch, check_mode):
    assert prepare(store, monkeypatch, [DRAIN, NOTE], check_mode) == [["/usr/local/bin/drain"]]
    store.write_job({"action": "migrate", "params": {**request("192.0.2.2/24"), "hooks": [DRAIN, NOTE]}})
    store.write(Journal(name="master", state="failed", started=1.0, phases=PHASES))
    # one that failed before the pause is started again with the new ones
    assert prepare(store, monkeypatch, [OTHER], check_mode) == [["/usr/local/bin/other"]]
    store.write(Journal(name="master", state="running", started=1.0, phases=PHASES))
    monkeypatch.setattr(run_migrate.io_units, "unit_active", lambda name: True)
    for hooks in ([OTHER], [DRAIN], [NOTE, DRAIN]):
        for run in (lambda given: prepare(store, monkeypatch, given, check_mode), lambda given: migrate_with(given, check_mode)):
            with pytest.raises(RefusedError, match="the migration master is running with other hooks") as caught:
                run(hooks)
            assert caught.value.path == "hooks" and caught.value.hint
    # it is awaited
    for hooks in ([DRAIN, NOTE], []):
        assert prepare(store, monkeypatch, hooks, check_mode) == [["/usr/local/bin/drain"]]
    assert migrate_with([DRAIN, NOTE])["changed"] and migrate_with([])["changed"] and not store.started


def commands_of(*hooks):
    return [hook["command"] for hook in hooks if hook["on"] == "source"]


def test_a_run_that_is_about_to_start_keeps_its_hooks(store, monkeypatch):
    # two runs within seconds: the first has placed its key, and not started its worker yet
    assert prepare(store, monkeypatch, [OTHER], True) == commands_of(OTHER)
    assert prepare(store, monkeypatch, [DRAIN, NOTE]) == commands_of(DRAIN)
    for check_mode in (True, False):
        with pytest.raises(RefusedError, match="another run that starts the migration master has other hooks") as caught:
            prepare(store, monkeypatch, [OTHER], check_mode)
        assert caught.value.path == "hooks" and "120 s" in caught.value.hint
    # one without hooks does not take those of the first from its key, nor start without them
    assert prepare(store, monkeypatch, []) == commands_of(DRAIN) == prepare(store, monkeypatch, [DRAIN, NOTE])
    for hooks in ([OTHER], []):
        with pytest.raises(RefusedError, match="has other hooks"):
            migrate_with(hooks)
    assert migrate_with([DRAIN, NOTE])["changed"] and store.started == ["192.0.2.2/24"]
    # it has started and ended
    store.write_job({"action": "migrate", "params": {**request("192.0.2.2/24"), "hooks": [DRAIN, NOTE]}})
    assert prepare(store, monkeypatch, [OTHER]) == commands_of(OTHER)


def test_a_run_that_was_interrupted_before_its_start_does_not_keep_others_away(store, monkeypatch):
    prepare(store, monkeypatch, [DRAIN])
    os.utime(store.directory / "starting.json", (0, 0))
    assert prepare(store, monkeypatch, [OTHER]) == commands_of(OTHER) and migrate_with([OTHER])["changed"]


def test_hooks_may_be_given_at_the_start_only(store, monkeypatch):
    assert prepare(store, monkeypatch, []) == [] and migrate_with([DRAIN])["changed"]


@pytest.mark.parametrize(("hooks", "good"), [([OTHER], False), ([DRAIN], True), ([], True)])
def test_a_worker_that_another_run_has_just_started_is_not_replaced(store, monkeypatch, hooks, good):
    @contextlib.contextmanager
    def late(name, timeout):
        # this run has found no worker, and waits for the other one
        store.write_job({"action": "migrate", "params": {**request("192.0.2.2/24"), "hooks": [DRAIN]}})
        monkeypatch.setattr(run_migrate.io_units, "unit_active", lambda name: True)
        yield

    monkeypatch.setattr(run_migrate, "host_lock", late)
    if good:
        assert migrate_with(hooks)["changed"]
    else:
        with pytest.raises(RefusedError, match="the migration master is running with other hooks"):
            migrate_with(hooks)
    assert not store.started and store.read_job()["params"]["hooks"] == [DRAIN]


def test_a_migration_that_was_interrupted_in_the_pause_keeps_its_hooks(store, monkeypatch):
    # it continues with the request that it was started with
    store.write_job({"action": "migrate", "params": {**request("192.0.2.2/24"), "hooks": [DRAIN]}})
    store.write(Journal(name="master", state="failed", started=1.0, phases={**PHASES, "quiesce": {}}))
    assert prepare(store, monkeypatch, [OTHER]) == [["/usr/local/bin/drain"]]


def test_the_vm_itself_is_refused_before_anything_is_stored(store, monkeypatch):
    monkeypatch.setattr(run_migrate, "vm_details", lambda spec: types.SimpleNamespace(name="master", macs=("52:54:00:00:00:01",)))
    facts = {"machine_id": FIRST, "host_keys": ["ssh-ed25519 AAAA"], "interfaces": [{"name": "enp1", "mac": "52:54:00:00:00:01"}]}
    with pytest.raises(RefusedError, match="it is this VM itself, on another virt host"):
        run_migrate.migrate({**request(), "source_facts": facts}, check_mode=False)
    assert not store.started and store.read() is None and store.read_job() is None


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (MOVED, "was moved to metal2, so it cannot be stopped or started here"),
        (CONFIRMED, "was moved to metal2, so it cannot be stopped or started here"),
        (ARRIVING, "is being moved to this host"),
        (None, None),
    ],
)
@pytest.mark.parametrize("check_mode", [True, False])
def test_a_vm_on_another_host_is_not_rolled_back(store, tmp_path, monkeypatch, note, words, check_mode):
    # the source would take the address back as soon as the VM is off, and serve with the old data
    kept(store, "done")
    journal = store.read()
    journal.facts["vm"] = {"uuid": "u1"}
    store.write(journal)
    use_folder(tmp_path, monkeypatch)
    if note:
        io_owner.write(away(note, "metal2", "master", "u1"))
        with pytest.raises(RefusedError, match=words):
            run_migrate.migrate({**request(), "state": "rolled_back"}, check_mode=check_mode)
    else:
        assert run_migrate.migrate({**request(), "state": "rolled_back"}, check_mode=check_mode)["changed"]
    assert bool(store.started) == (note is None and not check_mode)


@pytest.mark.parametrize("check_mode", [True, False])
def test_an_unfinished_commit_does_not_start_the_old_copy_of_a_moved_vm(store, tmp_path, monkeypatch, check_mode):
    kept(store, "failed", quiesce={}, commit={})
    journal = store.read()
    journal.facts.update(vm={"uuid": "u1"}, handed_over=True)
    store.write(journal)
    use_folder(tmp_path, monkeypatch)
    io_owner.write(away(MOVED, "metal2", "master", "u1"))
    with pytest.raises(RefusedError, match="was moved to metal2"):
        run_migrate.migrate(request(), check_mode=check_mode)
    assert not store.started


def test_without_memory_the_kernel_ends_the_worker_before_other_vms(tmp_path, monkeypatch):
    """Its memory depends on what the source sends, and the programs of the copy inherit its score."""
    commands = []
    monkeypatch.setattr(run_migrate.io_units, "run", lambda argv, **unused: commands.append(argv))
    monkeypatch.setattr(run_migrate.io_units, "keep_code", lambda: tmp_path / "code.zip")
    monkeypatch.setattr(run_migrate.io_units, "_start_at_boot", lambda unit, argv: None)
    run_migrate._start(JournalStore("master", tmp_path), "migrate", request())
    assert [each[0] for each in commands] == ["systemctl", "systemd-run"] and "--property=OOMScoreAdjust=1000" in commands[1]


AT, LATER = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + days * 86400)) for days in (2, 3))


WAITS = {"progress": {"cutover_at": "later"}}


@pytest.mark.parametrize(
    ("given", "worker", "stopped"),
    [
        ({"cutover_at": LATER}, WAITS, True),
        ({"cutover_at": AT, "max_pause": 60}, WAITS, True),
        ({"cutover_at": AT, "services": ["db"]}, WAITS, True),
        ({"cutover_at": AT}, WAITS, False),
        ({"cutover_at": AT.replace("Z", "+00:00")}, WAITS, False),
        # a run that says nothing about the time does not begin the pause
        ({}, WAITS, False),
        # it copies, or brings the copy up to date for the pause
        ({"cutover_at": LATER}, {"progress": {"number": 1}}, True),
        ({"cutover_at": LATER}, {"phases": {**PHASES, "quiesce": {}}}, False),
    ],
)
def test_another_time_replaces_that_of_a_worker_before_its_pause(store, monkeypatch, given, worker, stopped):
    kept(store, "running")
    store.write_job({"action": "migrate", "params": {**request("192.0.2.2/24"), "cutover_at": AT}})
    store.write(Journal(**{**vars(store.read()), **worker}))
    said = []
    monkeypatch.setattr(run_migrate, "run", lambda argv, timeout: said.append(argv[1]))
    monkeypatch.setattr(run_migrate.io_units, "unit_active", lambda name: not said)
    # a run that attaches to a worker that waits changes nothing
    changed = stopped or worker != WAITS
    monkeypatch.setattr(run_migrate, "_rehearse", lambda *unused: {"changed": True})
    for check_mode in (True, False):
        assert run_migrate.migrate({**request("192.0.2.2/24"), **given}, check_mode=check_mode)["changed"] == changed
    assert (said, len(store.started)) == ((["stop"], 1) if stopped else ([], 0))


def test_a_run_with_another_time_keeps_the_hooks(store, monkeypatch):
    kept(store, "running")
    store.write_job({"action": "migrate", "params": {**request("192.0.2.2/24"), "cutover_at": AT, "hooks": [DRAIN]}})
    said, begun = [], []
    monkeypatch.setattr(run_migrate, "run", lambda argv, timeout: said.append(argv[1]))
    monkeypatch.setattr(run_migrate, "_start", lambda store, action, params: begun.append((params["cutover_at"], params["hooks"])))
    monkeypatch.setattr(run_migrate.io_units, "unit_active", lambda name: not said)
    run_migrate.migrate({**request("192.0.2.2/24"), "cutover_at": LATER, "hooks": []}, check_mode=False)
    assert begun == [(LATER, [DRAIN])]


def test_a_rollback_is_not_replaced_by_a_run_with_another_time(store, monkeypatch):
    kept(store, "running")
    store.write_job({"action": "roll_back", "params": {**request("192.0.2.2/24"), "cutover_at": AT}})
    store.write(Journal(**{**vars(store.read()), **WAITS}))
    monkeypatch.setattr(run_migrate.io_units, "unit_active", lambda name: True)
    monkeypatch.setattr(run_migrate, "run", lambda argv, timeout: pytest.fail("stopped"))
    assert run_migrate.migrate({**request("192.0.2.2/24"), "cutover_at": LATER}, check_mode=False) and not store.started


def test_a_worker_that_has_just_begun_the_pause_ends_it(store, monkeypatch):
    """Between the look at its journal and its stop."""
    kept(store, "running")
    store.write_job({"action": "migrate", "params": {**request("192.0.2.2/24"), "cutover_at": AT}})

    def stop(argv, timeout):
        journal = store.read()
        journal.begin("quiesce", 2.0)
        journal.facts["source_mark"] = "m"
        store.write(journal)
        monkeypatch.setattr(run_migrate.io_units, "unit_active", lambda name: False)

    begun = []
    monkeypatch.setattr(run_migrate, "run", stop)
    monkeypatch.setattr(run_migrate, "_start", lambda store, action, params: begun.append((action, params["cutover_at"])))
    monkeypatch.setattr(run_migrate.io_units, "unit_active", lambda name: True)
    assert run_migrate.migrate({**request("192.0.2.2/24"), "cutover_at": LATER}, check_mode=False)["changed"]
    assert begun == [("migrate", AT)] and store.read().facts == {"source_mark": "m"} and "quiesce" in store.read().phases


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize(("at", "words"), [("2020-12-24T02:00:00+01:00", "2020-12-24T01:00:00Z has passed"), ("2999-12-24T02:00:00Z", "too far ahead")])
def test_a_time_that_cannot_be_kept_is_refused(store, check_mode, at, words):
    kept(store, "failed")
    with pytest.raises(InputError, match=words) as caught:
        run_migrate.migrate({**request("192.0.2.2/24"), "cutover_at": at}, check_mode=check_mode)
    assert caught.value.path == "cutover_at" and not store.started


@pytest.mark.parametrize(("active", "progress", "good"), [(True, True, True), (False, True, False), (True, False, False)])
def test_the_module_waits_for_the_copy_only(tmp_path, monkeypatch, active, progress, good):
    store = JournalStore("master", tmp_path)
    store.write(Journal(name="master", state="running", progress={"cutover_at": "2026-12-24T01:00:00Z"} if progress else {}))
    monkeypatch.setattr(run_migrate.io_units, "unit_active", lambda name: active)
    if good:
        assert "kept up to date" in run_migrate._outcome(store, {"wait_timeout": 0.1}, ("done",))["summary"][0]
    else:
        with pytest.raises(FootprintError, match="its worker died" if progress else "still running"):
            run_migrate._outcome(store, {"wait_timeout": 0.1}, ("done",))


@pytest.mark.parametrize("state", ["migrated", "rolled_back"])
def test_what_an_earlier_worker_waited_for_is_not_the_result_of_the_next_one(tmp_path, monkeypatch, state):
    """The module returns when a worker waits: the journal of the one before, which was killed or stopped, says that too."""
    store = JournalStore("master", tmp_path)
    store.write_job({"action": "migrate", "params": request("192.0.2.2/24")})
    store.write(Journal(name="master", state="running", started=1.0, phases=PHASES, progress={"cutover_at": AT}))
    polls = []

    def active(unit):
        # from its start until it has been asked for three times
        if len(polls) == 3:
            store.write(Journal(**{**vars(store.read()), "state": {"migrated": "done"}.get(state, state)}))
        polls.extend([unit] if polls else [])
        return 0 < len(polls) <= 4

    monkeypatch.setattr(run_migrate, "JournalStore", lambda name: store)
    monkeypatch.setattr(run_migrate, "vm_details", lambda spec: None)
    monkeypatch.setattr(run_migrate.io_units, "unit_active", active)
    monkeypatch.setattr(run_migrate.run_jobs, "start", lambda *unused, **more: polls.append("start"))
    monkeypatch.setattr(run_migrate.run_jobs, "_POLL", 0.0)
    assert run_migrate.migrate({**request("192.0.2.2/24"), "state": state}, check_mode=False)["migration"]["state"] != "running"
