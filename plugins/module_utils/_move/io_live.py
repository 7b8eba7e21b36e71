# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Live migration by libvirt itself, its connections led through our ssh: no port is opened on any address.

The guest is left paused at the other end. libvirt cannot tell a lost answer from a failure and then
lets the guest run on here; a copy that nobody has let run yet can be thrown away without loss.
"""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_channel import Tunnel
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, libvirt, libvirt_errors

_POLL = 0.2


def migrate(
    uri: str,
    uuid: str,
    tunnel: Tunnel,
    *,
    definition: str,
    bandwidth: int,
    max_downtime: float,
    timeout: float,
    progress: t.Callable[[t.Mapping[str, t.Any]], None],
) -> dict[str, t.Any]:
    """Bring a running guest with memory and disks to the other host, where it stays paused.

    :arg definition: what it is to be there after its next start.
    :arg bandwidth: MiB per second, 0 for none.
    :returns: libvirt's account of the finished job.
    :raises BackendError: it did not get there; what runs here goes on.
    """
    parameters: dict[str, t.Any] = {
        libvirt.VIR_MIGRATE_PARAM_URI: tunnel.memory,
        "disks_uri": tunnel.disks,
        libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: definition,
    }
    if bandwidth:
        parameters[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = bandwidth
    flags = (
        libvirt.VIR_MIGRATE_LIVE
        | libvirt.VIR_MIGRATE_PEER2PEER
        | libvirt.VIR_MIGRATE_PERSIST_DEST
        | libvirt.VIR_MIGRATE_NON_SHARED_INC
        | libvirt.VIR_MIGRATE_PAUSED
        | libvirt.VIR_MIGRATE_AUTO_CONVERGE
    )
    failure: list[BackendError] = []

    def work() -> None:
        try:
            with DomainHost(uri) as own, libvirt_errors("libvirt did not migrate it", "The VM runs on here; fix that, or use method: copy."):
                own.connection.lookupByUUIDString(uuid).migrateToURI3(tunnel.uri, parameters, flags)
        except BackendError as error:
            failure.append(error)

    worker = threading.Thread(target=work, name="migrate", daemon=True)
    with DomainHost(uri) as host:
        with libvirt_errors("cannot find the domain"):
            domain = host.connection.lookupByUUIDString(uuid)
        worker.start()
        _watch(domain, worker, max_downtime, timeout, progress)
        worker.join()
        if failure:
            raise failure[0]
        with contextlib.suppress(libvirt.libvirtError):
            return dict(domain.jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED))
    return {}


def _watch(domain: t.Any, worker: threading.Thread, max_downtime: float, timeout: float, progress: t.Callable[[t.Mapping[str, t.Any]], None]) -> None:
    until = time.monotonic() + timeout
    told_downtime = False
    while worker.is_alive():
        with contextlib.suppress(libvirt.libvirtError):
            if not told_downtime:
                domain.migrateSetMaxDowntime(int(max_downtime * 1000), 0)
                told_downtime = True
            progress(domain.jobStats())
        if time.monotonic() > until:
            with contextlib.suppress(libvirt.libvirtError):
                domain.abortJob()
        worker.join(timeout=_POLL)


def stands(uri: str, uuid: str) -> str:
    """How the domain stands here: ``running``, ``left`` (its process ended by migration), ``off``, ``halted``, ``gone``.

    A job that a killed process left is ended first: nobody knows its outcome otherwise.
    """
    with DomainHost(uri) as host:
        try:
            domain = host.connection.lookupByUUIDString(uuid)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return "gone"
            raise BackendError(f"cannot read the domain {uuid}: {error.get_error_message()}.") from error
        until = time.monotonic() + 60
        with libvirt_errors("cannot end the migration that is under way"):
            while _busy(domain):
                with contextlib.suppress(libvirt.libvirtError):
                    domain.abortJob()
                if time.monotonic() > until:
                    raise BackendError("a migration is under way and does not end.", hint="Look at virsh domjobinfo.")
                time.sleep(_POLL)
        with libvirt_errors("cannot read the state"):
            state, reason = domain.state(0)
        if state == libvirt.VIR_DOMAIN_SHUTOFF:
            return "left" if reason == libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED else "off"
        if state in (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_BLOCKED):
            return "running"
        return "halted" if state == libvirt.VIR_DOMAIN_PAUSED else "off"


def cut(host: DomainHost, uuid: str) -> None:
    """End a guest's process at once: one that never ran, or that must not."""
    with libvirt_errors("cannot end it"):
        domain = host.connection.lookupByUUIDString(uuid)
        try:
            domain.destroy()
        except libvirt.libvirtError:
            if domain.isActive():
                raise


def _busy(domain: t.Any) -> bool:
    try:
        return bool(domain.isActive()) and domain.jobInfo()[0] != libvirt.VIR_DOMAIN_JOB_NONE
    except libvirt.libvirtError as error:
        if error.get_error_code() in (libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_OPERATION_INVALID):
            return False
        raise
