# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case of the module ``vm_move``: start, wait for, resume, confirm or return a move, or only gather facts."""

from __future__ import annotations

import contextlib
import secrets
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, RefusedError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_look, model_journal, plan_move, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore, key_name, unit_name
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_machine import Machine
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import MoveSpec, parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_remote_source, io_units, model_problem, run_jobs
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainRecord
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import vm_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ARRIVING, Record

# options that a later call may change
_LATER = ("shutdown_timeout", "force")
# options of a return without the data, or without the destination
_GIVE_UP = ("discard_changes", "destination_lost")
# a run reads whether another one moves the VM, and stores and starts its own move, as one step
_LOCK = "move-start"
_LOCK_TIMEOUT = 60.0

Params = t.Mapping[str, t.Any]


def move(params: Params, *, check_mode: bool) -> dict[str, t.Any]:
    """Bring the move of a VM to the requested state.

    :returns: keyword arguments for ``exit_json``.
    :raises FootprintError: invalid input, an obstacle, or a failed move.
    """
    vm_id = parse_name(params.get("id"), "id")
    state = params["state"]
    if state == "looked":
        return _looked(params, vm_id)
    store = MoveStore(vm_id)
    if state == "prepared":
        if not check_mode:
            run_jobs.await_ending(store, unit_name(store.name))
        return run_jobs.prepare_key(store.directory, key_name(store.name), check_mode=check_mode)
    if state == model_journal.MOVED:
        return _moved(params, store, check_mode)
    return _later(params, store, check_mode)


def _looked(params: Params, vm_id: str) -> dict[str, t.Any]:
    """Return the facts of the VM on this host, or of this host as a destination."""
    given = params.get("vm_facts")
    if given:
        uri = params.get("destination_uri") or params.get("uri") or given["uri"]
        return {"changed": False, "destination_facts": io_look.look(given, uri)}
    found = _find(params, vm_id)
    return {"changed": False, "vm_facts": io_look.describe(found[0], found[1].uuid) if found else None}


def _find(params: Params, vm_id: str) -> tuple[str, DomainRecord] | None:
    cluster = params.get("cluster") or "default"
    return io_look.find(cluster, vm_id, vm_uuid(cluster, vm_id), params.get("uri"))


def _moved(params: Params, store: MoveStore, check_mode: bool) -> dict[str, t.Any]:
    spec = parse_spec(params)
    with contextlib.nullcontext() if check_mode else host_lock(_LOCK, _LOCK_TIMEOUT):
        result = _ensure_started(params, store, spec, check_mode)
    return _outcome(store, params, model_journal.MOVED) if result is None else result


def _ensure_started(params: Params, store: MoveStore, spec: MoveSpec, check_mode: bool) -> dict[str, t.Any] | None:
    """Start the worker, unless another run has started it meanwhile, or it has nothing to do; returns the result in the latter case and in check mode."""
    journal = store.journal()
    if journal.state not in (model_journal.CONFIRMED, model_journal.RETURNED) and not _rolled_back(journal):
        _refuse_other_cluster(store, spec.cluster, "Confirm or return that move first.")
    active = io_units.unit_active(unit_name(spec.id))
    if active:
        _refuse_other_run(store, spec)
        if check_mode:
            journal.state = model_journal.RUNNING
            return {**_result(True, journal), "warnings": [f"The move of {spec.id} is running."]}
        return None
    if journal.state == model_journal.RUNNING:
        # killed or interrupted by a restart of this host, after which it begins again
        _refuse_other_destination(store, spec)
    found = _find(params, spec.id)
    uuid = found[1].uuid if found else journal.facts.get("vm", {}).get("uuid") or vm_uuid(spec.cluster, spec.id)
    record = io_owner.away(uuid)
    begun = journal.state in (model_journal.RUNNING, model_journal.FAILED) and journal.started is not None
    _refuse(spec, journal, record, begun)
    if record is not None and journal.state in (model_journal.MOVED, model_journal.CONFIRMED):
        return _unchanged(store, journal, check_mode)
    if found is None and not (begun and record is not None):
        raise InputError(f"the VM {spec.id!r} of the cluster {spec.cluster!r} does not exist on this host.", "id", "Run the move on the virt host of the VM.")
    if check_mode:
        return _rehearse(params, spec, journal, begun and record is not None)
    if not spec.destination.host_keys:
        raise InputError("are missing.", "destination.host_keys", "Set the public ssh host keys of the destination; unknown keys are never accepted.")
    _start(store, model_journal.MOVED, {**{key: params.get(key) for key in spec._fields}, "new_move": record is None})
    return None


def _rolled_back(journal: model_journal.MoveJournal) -> bool:
    """Whether the move failed and changed nothing; a VM whose rollback failed is off and fenced here."""
    return journal.state == model_journal.FAILED and not journal.switched and not journal.facts.get("held")


def _refuse_other_cluster(store: MoveStore, cluster: str, hint: str) -> None:
    """Refuse a call for the VM of one cluster while the stored job is that of another: both may use the same ID, and moves are stored by ID."""
    job = store.read_job()
    owner = str(job["params"].get("cluster") or "default") if job is not None else cluster
    if owner != cluster:
        raise RefusedError(f"the stored move of {store.name} is that of the VM of the cluster {owner}, not {cluster}.", "cluster", hint)


def _refuse_other_run(store: MoveStore, spec: MoveSpec) -> None:
    """Refuse to wait for the running worker as if it did what is requested."""
    job = store.read_job()
    if job is None:
        return
    if job["action"] != model_journal.MOVED:
        raise RefusedError(f"the run with state: {job['action']} for {spec.id} is unfinished.", "state", f"Complete it with state: {job['action']}.")
    _refuse_other_destination(store, spec)


def _refuse_other_destination(store: MoveStore, spec: MoveSpec) -> None:
    """Refuse a move while the stored one has another destination, where a part of the VM may be already."""
    job = store.read_job()
    to = parse_spec(job["params"]).destination.name if job is not None and job["action"] == model_journal.MOVED else spec.destination.name
    if to != spec.destination.name:
        raise RefusedError(
            f"the VM {spec.id} is being moved to {to}, not to {spec.destination.name}.",
            "destination.name",
            f"Wait until that move has ended, then move the VM from {to}, or end it with state: returned.",
        )


def _refuse(spec: MoveSpec, journal: model_journal.MoveJournal, record: Record | None, begun: bool) -> None:
    """Refuse a conflict with another move of the VM."""
    if begun and journal.going in (model_journal.CONFIRMED, model_journal.RETURNED):
        raise RefusedError(f"the run with state: {journal.going} for {spec.id} is unfinished.", "state", f"Complete it with state: {journal.going}.")
    if record is None:
        return
    if record.state == ARRIVING:
        raise RefusedError(f"the VM {spec.id} is being moved to this host.", "id", "Complete that move first, on its source.")
    if record.where != spec.destination.name:
        raise RefusedError(
            f"the VM {spec.id} is {record.state} to {record.where}, not to {spec.destination.name}.",
            "destination.name",
            f"Complete that move first, or move the VM from {record.where}.",
        )


def _rehearse(params: Params, spec: MoveSpec, journal: model_journal.MoveJournal, begun: bool) -> dict[str, t.Any]:
    """Check mode: run the checks of the preflight without changes."""
    there = params.get("destination_facts")
    found = _find(params, spec.id)
    if begun or found is None:
        return {**_result(True, journal), "warnings": [f"The move of {spec.id} was interrupted and would be resumed."]}
    vm = io_look.describe(found[0], found[1].uuid)
    if not there:
        return {**_result(True, journal), "warnings": [f"{spec.destination.name} was not checked; set destination_facts to check it."]}
    problems, warnings = model_problem.without_tools(plan_move.find_problems(spec, vm, there))
    if problems:
        raise RefusedError(model_problem.as_text(problems))
    reasons = plan_move.live_blockers(vm, there)
    rehearsed = model_journal.MoveJournal(name=spec.id, state="new", method=plan_move.choose(spec.method, reasons), live_blockers=reasons, facts={"vm": vm})
    rehearsed.facts.update({"from": vm["host"]["name"], "to": spec.destination.name})
    result = _result(True, rehearsed)
    result["bytes"] = sum(plan_move.needed_bytes(vm, there).values())
    before, after = vm["host"]["name"], spec.destination.name
    result["diff"] = [{"before_header": vm["name"], "after_header": vm["name"], "before": f"on {before}\n", "after": f"on {after} ({rehearsed.method})\n"}]
    return {**result, "warnings": warnings}


def _later(params: Params, store: MoveStore, check_mode: bool) -> dict[str, t.Any]:
    """Handle ``confirmed`` and ``returned``: all options but the id come from the stored job."""
    state = params["state"]
    journal, job = store.journal(), store.read_job()
    if params.get("cluster"):
        _refuse_other_cluster(store, params["cluster"], "Run this on the source of the move, with the cluster of the VM.")
    active = io_units.unit_active(unit_name(store.name))
    if job is None or (_rolled_back(journal) and journal.going == model_journal.MOVED):
        if state == model_journal.RETURNED:
            return _unchanged(store, journal, check_mode or active)
        raise RefusedError(f"the VM {store.name} was not moved from this host.", "id", "Run this on the source of the move.")
    if journal.state == state and not active:
        return _unchanged(store, journal, check_mode)
    if journal.state in (model_journal.CONFIRMED, model_journal.RETURNED):
        raise RefusedError(f"the move of {store.name} is already {journal.state}.", "state", "Start a new move from the current host of the VM.")
    if journal.state in (model_journal.RUNNING, model_journal.FAILED) and journal.going not in (model_journal.MOVED, state):
        raise RefusedError(f"the run with state: {journal.going} for {store.name} is unfinished.", "state", f"Complete it with state: {journal.going}.")
    if state == model_journal.CONFIRMED and journal.state != model_journal.MOVED and journal.going != model_journal.CONFIRMED:
        raise RefusedError(f"the move of {store.name} is {journal.state}, not moved.", "state", "Complete it first, with state: moved.")
    if state == model_journal.RETURNED and params.get("destination_lost") and not params.get("discard_changes"):
        raise InputError("data written at the destination cannot be copied from a lost host.", "destination_lost", "Set discard_changes: true to discard it.")
    _refuse_unproven(params, parse_spec(job["params"]).destination)
    _refuse_mixed(store, journal, params)
    io_look.check_mounted(journal.facts.get("vm", {}))
    if check_mode:
        return _result(True, journal)
    if active and (job["action"] != state or any(params.get(key) and not job["params"].get(key) for key in _GIVE_UP)):
        # a return does not wait for the running action, nor for a return with the data that is now requested without it
        run(["systemctl", "stop", unit_name(store.name)], timeout=120)
        active = False
        # the worker may have begun to replace the old disks meanwhile
        _refuse_mixed(store, store.journal(), params)
    if not active:
        wanted = {**job["params"], **{key: params[key] for key in _LATER if params.get(key) is not None}}
        wanted.update({key: params.get(key) for key in _GIVE_UP})
        _start(store, state, wanted)
    return _outcome(store, params, state)


def _refuse_unproven(params: Params, destination: Machine) -> None:
    """Refuse to give up a destination that was not named, or that answers: the VM would run twice."""
    named = params.get("destination_lost")
    if not named:
        return
    if named != destination.name:
        hint = f"If {destination.name} never runs the VM again, set destination_lost: {destination.name}."
        raise InputError(f"{shown(named)} is not the destination of this move, {destination.name}.", "destination_lost", hint)
    if set(io_remote_source.scan_host_keys(destination.host, destination.port, destination.host_keys)) & set(destination.host_keys):
        hint = "Omit destination_lost. To give up only what the VM wrote there, set discard_changes: true."
        raise RefusedError(f"{named} is not lost: it answers at {destination.host}.", "destination_lost", hint)


def _refuse_mixed(store: MoveStore, journal: model_journal.MoveJournal, params: Params) -> None:
    """Refuse to start the VM from its old disks here, if a part of them was replaced."""
    if params["state"] == model_journal.RETURNED and params.get("discard_changes") and journal.facts.get("mixed"):
        raise RefusedError(
            "an interrupted return has already replaced a part of the old disks here by those of the destination.",
            "discard_changes",
            f"Complete the return without it. If the destination is lost, restore the disks from a backup, then remove {store.directory} and "
            f"{io_owner.HOME / journal.facts['vm']['uuid']}.json.",
        )


def _start(store: MoveStore, action: str, params: Params) -> None:
    # the token distinguishes this job from earlier ones, also when its worker is started again
    run_jobs.start(store, action, {**params, "token": secrets.token_hex(8)}, run_worker.MODULE, unit_name(store.name), description="Move of the VM")


def _outcome(store: MoveStore, params: Params, good: str) -> dict[str, t.Any]:
    """Wait for the end of the unit, unless ``wait`` is off, and return the result."""
    if not run_jobs.ended(unit_name(store.name), params):
        why = model_journal.waiting(store.journal())
        message = f"the move of {store.name} is still running{f': {why}' if why else '.'}"
        raise FootprintError(message, hint="Run this again to wait for it; it continues in the background.")
    journal = store.journal()
    if params.get("wait", True) and journal.state != good:
        raise MoveFailed(journal, store.tail(5))
    if io_units.unit_active(unit_name(store.name)):
        # a worker that was just started has not written its journal yet
        journal.state = model_journal.RUNNING
    return _result(True, journal)


def unfinished(params: Params) -> dict[str, t.Any]:
    """Return the report of the move if its worker runs, for the result of a call that failed: a play must not remove its one-time key."""
    try:
        store = MoveStore(parse_name(params.get("id"), "id"))
        if not io_units.unit_active(unit_name(store.name)):
            return {}
        journal, job = store.journal(), store.read_job()
        if job is not None:
            # which a worker that was just started has not written; a refused call may be about another one
            journal.facts["to"] = parse_spec(job["params"]).destination.name
    except FootprintError:
        return {}
    journal.state = model_journal.RUNNING
    return {"move": model_journal.report(journal)}


def _unchanged(store: MoveStore, journal: model_journal.MoveJournal, keep_key: bool) -> dict[str, t.Any]:
    """Return without a change; the one-time key is not needed and removed."""
    if not keep_key:
        io_remote_source.drop_key_files(store.directory)
    return _result(False, journal)


def _result(changed: bool, journal: model_journal.MoveJournal) -> dict[str, t.Any]:
    values = model_journal.report(journal)
    return {"changed": changed, "method": journal.method, "downtime_seconds": values["downtime_seconds"], "bytes": values["bytes"], "move": values}


class MoveFailed(FootprintError):
    """The move failed; the result contains its report."""

    def __init__(self, journal: model_journal.MoveJournal, log: t.Sequence[str]) -> None:
        where = "the VM is on the destination" if journal.switched else "the VM is on the source, unchanged"
        why = journal.reason or f"its worker was killed; last log line: {(list(log) or ['none'])[-1]}"
        super().__init__(f"the move of {journal.name} failed ({where}): {why}", hint="Fix the problem and run again to resume the move.")
        self.journal = journal

    def as_result(self) -> dict[str, t.Any]:
        """The error with the move's report."""
        return {**super().as_result(), "method": self.journal.method, "move": model_journal.report(self.journal)}
