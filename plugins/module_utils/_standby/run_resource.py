# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program of the resource agent: ``python3 -m …run_resource start|stop``; Pacemaker calls it on one of the two servers.

A VM is started where its valid disks are. Elsewhere it is started from its last copy, only after Pacemaker has fenced the server that has them, and after
it was recorded on a majority that the disks are here.
"""

from __future__ import annotations

import os
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_cluster, io_copies, io_store, plan_standby, run_guard, run_start, run_taken
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import Vm
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import STARTED
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import Record

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainRecord

OK, FAILED, ARGUMENTS, UNIMPLEMENTED, REFUSED = 0, 1, 2, 3, 5
# seconds; Pacemaker gives a stop much more: one that fails means that the server is fenced when it is shut down, and that the copy is started
_SHUTDOWN = 60.0


def start(vm: Vm) -> None:
    """Start a VM on this server.

    :raises RefusedError: it must not be started here.
    :raises FootprintError: it cannot be.
    """
    here = io_cluster.here()
    store = io_copies.CopyStore(vm.cluster, vm.id)
    record = store.record()
    taken = record.get("state") == STARTED and bool(record.get("phase"))
    owner = io_cluster.owner(vm.id)
    if owner is None:
        raise RefusedError(f"it is not recorded which server has the valid disks of {vm.id}.")
    if owner != here and owner in io_cluster.partition():
        raise RefusedError(f"{owner} is in the cluster, and has the valid disks of {vm.id}.")
    with DomainHost(run_start.URI) as host:
        found = host.domain(vm.uuid)
        if found is not None and (not taken or record.get("phase") == run_start.RUNNING):
            _start_here(host, vm, found, owner, here, taken)
            return
    run_start.start({"cluster": vm.cluster, "id": vm.id, "proof": plan_standby.FENCED, "own": lambda: io_cluster.set_owner(vm.id, here)}, check_mode=False)
    if taken:
        io_cluster.set_owner(vm.id, here)


def _start_here(host: DomainHost, vm: Vm, found: DomainRecord, owner: str, here: str, taken: bool) -> None:
    """Start a VM that this server has."""
    if owner != here and not taken:
        raise RefusedError(f"the disks of {vm.id} on this server are older than those on {owner}, where it was started.")
    record = io_owner.away(vm.uuid)
    if record is not None:
        raise RefusedError(f"{vm.id} belongs to {record.where or 'another server'}, or is being moved.")
    _refuse_taken(vm)
    io_owner.admit(Record(vm.cluster, vm.id, vm.uuid, vm.name))
    if owner != here:
        io_cluster.set_owner(vm.id, here)
    if not found.active:
        host.start(vm.uuid)


def _refuse_taken(vm: Vm) -> None:
    """Ask standby and witnesses, because a person may have started it there without the cluster; silence does not count."""
    store = io_store.StandbyStore(vm.id)
    job = store.job()
    if job is None or job.uuid != vm.uuid:
        return
    answers = run_guard.records(job, store)
    if plan_standby.boot_verdict(answers) == plan_standby.STAY:
        run_taken.give_up(job, store)
        io_cluster.set_owner(vm.id, job.standby.name)
        raise RefusedError(f"{vm.id} was started on {job.standby.name} by a person.")


def stop(vm: Vm) -> None:
    """Stop a VM: shut it down, and after the time end it by force."""
    with DomainHost(run_start.URI) as host:
        found = host.domain(vm.uuid)
        if found is not None and found.active:
            host.shutdown(vm.uuid, _SHUTDOWN, True)
        io_owner.revoke(vm.uuid)
        found = host.domain(vm.uuid)
        if found is not None and found.active:
            raise BackendError(f"{vm.id} does not stop.")


def main(argv: t.Sequence[str]) -> int:
    """Entry point; returns an exit code of OCF."""
    try:
        vm = Vm(**{name: os.environ[f"OCF_RESKEY_{name}"] for name in Vm._fields})
    except KeyError as error:
        sys.stderr.write(f"ocf-exit-reason:{error} is missing\n")
        return ARGUMENTS
    if list(argv) not in (["start"], ["stop"]):
        return UNIMPLEMENTED
    try:
        if argv[0] == "start":
            start(vm)
        else:
            stop(vm)
        return OK
    except (FootprintError, OSError) as error:
        sys.stderr.write(f"ocf-exit-reason:{' '.join(str(error).split())}\n")
        return REFUSED if isinstance(error, RefusedError) else FAILED


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
