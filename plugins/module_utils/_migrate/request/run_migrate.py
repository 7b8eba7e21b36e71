# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case of the module ``master_migrate``: start, attach to, resume, roll back or retire a migration, or check it only."""

from __future__ import annotations

import json
import pathlib
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import REQUEST
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups import fixups_diff, plan_fixups
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.run_copy import destination
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_guard, run_return, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import layout_of, vm_details
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_hooks import Hook, parse_hooks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import STOP_AFTER, MigrationSpec, parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_text import MigrationFailed, still_running, summary
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request import plan_preflight
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.run_look import described
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import AGAIN
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_units import holds_everything
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_remote_source, io_units, model_one_time_key, model_problem, run_jobs
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PHASES, Journal, waits_until
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ARRIVING, MOVING

# a run reads and decides which hooks are valid, and stores that, as one step
_LOCK = "migration-start"
_LOCK_TIMEOUT = 60.0
# seconds until the end of a window; a day less than the key is valid
_FURTHEST = model_one_time_key.LIMIT - 86400.0
# seconds in which a run that was prepared starts
_STARTING = 120.0


def migrate(params: t.Mapping[str, t.Any], *, check_mode: bool) -> dict[str, t.Any]:
    """Bring a migration to the requested state.

    :arg params: of the module.
    :returns: keyword arguments for ``exit_json``.
    :raises FootprintError: invalid input, a problem found by preflight, or a failed migration.
    """
    state = params["state"]
    if state == "prepared":
        return _prepared(params, check_mode)
    if state == "migrated":
        return _migrated(params, check_mode)
    return _backward(params, check_mode)


def _name(params: t.Mapping[str, t.Any]) -> str:
    vm = params.get("vm") or {}
    name = params.get("name") or vm.get("name") or vm.get("id")
    if name is None:
        raise InputError("is required.", "name", "Set the name of the migration, or the VM details.")
    return parse_name(name, "name")


def _prepared(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Create the one-time key, and return the hooks on the source that it may run: those of the job that uses it."""
    store = JournalStore(_name(params))
    if not check_mode:
        run_jobs.await_ending(store, io_units.unit_name(store.name))
    wanted = params.get("hooks") or []
    hooks = parse_hooks(wanted)
    with host_lock(_LOCK, _LOCK_TIMEOUT):
        job = store.read_job()
        if job and (_refuse_other_hooks(store.name, job["params"], hooks) or _in_pause(store.read())):
            hooks = parse_hooks(job["params"].get("hooks") or [])
        else:
            if hooks:
                _refuse_starting(store, hooks)
            hooks = hooks or _starting(store)
            if wanted and not check_mode:
                store.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_atomic(_starting_file(store), json.dumps(REQUEST.mark({"hooks": wanted})) + "\n")
    commands = [list(hook.command) for hook in hooks if hook.on == "source"]
    return {**run_jobs.prepare_key(store.directory, store.name, check_mode=check_mode), "commands": commands}


def _refuse_other_hooks(name: str, running: t.Mapping[str, t.Any], hooks: t.Sequence[Hook]) -> bool:
    """Return whether a worker runs; its key can run its own hooks on the source only.

    :arg running: the request of the worker.
    :arg hooks: those of another request, which is to wait for the worker; empty for any.
    """
    active = io_units.unit_active(io_units.unit_name(name))
    if active and hooks and tuple(hooks) != parse_hooks(running.get("hooks") or []):
        hint = "Wait until it ends, for example by a run with its hooks or without any, or roll it back; then run again."
        raise RefusedError(f"the migration {name} is running with other hooks.", "hooks", hint)
    return active


def _starting_file(store: JournalStore) -> pathlib.Path:
    return store.directory / "starting.json"


def _starting(store: JournalStore) -> tuple[Hook, ...]:
    """Return the hooks of a run that was prepared within the last minutes and is about to start; empty if there is none, or it has none."""
    path, job = _starting_file(store), store.directory / "job.json"
    text = read_text(path)
    # with its job, it has started
    if not text or abs(time.time() - path.stat().st_mtime) > _STARTING or job.exists() and job.stat().st_mtime_ns >= path.stat().st_mtime_ns:
        return ()
    return parse_hooks(REQUEST.load(text, path)["hooks"])


def _refuse_starting(store: JournalStore, hooks: t.Sequence[Hook]) -> None:
    """Refuse to replace the hooks of a run that is about to start, whose key may be on the source already."""
    starting = _starting(store)
    if starting and tuple(hooks) != starting:
        hint = f"Wait until it ends, or {_STARTING:.0f} s if it was interrupted; then run again."
        raise RefusedError(f"another run that starts the migration {store.name} has other hooks.", "hooks", hint)


def _migrated(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    facts = params.get("source_facts") or None
    store = JournalStore(_name(params))
    journal, job = store.read(), store.read_job()
    if journal and job:
        _refuse_other_master(store.name, job["params"], _with_facts(params, facts))
    given = dict(job["params"]) if job and _in_pause(journal) else _with_facts(params, facts)
    spec = parse_spec(given)
    if journal and journal.state in ("done", "retired"):
        return {"changed": False, "migration": described(journal), "summary": summary(described(journal))}
    if job:
        _refuse_other_hooks(store.name, job["params"], spec.hooks)
    _refuse_data_loss(store.name, journal, params)
    if journal:
        _refuse_moved(journal)
    if check_mode:
        _refuse_time(spec, journal)
        same = job and not _is_replaced(journal, job, spec)
        return (_waiting(store) if same else None) or _rehearse(spec, facts, journal)
    if not spec.source.host_keys:
        raise InputError("are required.", "source.host_keys", "Set the source's public host keys, or pass source_facts; unknown host keys are not trusted.")
    vm = vm_details(spec)
    own = plan_preflight.own_vm(vm, facts) if facts and not _in_pause(journal) else None
    if own:
        # before anything is stored under this name here
        raise RefusedError(own.message, own.path, own.hint)
    with host_lock(_LOCK, _LOCK_TIMEOUT):
        started = _ensure_started(store, given, spec)
    return (None if started else _waiting(store)) or _outcome(store, params, ("done", "stopped"))


def _ensure_started(store: JournalStore, given: t.Mapping[str, t.Any], spec: MigrationSpec) -> bool:
    """Start the worker, unless another run has started it meanwhile; returns whether it was started.

    :raises RefusedError: with other hooks.
    """
    journal, job, unit = store.read(), store.read_job(), io_units.unit_name(spec.name)
    active = io_units.unit_active(unit)
    if active and job:
        _refuse_other_hooks(store.name, job["params"], spec.hooks)
        if _is_replaced(journal, job, spec):
            _refuse_time(spec, journal)
            # nothing is lost before the pause
            run(["systemctl", "stop", unit], timeout=120)
            active, journal = False, store.read()
            # one that had just begun the pause ends it with its own request
            given = job["params"] if _in_pause(journal) else {**given, "hooks": given.get("hooks") or job["params"].get("hooks")}
    if not active:
        _refuse_time(spec, journal)
        if not _in_pause(journal):
            _refuse_starting(store, spec.hooks)
        if journal and journal.facts.pop(run_return.VM_DATA, None):
            store.write(journal)
        _refresh(store, journal, given)
        _start(store, run_worker.MIGRATE, {key: given.get(key) for key in spec._fields})
    return not active


def _is_replaced(journal: Journal | None, job: t.Mapping[str, t.Any], spec: MigrationSpec) -> bool:
    """Return whether a worker before its pause has another request than this one with a time. One without a time, or hooks, is content with the worker's."""
    if spec.cutover_at is None or job["action"] != run_worker.MIGRATE or _in_pause(journal):
        return False
    before = parse_spec(job["params"])
    return before != spec._replace(hooks=spec.hooks or before.hooks)


def _waiting(store: JournalStore) -> dict[str, t.Any] | None:
    """The result of a run that changes nothing, because a worker waits for its time; else ``None``."""
    journal = store.read()
    if journal is None or not waits_until(vars(journal)) or not io_units.unit_active(io_units.unit_name(store.name)):
        return None
    return {"changed": False, "migration": described(journal), "summary": summary(described(journal))}


def _refuse_time(spec: MigrationSpec, journal: Journal | None) -> None:
    """Refuse a time of the pause that has passed, or for which the one-time key would have expired."""
    if spec.cutover_at is None or _in_pause(journal):
        return
    ends = spec.cutover_at + spec.cutover_window - time.time()
    if ends < 0:
        raise InputError(f"{utc(spec.cutover_at)} has passed.", "cutover_at", "Set a later time, or none to begin as soon as the copy is ready.")
    if ends > _FURTHEST:
        what = f"{utc(spec.cutover_at)} and cutover_window are too far ahead: the one-time key of a migration is valid for two weeks."
        raise InputError(what, "cutover_at", f"Set a time within {_FURTHEST // 86400:.0f} days.")


def _refuse_other_master(name: str, before: t.Mapping[str, t.Any], given: t.Mapping[str, t.Any]) -> None:
    """Refuse the migration of a second machine under a name that has a migration already: it would be reported as done, or written over the first."""
    was, now = (str((each.get("admin") or {}).get("address") or "").partition("/")[0] for each in (before, given))
    if was and now and was != now and not _same_machine(before, given, unknown=False):
        raise RefusedError(
            f"the migration {name} is that of the machine with the address {was}, not {now}.",
            "name",
            f"Set another name for another machine, or admin.address: {was} for the same one.",
        )


def _refuse_data_loss(name: str, journal: Journal | None, params: t.Mapping[str, t.Any]) -> None:
    """Refuse to copy over the disk of a VM that served clients before it was rolled back, unless that is requested."""
    disk = journal.facts.get(run_return.VM_DATA) if journal else None
    if disk and not params.get("discard_vm_data"):
        raise RefusedError(
            f"{name} served from its VM and was rolled back: what was written to it meanwhile exists on {disk} only, and the migration would copy over it.",
            "discard_vm_data",
            "Save what you need from that disk, then set discard_vm_data: true (in the role: master_migrate_discard_vm_data).",
        )


def _same_machine(before: t.Mapping[str, t.Any], given: t.Mapping[str, t.Any], *, unknown: bool) -> bool:
    """Whether the sources of two requests have the same machine ID; ``unknown`` if one of them is not known."""
    was, now = ((each.get("source") or {}).get("machine_id") for each in (before, given))
    return was == now if was and now else unknown


def _in_pause(journal: Journal | None) -> bool:
    """Whether a run was interrupted while the services were stopped: it is finished or rolled back with the request it was started with."""
    return journal is not None and journal.state in ("running", "failed") and any(phase in journal.phases for phase in PHASES[len(STOP_AFTER) :])


def _with_facts(params: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    """The parameters, completed from the source's facts."""
    given = dict(params)
    source = {key: value for key, value in (params.get("source") or {}).items() if value not in (None, [])}
    if facts:
        source.setdefault("host_keys", facts.get("host_keys"))
        source.setdefault("machine_id", facts.get("machine_id"))
        if facts.get("firmware") == "uefi" and isinstance(given.get("vm"), t.Mapping):
            given["vm"] = {"boot_firmware": "efi", **given["vm"]}
    given["source"] = source
    return given


def _refresh(store: JournalStore, journal: Journal | None, given: t.Mapping[str, t.Any]) -> None:
    """Forget the phases from ``define`` on if the VM, its disks or the source have changed, because the old copy is useless then."""
    job = store.read_job()
    if journal is None or job is None:
        return
    if _in_pause(journal):
        return
    before = job["params"]
    changed = any(before.get(key) != given.get(key) for key in ("vm", "disk_schema", "sync", "template", "pool", "uri", "cluster"))
    if changed or not _same_machine(before, given, unknown=True):
        journal.forget_from("define")
        store.write(journal)


def _rehearse(spec: MigrationSpec, facts: t.Mapping[str, t.Any] | None, journal: Journal | None) -> dict[str, t.Any]:
    """Check mode: run preflight, and return the plan and the fix-ups as a diff."""
    vm = vm_details(spec)
    layout = layout_of(spec, vm, facts)
    warnings = plan_preflight.find_warnings(facts, spec, vm, (facts or {}).get("tree"))
    try:
        host = destination(spec, vm, facts)
    except BackendError as error:
        host = None
        warnings.append(f"The destination was not checked: {error}")
    problems, lacking = model_problem.without_tools(plan_preflight.find_problems(spec, vm, layout, facts, host))
    warnings += lacking
    if problems:
        raise FootprintError(model_problem.as_text(problems))
    result: dict[str, t.Any] = {"changed": True, "migration": described(journal or Journal(name=spec.name))}
    if facts is None:
        warnings.append("The source was not checked; pass source_facts to check it and to see the fix-ups.")
    else:
        tree = dict(facts.get("tree", {}))
        changes = plan_fixups(tree, plan_preflight.fixup_context(spec, vm, layout, facts, io_remote_source.key_marker(spec.name)))
        result["diff"] = [{"prepared": fixups_diff(tree, changes)}]
        result["plan"] = {
            "phases": list(PHASES),
            "bytes": sum(each.used for each in plan_preflight.filesystems_of(facts, spec.excludes)) + sum(raw.size for _partition, raw in layout.raws),
            "services": facts.get("everything", []) if holds_everything(spec.services, spec.quiesce) else list(spec.services),
            "fixups": sorted(changes),
            "partitions": [
                {"disk": each.disk, "mount": each.mount, "fs": each.fs, "size_bytes": each.size, "uuid": each.uuid, "raw": each.raw.path if each.raw else None}
                for each in layout.partitions
            ],
        }
    if warnings:
        result["warnings"] = warnings
    return result


def _start(store: JournalStore, action: str, params: t.Mapping[str, t.Any]) -> None:
    journal = store.read()
    if journal and journal.progress:
        # that of the worker before it, which may have waited for its time
        journal.progress = {}
        store.write(journal)
    run_jobs.start(store, action, params, run_worker.MODULE, io_units.unit_name(store.name), restarts=None, more=_unit_properties(store.name))


def _unit_properties(name: str) -> list[str]:
    """Unit properties: systemd restarts a worker that ends with ``AGAIN`` without limit, and stops the VM when the worker has ended for good.

    When memory runs out, the kernel ends the worker, and the programs of the copy, before other VMs: the source decides how much they need.
    """
    return [f"RestartForceExitStatus={AGAIN}", f"ExecStopPost={sys.executable} -m {run_guard.MODULE} {name} ended", "OOMScoreAdjust=1000"]


def _backward(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """``rolled_back`` and ``retired``: with the parameters of the stored job, so that only the name is required."""
    name = _name(params)
    state = params["state"]
    store = JournalStore(name)
    journal, job = store.read(), store.read_job()
    if journal is None or job is None:
        if state == "rolled_back":
            return {"changed": False, "migration": None}
        raise RefusedError(f"Migration {name} not found on this host.", "name", "Run this on the host that runs the master's VM.")
    if journal.state == state:
        return {"changed": False, "migration": described(journal)}
    if journal.state == "retired":
        raise RefusedError(f"The source of {name} is retired; a rollback is not possible.", "state", "Restore the master from a backup instead.")
    if state == "retired" and journal.state != "done":
        raise RefusedError(f"The migration {name} is {journal.state}, expected done.", "state", "Finish the migration first.")
    if state == "rolled_back":
        _refuse_moved(journal)
    if check_mode:
        return {"changed": True, "migration": described(journal)}
    unit = io_units.unit_name(name)
    if io_units.unit_active(unit):
        # a rollback does not wait for the current phase
        run(["systemctl", "stop", unit], timeout=120)
    wanted = dict(job["params"])
    _start(store, run_worker.ROLL_BACK if state == "rolled_back" else run_worker.RETIRE, wanted)
    return _outcome(store, params, (state,))


def _refuse_moved(journal: Journal) -> None:
    """Refuse to continue or roll back a migration whose VM is on another host.

    Its old copy here would be started as well; or the source would wait until the VM is off, for example for a restart, and then serve with the old data.
    """
    uuid = journal.facts.get("vm", {}).get("uuid")
    record = io_owner.away(uuid) if uuid else None
    if record is None:
        return
    words = {ARRIVING: "is being moved to this host", MOVING: f"is being moved to {record.where}"}
    where = words.get(str(record.state), f"was moved to {record.where}")
    hint = "Complete that move first." if record.state == ARRIVING else "Move it back to this host with move_vm first."
    raise RefusedError(f"{journal.name} {where}, so it cannot be stopped or started here.", "name", hint)


def _outcome(store: JournalStore, params: t.Mapping[str, t.Any], good: t.Container[str]) -> dict[str, t.Any]:
    """Wait for the end of the unit if requested, and return the result.

    :arg good: states of the journal that are a success.
    """
    unit = io_units.unit_name(store.name)
    if not run_jobs.ended(unit, params, lambda: bool(waits_until(vars(store.read() or Journal(name=store.name))))):
        raise still_running(store.name)
    journal = store.read() or Journal(name=store.name)
    result = {"changed": True, "migration": described(journal)}
    if params.get("wait", True):
        if journal.state not in good and not (waits_until(result["migration"]) and io_units.unit_active(unit)):
            raise MigrationFailed(result["migration"], store.tail(5))
        result["summary"] = summary(result["migration"])
    return result
