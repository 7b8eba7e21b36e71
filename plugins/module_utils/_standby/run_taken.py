# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a VM on its first server, after it was started on its standby."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, libvirt_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner, run_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import Record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.plan_owner import Event

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._standby.io_store import StandbyStore
    from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Job

_LOCK = 300.0


class Taken(FootprintError):
    """The VM was started on its standby."""

    def __init__(self, record: t.Mapping[str, t.Any]) -> None:
        super().__init__(f"the VM was started on its standby at {utc(float(record.get('at') or 0))}.", hint="Move it back with move_vm.")


def give_up(job: Job, store: StandbyStore) -> None:
    """Make sure that the VM does not run here: no permit, no autostart, and a record of the standby.

    A guest that runs here nevertheless, because the server was not lost but only cut off, is paused: it serves nothing any more, and what
    it has in memory and on its disks can still be examined.
    """
    io_owner.revoke(job.uuid)
    with host_lock("domains", _LOCK), DomainHost(job.uri) as host:
        if store.is_released() or store.job() is None:
            # it is being removed, or was: the record would remain, and keep the VM from moving back
            return
        run_owner.change(job.uuid, Event("learned", to=job.standby.name, of=Record(job.cluster, job.id, job.uuid, job.name)))
        found = host.domain(job.uuid)
        if found is not None and found.state == "running":
            with libvirt_errors("cannot pause the VM"):
                host.connection.lookupByUUIDString(job.uuid).suspend()
            store.log("the VM ran here while it was started on its standby; it is paused now")
        if found is not None and found.persistent:
            with contextlib.suppress(BackendError):
                host.set_autostart(job.uuid, False)
