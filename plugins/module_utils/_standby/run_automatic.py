# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Automatic starts as parts of the module ``vm_standby``, on the server of the VM: the cluster starts and stops the VM from their begin to their end."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_cluster, io_store, xml_cib
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import Vm
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Job, job_data
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import Record


def values(vm_id: str, uuid: str | None = None) -> dict[str, str] | None:
    """Return the values of a VM in the cluster, ``None`` if it is not there, or is another one.

    :raises BackendError: that cannot be read.
    """
    found = xml_cib.vms_of(io_cluster.stored()).get(vm_id) if io_cluster.is_formed() else None
    return found if found is None or uuid in (None, found.get("uuid")) else None


def _vm(job: Job) -> Vm:
    return Vm(job.id, job.cluster, job.uuid, job.name)


def differs(job: Job) -> bool:
    """Whether :func:`begin` or :func:`end` would change something."""
    if not job.automatic:
        return values(job.id, job.uuid) is not None
    if not io_cluster.is_formed():
        return True
    document = io_cluster.stored()
    here = xml_cib.owner_of(document, job.id) or ""
    return xml_cib.changed(document, xml_cib.vm_parts(_vm(job), here, True), xml_cib.is_of_vm(job.id)) is not None or not io_owner.is_clustered(job.uuid)


def begin(job: Job) -> bool:
    """Let the cluster start and stop an automatic VM, which is on this server; returns whether something changed.

    :raises RefusedError: the server is not in a cluster, or the VM belongs to another one.
    """
    if not job.automatic:
        return False
    moved = io_owner.away(job.uuid)
    if moved is not None:
        raise RefusedError(f"{job.id} belongs to {moved.where or 'another server'}, or is being moved.", "id", "Complete its move, with move_vm.")
    if not io_cluster.is_formed():
        raise RefusedError("this server is not in a cluster with its standby.", "automatic", "Use the role standby, which creates it.")
    other = xml_cib.vms_of(io_cluster.cib()).get(job.id)
    if other is not None and other.get("uuid") != job.uuid:
        raise RefusedError(f"the cluster has another VM with the ID {job.id}, of {other.get('cluster')}.", "id", "Give one of them another id.")
    here, owner = io_cluster.here(), io_cluster.owner(job.id)
    # one that is left alone was moved here
    if other is not None and owner not in (None, here) and xml_cib.is_managed(other):
        raise RefusedError(f"{job.id} was started on {owner}.", "id", "Move it back with move_vm.")
    changed = not io_owner.is_clustered(job.uuid)
    if changed or not io_owner.is_permitted(job.uuid):
        io_owner.admit(Record(job.cluster, job.id, job.uuid, job.name))
    if owner != here:
        io_cluster.set_owner(job.id, here)
    if io_cluster.apply(xml_cib.vm_parts(_vm(job), here, True), xml_cib.is_of_vm(job.id), check_mode=False)[0]:
        # what it knew of the VM is from before a move
        io_cluster.refresh(job.id)
        changed = True
    return changed


def pause(store: io_store.StandbyStore, job: Job) -> None:
    """Let the cluster leave a VM alone until a move has ended; its copies are paused already.

    :raises RefusedError: this server has no majority: the VM may be started elsewhere. The copies continue.
    """
    try:
        _leave_alone(job)
    except RefusedError:
        store.resume()
        raise


def _is_here(job: Job) -> bool:
    """Whether the VM is in the cluster, with its disks on this server."""
    return values(job.id, job.uuid) is not None and io_cluster.owner(job.id) in (None, io_cluster.here())


def _leave_alone(job: Job) -> None:
    if not _is_here(job):
        return
    if not io_cluster.has_quorum():
        raise RefusedError(
            f"this server has no majority in the cluster, so {job.standby.name} may be about to start {job.id}.",
            "id",
            f"Make sure that {job.standby.name} or the witness answers.",
        )
    io_cluster.apply(xml_cib.vm_parts(_vm(job), io_cluster.here(), False), xml_cib.is_of_vm(job.id), check_mode=False)
    # it starts on this server as one that is not automatic
    io_owner.guard(Record(job.cluster, job.id, job.uuid, job.name), permitted=True)


def end(job: Job, confirmed: str | None = None) -> bool:
    """Take a VM out of the cluster, where it continues; returns whether it was there.

    :arg confirmed: the name of the standby, if a person made sure that it does not start the VM; then without a majority.
    :raises RefusedError: this server has no majority.
    """
    if not _is_here(job):
        return False
    if confirmed != job.standby.name:
        try:
            _leave_alone(job)
        except RefusedError as error:
            hint = f"{error.hint} If both are lost for good, and the VM does not run there, set confirmed: {job.standby.name}."
            raise RefusedError(error.message, "id", hint) from error
    drop(job.id)
    io_owner.guard(Record(job.cluster, job.id, job.uuid, job.name), permitted=io_owner.is_permitted(job.uuid))
    return True


def withdraw(store: io_store.StandbyStore, job: Job, confirmed: str | None) -> bool:
    """End it for good: the worker must not begin it again; returns as :func:`end`.

    :raises RefusedError: as :func:`end`; nothing was changed.
    """
    if job.automatic:
        store.write_job(job_data(job._replace(automatic=False)))
    try:
        return end(job, confirmed)
    except FootprintError:
        store.write_job(job_data(job))
        raise


def drop(vm_id: str) -> None:
    """Remove a VM from the configuration of the cluster, with all that it knows of it."""
    io_cluster.apply({}, xml_cib.is_of_vm(vm_id), check_mode=False)
    io_cluster.forget_owner(vm_id)
    io_cluster.refresh(vm_id)


def disarmed(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """On the server that runs the VM, also its standby, before it is moved or removed: take it out of the cluster; its copies continue."""
    store = io_store.StandbyStore(params["id"])
    job = store.job()
    mine = job is not None and job.cluster == params["cluster"]
    found = values(params["id"])
    found = found if found is not None and found.get("cluster") == params["cluster"] else None
    if found is None and not (job is not None and mine and job.automatic):
        return {"changed": False}
    if not check_mode:
        if job is not None and mine:
            withdraw(store, job, params.get("confirmed"))
        elif found is not None:
            _end_taken(params["id"], found)
    return {"changed": True, "diff": {"before": f"{params['id']}: started on the other server if this one is lost\n", "after": f"{params['id']}: not\n"}}


def _end_taken(vm_id: str, found: t.Mapping[str, str]) -> None:
    """On the standby, which runs the VM after the loss of its first server."""
    here, owner = io_cluster.here(), io_cluster.owner(vm_id)
    if owner != here:
        raise RefusedError(f"{vm_id} belongs to {owner}.", "id", f"End its automatic start there, or if {owner} is lost, start it here with start_standby.")
    if not io_cluster.has_quorum():
        raise RefusedError("this server has no majority in the cluster.", "id", "Make sure that the other server or the witness answers.")
    vm = Vm(**{name: found[name] for name in Vm._fields})
    io_cluster.apply(xml_cib.vm_parts(vm, here, False), xml_cib.is_of_vm(vm_id), check_mode=False)
    drop(vm_id)
    io_owner.release(vm.uuid)


def confirm(vm_id: str, source: str) -> list[str]:
    """After a person started a VM here: let the cluster know that its first server is off; returns warnings."""
    try:
        if values(vm_id) is None or not io_cluster.has_quorum():
            return []
        if source not in io_cluster.partition() and source in io_cluster.seen().unclean:
            io_cluster.confirm_off(source)
        io_cluster.set_owner(vm_id, io_cluster.here())
        return []
    except FootprintError as error:
        return [f"the cluster does not know of this start yet: {error}"]
