# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use cases of the module ``vm_standby``: copies of a VM on another server, its start there, and the end of both."""

from __future__ import annotations

import pathlib
import platform
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import rename
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import parse_rate
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_look
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_authorized_keys, io_remote_source, io_units, run_jobs
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import key_marker, standby_key
from ansible_collections.reduced.footprint.plugins.module_utils._standby import (
    io_copies,
    io_store,
    io_timers,
    plan_standby,
    run_agent,
    run_automatic,
    run_guard,
    run_start,
    xml_backup,
)
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import RECEIVING, STARTED, Ended, Job, job_data, parse_job
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domain_lists
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import vm_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import Record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volume_files import remove_path
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore

if t.TYPE_CHECKING:
    # the program of the units must be part of the code that is kept on this host
    from ansible_collections.reduced.footprint.plugins.module_utils._standby import run_worker

    _CODE = run_worker

_LOCK = 300.0


def apply(params: t.Mapping[str, t.Any], *, check_mode: bool) -> dict[str, t.Any]:
    """Bring the copies of a VM, or its start from one, to a state; returns keyword arguments for ``exit_json``."""
    params = {**params, "id": parse_name(params.get("id"), "id"), "cluster": parse_name(params.get("cluster"), "cluster")}
    return _STATES[params["state"]](params, check_mode)


def _prepared(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Create the key of the copies, if there is none."""
    store = io_store.StandbyStore(params["id"])
    _refuse_another(store.job(), params)
    return run_jobs.prepare_key(store.directory, standby_key(params["cluster"], params["id"]), check_mode=check_mode)


def _present(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Copy the disks of a VM of this server from now on."""
    store = io_store.StandbyStore(params["id"])
    found = io_look.find(params["cluster"], params["id"], vm_uuid(params["cluster"], params["id"]), params.get("uri"))
    if found is None:
        if check_mode:
            return {"changed": True, "diff": _diff("", f"{params['id']}: copied to its standby\n")}
        raise BackendError(f"the VM {params['id']} does not exist on this server.", hint="Define it first, with vm_define.")
    uri, record = found
    before = store.job()
    away = io_owner.away(record.uuid)
    if away is not None and away.is_taken and before is not None:
        raise RefusedError(f"{params['id']} was started on its standby {away.to}.", "id", "Move it back with move_vm.")
    if away is not None:
        # the inventory still lists it here; its old disks must not become the newest copy
        return {"changed": False, "warnings": [f"{params['id']} was moved to another server, or is being moved; it is not copied from this one."]}
    if io_copies.CopyStore(params["cluster"], params["id"]).record().get("phase"):
        raise RefusedError(
            f"{params['id']} was started on this server from its copy, and its first server may return.",
            "id",
            "Move it back with move_vm. If that server never returns, make this one its server first, with start_standby_keep.",
        )
    _refuse_unfit(uri, record.uuid)
    limit = parse_rate(params.get("bandwidth_limit"), "bandwidth_limit")
    known = {"interval": params.get("interval_seconds"), "source": params.get("source") or platform.node(), "bandwidth_limit": limit}
    job = parse_job({**params, **known, "name": record.name, "uuid": record.uuid, "uri": uri})
    job = job._replace(former=plan_standby.former(before, job, params.get("removed_standbys") or ()))
    _refuse_another(before, params)
    if check_mode:
        timers = store.directory.exists() and bool(io_timers.differing(job.id, job.interval, io_units.code_path())) or run_automatic.differs(job)
        guarded = (job.automatic or io_owner.is_guarded(job.uuid)) and not run_guard.install_hook(check_mode=True)
        changed = before != job or timers or not guarded
        return {"changed": changed, "diff": _diff("", _text(job) if changed else "")}
    if not (store.directory / "id_ed25519").exists():
        raise RefusedError("the key of the copies does not exist.", "state", "Use state: prepared first, and place the key on the standby.")
    standby = io_store.StandbyHost(run_agent.MODULE, job, job.standby, store, io_units.keep_code())
    answer = standby.ask("look")
    if answer["record"].get("state") == STARTED:
        raise RefusedError(f"{job.id} was started on its standby {job.standby.name}.", "id", "Move it back with move_vm.")
    if answer["record"].get("starting"):
        raise RefusedError(f"{job.id} is being started on its standby {job.standby.name}.", "id", "Wait until that ends.")
    if before is not None and (before.standby, before.witnesses) != (job.standby, job.witnesses):
        # the machines of the last request may know of a start that those of this one do not
        run_guard.refuse_unconfirmed(before, store)
    noted = answer["record"].get("witnesses")
    asked = dict.fromkeys([*(noted or ()), *(each.name for each in job.witnesses)])
    if noted is None or len(asked) > len(noted):
        # those of the last request as well, until the next copy: this run may end before it changes that
        standby.ask("ask", {"witnesses": list(asked)})
    changed = before != job
    if before is not None and not job.automatic:
        changed = run_automatic.withdraw(store, before, None) or changed
    if before != job:
        store.write_job(job_data(job))
    changed = run_guard.install_hook(check_mode=False) or changed
    if not job.automatic and not (io_owner.is_guarded(job.uuid) and io_owner.is_permitted(job.uuid)):
        changed = changed or not io_owner.is_guarded(job.uuid)
        io_owner.guard(Record(job.cluster, job.id, job.uuid, job.name), permitted=True)
    store.mark_released(False)
    changed = bool(io_timers.install(job.id, job.interval, io_units.keep_code())) or changed
    changed = run_automatic.begin(job) or changed
    return {"changed": changed, "diff": _diff(_text(before) if before and changed else "", _text(job) if changed else "")}


def _refuse_unfit(uri: str, uuid: str) -> None:
    """Refuse a VM whose disks cannot be copied while it runs."""
    vm = io_look.describe(uri, uuid)
    if vm["type"] == "lxc":
        raise RefusedError(
            "containers have no standby: libvirt has no copy of a folder at one point in time.", "standby", "Remove standby from its details."
        )
    with DomainHost(uri) as host:
        document = parse(host.config_xml(uuid))
    reasons = list(vm["unfit"])
    reasons += [f"it has a passed-through device ({each})" for each in vm["passed"]]
    reasons += ["it has snapshots"] if vm["snapshots"] else []
    reasons += ["it has an emulated TPM, whose state is not copied"] if document.find("devices/tpm") is not None else []
    reasons += ["it has no disk"] if not xml_backup.disks_of(document)[0] else []
    if reasons:
        raise RefusedError(f"the VM {vm['name']} cannot have a standby: {'; '.join(reasons)}.", "standby", "Remove standby from its details, or the obstacle.")


def _absent(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """End the copies of a VM of this server; on the standby remove them."""
    store, copies = io_store.StandbyStore(params["id"]), io_copies.CopyStore(params["cluster"], params["id"])
    job = store.job()
    _refuse_running(copies)
    source = not _of_another(job, params) and (job is not None or store.directory.is_dir())
    # of a VM that was moved from here, this server may be the standby now
    keeps = source and job is not None and run_guard.was_moved(job)
    there = source or copies.directory.is_dir()
    if not check_mode and source and job is not None:
        run_automatic.withdraw(store, job, params.get("confirmed"))
    if not check_mode and source:
        io_timers.remove(params["id"])
        if job is not None:
            _forget_checkpoints(job)
            io_owner.release(job.uuid)
            _record_key(store, job, params.get("withdrawn_from") or ())
        io_remote_source.drop_key_files(store.directory)
        remove_path(store.directory)
    if not check_mode and copies.directory.is_dir() and not keeps:
        with copies.locked():
            # a start may have held the lock; without its record the first server would start the VM as well
            _refuse_running(copies)
            copies.remove()
    return {"changed": there, "diff": _diff(f"{params['id']}: copied to its standby\n" if there else "", "")}


def _record_key(store: io_store.StandbyStore, job: Job, withdrawn: t.Collection[str]) -> None:
    """Before the job is forgotten, record the machines that still accept its key."""
    public = io_remote_source.public_key(store.directory)
    if public is not None:
        io_store.write_ended(Ended(job.id, job.cluster, public, tuple(name for name in job.accepting if name not in withdrawn)))


def _withdrawn(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """On the former server of the copies: forget the machines on which their key was withdrawn."""
    lines = []
    for ended in io_store.read_ended():
        left = tuple(name for name in ended.machines if name not in (params.get("withdrawn_from") or ()))
        if (ended.id, ended.cluster) == (params["id"], params["cluster"]) and left != ended.machines:
            lines.append(f"{ended.id}: its key may be accepted by {', '.join(ended.machines)}\n")
            if not check_mode:
                io_store.write_ended(ended._replace(machines=left))
    return {"changed": bool(lines), "diff": _diff("".join(lines), "")}


def _paused(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """On the server of the VM, immediately before it is moved: make no copy until the move has ended.

    Job and key stay, so the worker continues once the VM is here and no move is running, however that ended. The guard stays as well: if this
    server loses its power during the move, the VM may be started on its standby.

    :raises RefusedError: it may be running there already.
    """
    store = io_store.StandbyStore(params["id"])
    job = store.job()
    if job is None or _of_another(job, params):
        return {"changed": False}
    if io_owner.is_guarded(job.uuid) and not io_owner.is_permitted(job.uuid):
        raise run_guard.unconfirmed(job)
    if not check_mode:
        store.pause()
        # first: its worker would make it automatic again
        io_timers.stop(job.id)
        run_automatic.pause(store, job)
        _forget_checkpoints(job)
    return {"changed": True, "diff": _diff(_text(job), f"{job.id}: not copied while it is moved\n")}


def _refuse_running(copies: io_copies.CopyStore) -> None:
    if copies.record().get("state") == STARTED:
        raise RefusedError(f"{copies.vm_id} runs on this server from its copy.", "id", "Move it back with move_vm first.")


def _of_another(job: Job | None, params: t.Mapping[str, t.Any]) -> bool:
    """Whether the copies that are sent are those of a VM with the same ID in another cluster."""
    return job is not None and job.cluster != params["cluster"]


def _refuse_another(job: Job | None, params: t.Mapping[str, t.Any]) -> None:
    if _of_another(job, params):
        message = f"the VM {params['id']} of another cluster is copied from this server, where units and keys have the ID as name."
        raise RefusedError(message, "id", "Give one of the two VMs another id, or end the copies of the other one.")


def _forget_checkpoints(job: Job) -> None:
    from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_backup

    with DomainHost(job.uri) as host:
        if host.domain(job.uuid) is not None:
            backup = io_backup.Backup(host, job.uuid, job.id)
            backup.abort([])
            backup.forget(plan_standby.surplus_checkpoints(backup.checkpoints(), None))


def _released(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """On the first server: remove the VM that was started on its standby, so that it can be moved back."""
    store = io_store.StandbyStore(params["id"])
    job = store.job()
    if job is None or _of_another(job, params) or run_guard.was_moved(job):
        return {"changed": False}
    # a witness knows of a start before it succeeds, and the disks here are the newer ones until then
    record = run_guard.records(job._replace(witnesses=()), store)[0] or {}
    if record.get("state") != STARTED:
        raise RefusedError(f"{job.standby.name} does not confirm that {job.id} was started there.", "id", "Only a VM that runs on its standby is removed here.")
    if record.get("phase") != run_start.RUNNING:
        raise RefusedError(
            f"the start of {job.id} on {job.standby.name} was interrupted before it ran there.", "id", "Complete it with start_standby, then move the VM back."
        )
    with DomainHost(job.uri) as host:
        found = host.domain(job.uuid)
        if found is not None and found.state == "running":
            raise RefusedError(f"{job.id} is running on this server.", "id", "Find out which of the two is valid, and shut the other one down.")
        if not check_mode:
            # the worker or the guard may just have learned of the start, and would note it again
            with host_lock("domains", _LOCK):
                store.mark_released(True)
            _remove_vm(host, job, params)
    if not check_mode:
        io_owner.forget(job.uuid)
        _absent(params, False)
    return {"changed": True, "diff": _diff(f"{job.id}: off, with old disks\n", "")}


def _remove_vm(host: DomainHost, job: Job, params: t.Mapping[str, t.Any]) -> None:
    record = host.domain(job.uuid)
    if record is None:
        return
    document = parse(record.config_xml)
    disks = [disk.path for disk in xml_backup.disks_of(document)[0]]
    if record.active:
        # paused by the guard of this collection
        from ansible_collections.reduced.footprint.plugins.module_utils._move import io_live

        io_live.cut(host, job.uuid)
    for path in (*disks, *xml_backup.small_files(document)):
        if params.get("keep_disks"):
            final = pathlib.Path(path)
            if final.exists():
                rename(final, final.with_name(f"{final.name}.lost-{int(time.time())}"), new=True)
        else:
            remove_path(pathlib.Path(path))
    # last: it lists the disks
    with host_lock("domains", _LOCK):
        host.undefine(job.uuid)
    VolumeStore(host).refresh()


def _claimed(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """On a witness: record that the VM is about to be started on its standby."""
    copies = io_copies.CopyStore(params["cluster"], params["id"])
    there = copies.record().get("state") == STARTED
    if not there and not check_mode:
        copies.write_record({"state": STARTED, "at": time.time(), "from": params.get("source"), "proof": dict(params.get("proof") or {})})
    return {"changed": not there}


def _returned(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """On the standby or a witness, after the VM was moved away: accept copies again."""
    copies = io_copies.CopyStore(params["cluster"], params["id"])
    record = copies.record()
    if record.get("state") != STARTED:
        return {"changed": False}
    uuid = record.get("uuid")
    for driver in io_domain_lists.drivers() if uuid else ():
        with driver as host:
            found = host.domain(str(uuid))
            if found is not None and (found.active or io_owner.away(str(uuid)) is None):
                raise RefusedError(f"{params['id']} is still on this server.", "id", "Move it to its first server with move_vm.")
    if not check_mode:
        with copies.locked():
            copies.write_record({"state": RECEIVING, "at": time.time()})
    return {"changed": True}


def _kept(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """On the standby: remove copies and record of a VM that was started here, whose first server never returns.

    That server keeps its old VM off because no machine that it asks accepts its key any more.
    """
    copies = io_copies.CopyStore(params["cluster"], params["id"])
    if not copies.directory.is_dir():
        return {"changed": False}
    _refuse_not_kept(copies, params, check_mode)
    if not check_mode:
        with copies.locked():
            _refuse_not_kept(copies, params, check_mode)
            copies.remove()
    return {"changed": True, "diff": _diff(f"{params['id']}: started from its copy\n", f"{params['id']}: a VM of this server\n")}


def _refuse_not_kept(copies: io_copies.CopyStore, params: t.Mapping[str, t.Any], check_mode: bool) -> None:
    record = copies.record()
    if record.get("state") != STARTED or record.get("phase") != run_start.RUNNING:
        raise RefusedError(f"{copies.vm_id} was not started on this server, or that was interrupted.", "id", "Complete the start with state: started.")
    if params.get("confirmed") != record.get("from"):
        given = f"{params['confirmed']!r} is not the name of the server" if params.get("confirmed") else "no one confirmed the server"
        raise RefusedError(f"{given} that never returns: {record.get('from')}.", "confirmed", "If it was retired or replaced, give its name.")
    key = io_authorized_keys.line_of(key_marker(standby_key(copies.cluster, copies.vm_id)))
    # in check mode it was not withdrawn
    if key is not None and not check_mode:
        hint = "Withdraw it on all witnesses and here, with one_time_key, before the record is removed."
        raise RefusedError(f"{record.get('from')} can still ask this server whether it may start {copies.vm_id}.", "id", hint)


def _started(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    done = run_start.start(params, check_mode=check_mode)
    if not check_mode:
        done["warnings"] = [*done.get("warnings", ()), *run_automatic.confirm(str(params["id"]), str(done["source"]))]
    return done


def _text(job: Job | None) -> str:
    automatic = ", started there by itself" if job and job.automatic else ""
    return f"{job.id}: copied to {job.standby.name} every {job.interval} s, {job.copies} copies{automatic}\n" if job else ""


def _diff(before: str, after: str) -> dict[str, str]:
    return {"before": before, "after": after}


_STATES: t.Mapping[str, t.Callable[[t.Mapping[str, t.Any], bool], dict[str, t.Any]]] = {
    "prepared": _prepared,
    "present": _present,
    "paused": _paused,
    "absent": _absent,
    "withdrawn": _withdrawn,
    "started": _started,
    "released": _released,
    "claimed": _claimed,
    "returned": _returned,
    "kept": _kept,
    "disarmed": run_automatic.disarmed,
}
