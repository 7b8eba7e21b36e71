# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case of the module ``vm_move``: start, attach to, resume, confirm, take back, or only look."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError, FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_look, plan_move, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore, key_name, unit_name
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import CONFIRMED, FAILED, MOVED, RETURNED, RUNNING, MoveJournal, report
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import MoveSpec, parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_remote_source, io_units
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_moved
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainRecord
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import vm_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_moved import ARRIVING, Moved
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name

_JOB_KEYS = (
    "id",
    "cluster",
    "destination",
    "uri",
    "destination_uri",
    "method",
    "shutdown_timeout",
    "force",
    "max_downtime",
    "max_passes",
    "bandwidth_limit",
    "live_timeout",
    "start_timeout",
)
# what a later call may say otherwise than the one that began the move
_LATER = ("shutdown_timeout", "force")
_POLL = 0.5

Params = t.Mapping[str, t.Any]


def move(params: Params, *, check_mode: bool) -> dict[str, t.Any]:
    """Bring a VM's move to the state that is asked for.

    :returns: keyword arguments for ``exit_json``.
    :raises FootprintError: bad input, something in the way, or the move did not succeed.
    """
    vm_id = parse_name(params.get("id"), "id")
    state = params["state"]
    if state == "looked":
        return _looked(params, vm_id)
    store = MoveStore(vm_id)
    if state == "prepared":
        return _prepared(store, check_mode)
    if state == MOVED:
        return _moved(params, store, check_mode)
    return _later(params, store, check_mode)


def _looked(params: Params, vm_id: str) -> dict[str, t.Any]:
    """The VM of this host, or this host as the one a VM goes to."""
    given = params.get("vm_facts")
    if given:
        uri = params.get("destination_uri") or params.get("uri") or given["uri"]
        return {"changed": False, "destination_facts": io_look.look(given, uri)}
    found = _find(params, vm_id)
    return {"changed": False, "vm_facts": io_look.describe(found[0], found[1].uuid) if found else None}


def _prepared(store: MoveStore, check_mode: bool) -> dict[str, t.Any]:
    name = key_name(store.name)
    exists = (store.directory / "id_ed25519").exists()
    public = None if check_mode and not exists else io_remote_source.ensure_key(store.directory, name)
    return {"changed": not exists, "public_key": public, "key_marker": io_remote_source.key_marker(name)}


def _find(params: Params, vm_id: str) -> tuple[str, DomainRecord] | None:
    cluster = params.get("cluster") or "default"
    return io_look.find(cluster, vm_id, vm_uuid(cluster, vm_id), params.get("uri"))


def _moved(params: Params, store: MoveStore, check_mode: bool) -> dict[str, t.Any]:
    spec = parse_spec(params)
    journal = store.journal()
    active = io_units.unit_active(unit_name(spec.id))
    if active and not check_mode:
        return _outcome(store, params, MOVED)
    found = _find(params, spec.id)
    uuid = found[1].uuid if found else journal.facts.get("vm", {}).get("uuid") or vm_uuid(spec.cluster, spec.id)
    note = io_moved.read(uuid)
    begun = journal.state in (RUNNING, FAILED) and journal.started is not None
    _refuse(spec, journal, note, begun)
    if note is not None and journal.state in (MOVED, CONFIRMED):
        return _unchanged(store, journal, check_mode)
    if found is None and not (begun and note is not None):
        raise InputError(f"there is no VM {spec.id!r} of the cluster {spec.cluster!r} on this host.", "id", "Run this on the host that has it.")
    if check_mode:
        return _rehearse(params, spec, journal, begun and note is not None)
    if not spec.destination.host_keys:
        raise InputError("are missing.", "destination.host_keys", "Give that host's public host keys; they are never trusted blindly.")
    _start(store, MOVED, {**{key: params.get(key) for key in _JOB_KEYS}, "anew": note is None})
    return _outcome(store, params, MOVED)


def _refuse(spec: MoveSpec, journal: MoveJournal, note: Moved | None, begun: bool) -> None:
    """What another move of the VM forbids."""
    if begun and journal.going in (CONFIRMED, RETURNED):
        raise RefusedError(f"the move of {spec.id} was being {journal.going}.", "state", f"Finish that first, with state: {journal.going}.")
    if note is None:
        return
    if note.state == ARRIVING:
        raise RefusedError(f"the VM {spec.id} is on its way to this host.", "id", "Finish that move first, on the host it comes from.")
    if note.to != spec.destination.name:
        raise RefusedError(
            f"the VM {spec.id} is {note.state} to {note.to}, not to {spec.destination.name}.",
            "destination.name",
            f"Finish that move first, or move the VM on from {note.to}.",
        )


def _rehearse(params: Params, spec: MoveSpec, journal: MoveJournal, begun: bool) -> dict[str, t.Any]:
    """What would be done: everything preflight sees; nothing is touched."""
    there = params.get("destination_facts")
    found = _find(params, spec.id)
    if begun or found is None:
        return {**_result(True, journal), "warnings": [f"The move of {spec.id} was cut short; it would go on."]}
    vm = io_look.describe(found[0], found[1].uuid)
    if not there:
        return {**_result(True, journal), "warnings": [f"{spec.destination.name} was not looked at; give destination_facts to have everything checked."]}
    problems = plan_move.find_problems(spec, vm, there)
    # in check mode nobody installed anything yet, so what a package brings is no reason to stop
    warnings = [f"{each.message} {each.hint}" for each in problems if each.path == plan_move.TOOLS_PATH]
    problems = [each for each in problems if each.path != plan_move.TOOLS_PATH]
    if problems:
        raise RefusedError(plan_move.problem_text(problems))
    reasons = plan_move.live_blockers(vm, there)
    rehearsed = MoveJournal(name=spec.id, state="new", method=plan_move.choose(spec.method, reasons), live_blockers=reasons, facts={"vm": vm})
    rehearsed.facts.update({"from": vm["host"]["name"], "to": spec.destination.name})
    result = _result(True, rehearsed)
    result["bytes"] = sum(plan_move.needed_bytes(vm, there).values())
    before, after = vm["host"]["name"], spec.destination.name
    result["diff"] = [{"before_header": vm["name"], "after_header": vm["name"], "before": f"on {before}\n", "after": f"on {after} ({rehearsed.method})\n"}]
    return {**result, "warnings": warnings}


def _later(params: Params, store: MoveStore, check_mode: bool) -> dict[str, t.Any]:
    """``confirmed`` and ``returned``: from the stored job, so that the id is enough."""
    state = params["state"]
    journal, job = store.journal(), store.read_job()
    active = io_units.unit_active(unit_name(store.name))
    if job is None or (journal.state == FAILED and not journal.switched and journal.going == MOVED):
        if state == RETURNED:
            return _unchanged(store, journal, check_mode or active)
        raise RefusedError(f"the VM {store.name} was not moved from this host.", "id", "Run this on the host it was moved from.")
    if journal.state == state and not active:
        return _unchanged(store, journal, check_mode)
    if journal.state in (CONFIRMED, RETURNED):
        raise RefusedError(f"the move of {store.name} is {journal.state} already.", "state", "Move the VM from where it is now.")
    if journal.state in (RUNNING, FAILED) and journal.going not in (MOVED, state):
        raise RefusedError(f"the move of {store.name} was being {journal.going}.", "state", f"Finish that first, with state: {journal.going}.")
    if state == CONFIRMED and journal.state != MOVED and journal.going != CONFIRMED:
        raise RefusedError(f"the move of {store.name} is {journal.state}, not moved.", "state", "Finish it first, with state: moved.")
    if state == RETURNED and params.get("destination_lost") and not params.get("discard_changes"):
        raise InputError("what the VM wrote there cannot be brought back from a lost host.", "destination_lost", "Add discard_changes: true to do without it.")
    if check_mode:
        return _result(True, journal)
    if active and job["action"] != state:
        # whoever wants the VM back does not wait for what is under way
        run(["systemctl", "stop", unit_name(store.name)], timeout=120)
        active = False
    if not active:
        wanted = {**job["params"], **{key: params[key] for key in _LATER if params.get(key) is not None}}
        wanted.update({key: params.get(key) for key in ("discard_changes", "destination_lost")})
        _start(store, state, wanted)
    return _outcome(store, params, state)


def _start(store: MoveStore, action: str, params: Params) -> None:
    with store.locked():
        store.write_job({"action": action, "params": dict(params)})
    unit = unit_name(store.name)
    log = store.directory / "output"
    try:
        io_units.start_unit(store.name, io_units.keep_code(), run_worker.MODULE, [store.name], log, unit=unit, description="Move of the VM", at_boot=True)
    except CommandError:
        # two callers at once: the other one's unit does the work
        if not io_units.unit_active(unit):
            raise


def _outcome(store: MoveStore, params: Params, good: str) -> dict[str, t.Any]:
    """Wait for the unit's end, if that is wanted, and say how it ended."""
    unit = unit_name(store.name)
    until = time.monotonic() + float(params.get("wait_timeout") or 7200)
    while params.get("wait", True) and io_units.unit_active(unit):
        if time.monotonic() > until:
            raise FootprintError(f"The move of {store.name} still runs.", hint="It goes on by itself; run this again to wait on.")
        time.sleep(_POLL)
    journal = store.journal()
    if params.get("wait", True) and journal.state != good:
        raise MoveFailed(journal, store.tail(5))
    return _result(True, journal)


def _unchanged(store: MoveStore, journal: MoveJournal, keep_key: bool) -> dict[str, t.Any]:
    """Nothing is to be done, so the key that was made for it is not needed."""
    if not keep_key:
        io_remote_source.drop_key_files(store.directory)
    return _result(False, journal)


def _result(changed: bool, journal: MoveJournal) -> dict[str, t.Any]:
    told = report(journal)
    return {"changed": changed, "method": journal.method, "downtime_seconds": told["downtime_seconds"], "bytes": told["bytes"], "move": told}


class MoveFailed(FootprintError):
    """The move ended otherwise than wished; the result tells all about it."""

    def __init__(self, journal: MoveJournal, log: t.Sequence[str]) -> None:
        where = "the VM is at the destination" if journal.switched else "the VM is here as before"
        why = journal.reason or f"its worker died; {(list(log) or ['no log'])[-1]}"
        super().__init__(f"The move of {journal.name} did not succeed ({where}): {why}", hint="Correct that and run again; it goes on where it can.")
        self.journal = journal

    def as_result(self) -> dict[str, t.Any]:
        """The error with the move's report."""
        return {**super().as_result(), "method": self.journal.method, "move": report(self.journal)}
