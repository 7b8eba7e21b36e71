# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case of the module ``vm_standby_info``: the copies that this server makes, and those that it keeps."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_remote_source
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_cluster, io_copies, io_store, plan_standby, run_automatic, xml_cib
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import RECEIVING, TAKEN, Copy, Ended, Job
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import CONFIRMED, MOVED

SOURCE, STANDBY, ENDED = "source", "standby", "ended"
#: Phase of a start whose disks are being made.
STARTING = "starting"
_UNKNOWN: dict[str, t.Any] = dict.fromkeys((
    "standby", "public_key", "interval_seconds", "phase", "reason", "kept_off", "problem", "copy_id", "copied", "age_seconds", "duration_seconds",
    "sent_bytes", "used_bytes", "mode", "frozen", "automatic", "automatic_problem", "taken_over",
    "witnesses",
))  # fmt: skip


def standbys(vm_id: str | None = None, cluster: str | None = None) -> list[dict[str, t.Any]]:
    """Return one entry for each VM that is copied from this server, for each that has copies or a record here, and for each key of ended copies.

    :arg vm_id: only VMs with this ID; ``cluster``: only those of this cluster.
    """
    now = time.time()
    found = [_source(each, now) for each in io_store.names()] + [_standby(*each, now) for each in io_copies.names()]
    found += [_ended(each) for each in io_store.read_ended()]
    return [each for each in found if vm_id in (None, each["id"]) and cluster in (None, each["cluster"])]


def _source(vm_id: str, now: float) -> dict[str, t.Any]:
    store = io_store.StandbyStore(vm_id)
    job, journal = t.cast(Job, store.job()), store.journal()
    # those of an earlier standby are not copies of this one
    facts = journal.facts if not job.former or journal.facts.get("standby") == job.standby.name else {}
    at = facts.get("at")
    permitted = not io_owner.is_guarded(job.uuid) or io_owner.is_permitted(job.uuid)
    away = io_owner.away(job.uuid)
    moved = away is not None and not away.is_taken and away.state in (MOVED, CONFIRMED)
    problem = None
    if moved:
        # its copies are those of its new server
        permitted = True
    elif journal.state == TAKEN:
        problem = f"it was started on {job.standby.name}"
    elif not permitted:
        problem = "it stays off until its standby or a witness confirms that it was not started there"
    elif at is None:
        problem = f"it has no verified copy yet{f': {journal.reason}' if journal.reason else ''}"
    elif now - at > 3 * job.interval:
        problem = f"its last copy is {int(now - at)} s old{f': {journal.reason}' if journal.reason else ''}"
    elif facts.get("obstacle"):
        problem = f"it cannot be started on {job.standby.name}: {facts['obstacle']}"
    return {
        "id": vm_id,
        "cluster": job.cluster,
        "part": SOURCE,
        "standby": job.standby.name,
        "former_standbys": list(job.former),
        "witnesses": [each.name for each in job.witnesses],
        "key_accepted_by": list(job.accepting),
        "public_key": io_remote_source.public_key(store.directory),
        "interval_seconds": job.interval,
        "state": MOVED if moved else journal.state,
        "phase": journal.phase,
        "reason": journal.reason,
        "kept_off": not permitted,
        "problem": problem,
        "copy_id": facts.get("copy"),
        "copied": utc(at) if at is not None else None,
        "age_seconds": round(now - at, 1) if at is not None else None,
        "duration_seconds": facts.get("seconds"),
        "sent_bytes": facts.get("bytes"),
        "used_bytes": facts.get("used"),
        "mode": facts.get("mode"),
        "frozen": facts.get("frozen"),
        "copies": [],
        **_automatic_source(job, store, problem),
    }


def _automatic_source(job: Job, store: io_store.StandbyStore, unfit: str | None) -> dict[str, t.Any]:
    """Whether the standby starts the VM by itself, and why it would not at present."""
    problem = _problem(job) or unfit if job.automatic else None
    if job.automatic and store.paused_seconds() is not None:
        problem = "its copies are paused for a move"
    return {"automatic": job.automatic, "automatic_problem": problem, "taken_over": None}


def _problem(job: Job) -> str | None:
    try:
        if run_automatic.values(job.id, job.uuid) is None:
            return "it is not in the cluster of both servers; run spawn_vms"
        return xml_cib.problem(io_cluster.seen(), job.id, io_cluster.here(), job.standby.name, io_cluster.has_vote())
    except FootprintError as error:
        return f"the cluster does not answer: {error.message}"


def _standby(cluster: str, vm_id: str, now: float) -> dict[str, t.Any]:
    store = io_copies.CopyStore(cluster, vm_id)
    # before the record: between both, the start may have been recorded
    starting = store.starting()
    copies, record = store.copies(), store.record()
    last = copies[-1] if copies else None
    return {
        **_UNKNOWN,
        "id": vm_id,
        "cluster": cluster,
        "part": STANDBY,
        "former_standbys": [],
        "key_accepted_by": [],
        "witnesses": store.witnesses(),
        "state": record.get("state", RECEIVING),
        "phase": record.get("phase") or (STARTING if starting else None),
        "used_bytes": store.used(),
        **(_last(last, now) if last else {}),
        "copies": [{"id": each.id, "source": each.source, "uuid": each.uuid, "copied": utc(each.at), "verified": utc(each.verified_at)} for each in copies],
        **_automatic_standby(store, record),
    }


def _last(copy: Copy, now: float) -> dict[str, t.Any]:
    facts = {"copy_id": copy.id, "copied": utc(copy.at), "age_seconds": round(now - copy.at, 1), "duration_seconds": copy.seconds}
    return {**facts, "sent_bytes": copy.bytes, "mode": copy.mode, "frozen": copy.frozen}


def _automatic_standby(store: io_copies.CopyStore, record: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    try:
        values = run_automatic.values(store.vm_id) or {}
    except FootprintError:
        values = {}
    by_itself = bool(record.get("phase")) and (record.get("proof") or {}).get("by") == plan_standby.FENCED["by"]
    return {
        "automatic": values.get("cluster") == store.cluster,
        "automatic_problem": _last_failure(store.vm_id) if values and record.get("state") == RECEIVING else None,
        "taken_over": utc(float(record.get("at") or 0)) if by_itself else None,
    }


def _last_failure(vm_id: str) -> str | None:
    try:
        return io_cluster.seen().failures.get(xml_cib.resource_id(vm_id))
    except FootprintError as error:
        return f"the cluster does not answer: {error.message}"


def _ended(ended: Ended) -> dict[str, t.Any]:
    known = {"id": ended.id, "cluster": ended.cluster, "part": ENDED, "state": ENDED, "former_standbys": [], "copies": []}
    return {**_UNKNOWN, **known, "key_accepted_by": list(ended.machines), "public_key": ended.public_key}
