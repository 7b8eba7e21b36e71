# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard after a boot: starts each VM with a standby when that, or a witness, confirms that it was not started there.

It runs until every VM has its answer. A VM about which no machine answers stays off.
"""

from __future__ import annotations

import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units
from ansible_collections.reduced.footprint.plugins.module_utils._service import run_service_files
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_store, io_timers, plan_standby, run_agent, run_taken
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import STARTED, Job
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner, run_hook
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import OWNER, STOPPED

_POLL = 5.0
_ASK = 30.0
_LOCK = 300.0


def install_hook(*, check_mode: bool) -> bool:
    """Install the hook of libvirt, and let libvirt find it; returns whether that changes something.

    libvirt looks for hooks when it starts, so a run that was killed before the restart is completed by the next one. Guests keep running.
    """
    paths = [str(path) for path in run_hook.PATHS]
    files = [{"path": path, "content": run_hook.text(), "mode": "0755"} for path in paths]
    units = [{"name": daemon, "restart_after": paths} for daemon in run_hook.DAEMONS]
    new = not io_owner.is_prepared()
    if not check_mode:
        # without it the hook refuses all managed VMs
        io_owner.prepare()
    return bool(run_service_files.configure({"files": files, "units": units}, check_mode=check_mode)["changed"]) or new


def records(job: Job, store: io_store.StandbyStore) -> list[dict[str, t.Any] | None]:
    """Ask the standby and the witnesses for the record of a VM; ``None`` for each that does not answer."""
    found: list[dict[str, t.Any] | None] = []
    for voter in (job.standby, *job.witnesses):
        try:
            found.append(io_store.StandbyHost(run_agent.MODULE, job, voter, store, io_units.keep_code()).ask("look", timeout=_ASK)["record"])
        except FootprintError as error:
            store.log(f"guard: {voter.name} does not answer: {error.message}")
            found.append(None)
    return found


def unconfirmed(job: Job) -> RefusedError:
    """Return the refusal of what must wait for the standby or a witness."""
    message = f"{job.id} stays off until {job.standby.name} or a witness confirms that it was not started there."
    return RefusedError(message, "id", "Wait until one of them answers, then run again.")


def refuse_unconfirmed(job: Job, store: io_store.StandbyStore) -> None:
    """Refuse to ask other machines than those of a request, while its VM waits for their answer after a boot.

    :raises RefusedError: none of them has confirmed that it was not started there.
    """
    if io_owner.is_guarded(job.uuid) and not io_owner.is_permitted(job.uuid) and plan_standby.boot_verdict(records(job, store)) != plan_standby.RUN:
        raise unconfirmed(job)


def was_moved(job: Job) -> bool:
    """Whether the VM is being moved, or was moved, by a person; not one that was started on its standby."""
    away = io_owner.away(job.uuid)
    return away is not None and not away.is_taken


def settle(vm_id: str) -> bool:
    """Decide about one VM; returns whether the decision is final."""
    store = io_store.StandbyStore(vm_id)
    job = store.job()
    if job is not None and io_owner.is_clustered(job.uuid):
        return _settle_clustered(job, store)
    if job is None or not io_owner.is_guarded(job.uuid) or io_owner.is_permitted(job.uuid) and not io_owner.is_start_due(job.uuid):
        return True
    record = io_owner.known(job.uuid)
    if record is None or record.is_taken:
        # it was given up before
        return True
    answers = records(job, store)
    verdict = plan_standby.boot_verdict(answers)
    if verdict == plan_standby.WAIT:
        return False
    if verdict == plan_standby.STAY:
        run_taken.give_up(job, store)
        store.log("guard: the VM was started on its standby and stays off here")
        return True
    if record.role != OWNER or record.operation and record.operation.step == STOPPED:
        # it is being moved, or was moved: the move starts it where it belongs
        io_owner.permit(job.uuid)
        return True
    # without a permit libvirt refuses the start; if it fails for another reason, it is repeated
    io_owner.permit(job.uuid, due=True)
    with host_lock("domains", _LOCK), DomainHost(job.uri) as host:
        found = host.domain(job.uuid)
        if found is not None and found.autostart and not found.active:
            host.start(job.uuid)
            store.log("guard: started")
    io_owner.permit(job.uuid)
    # the timer may have fired before the standby answered
    io_timers.start(vm_id)
    return True


def _settle_clustered(job: Job, store: io_store.StandbyStore) -> bool:
    """A VM of the cluster is started by that; here it is only noted if it was started on its standby meanwhile."""
    if io_owner.away(job.uuid) is None:
        answers = records(job._replace(witnesses=()), store)
        if answers[0] is not None and answers[0].get("state") == STARTED:
            run_taken.give_up(job, store)
            store.log("guard: the VM was started on its standby and stays off here")
    return True


def main(unused: t.Sequence[str]) -> int:
    """Entry point: until there is a decision about every VM."""
    while True:
        waiting = []
        for vm_id in io_store.names():
            try:
                if not settle(vm_id):
                    waiting.append(vm_id)
            except FootprintError as error:
                sys.stderr.write(f"{vm_id}: {error}\n")
                waiting.append(vm_id)
        if not waiting:
            return 0
        sys.stderr.write(f"waiting for an answer about {', '.join(waiting)}\n")
        time.sleep(_POLL)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
