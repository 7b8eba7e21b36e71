# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Live migration by libvirt, with its connections tunnelled through ssh: no port is opened on any address.

The guest stays paused at the destination. libvirt cannot distinguish a lost reply from a failure and then
resumes the guest on the source; a copy that was never resumed can be discarded without loss of data.
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
    bandwidth_limit: int,
    max_downtime: float,
    timeout: float,
    progress: t.Callable[[t.Mapping[str, t.Any]], None],
) -> dict[str, t.Any]:
    """Migrate a running guest with memory and disks to the destination, where it stays paused.

    :arg bandwidth_limit: KiB per second, 0 for no limit; libvirt limits in whole MiB.
    :returns: libvirt's statistics of the completed job.
    :raises BackendError: the migration failed; the guest continues to run on the source.
    """
    parameters: dict[str, t.Any] = {
        libvirt.VIR_MIGRATE_PARAM_URI: tunnel.memory,
        "disks_uri": tunnel.disks,
        libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: definition,
    }
    if bandwidth_limit:
        parameters[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = -(-bandwidth_limit // 1024)
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
            with DomainHost(uri) as own, libvirt_errors("libvirt cannot migrate the VM", "Fix the problem, or use method: copy. The VM is still running here."):
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
    downtime_set = False
    while worker.is_alive():
        with contextlib.suppress(libvirt.libvirtError):
            if not downtime_set:
                domain.migrateSetMaxDowntime(int(max_downtime * 1000), 0)
                downtime_set = True
            progress(domain.jobStats())
        if time.monotonic() > until:
            with contextlib.suppress(libvirt.libvirtError):
                domain.abortJob()
        worker.join(timeout=_POLL)


def domain_state(uri: str, uuid: str) -> str:
    """Return the state of the domain here: ``running``, ``left`` (ended by migration), ``off``, ``halted``, ``gone``.

    A migration job of a killed process is aborted first, because its outcome is unknown.
    """
    with DomainHost(uri) as host:
        try:
            domain = host.connection.lookupByUUIDString(uuid)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return "gone"
            raise BackendError(f"cannot read the domain {uuid}: {error.get_error_message()}.") from error
        until = time.monotonic() + 60
        with libvirt_errors("cannot abort the running migration"):
            while _busy(domain):
                with contextlib.suppress(libvirt.libvirtError):
                    domain.abortJob()
                if time.monotonic() > until:
                    raise BackendError("the running migration cannot be aborted.", hint="Check it with virsh domjobinfo.")
                time.sleep(_POLL)
        with libvirt_errors("cannot read the state of the domain"):
            state, reason = domain.state(0)
        if state == libvirt.VIR_DOMAIN_SHUTOFF:
            return "left" if reason == libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED else "off"
        if state in (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_BLOCKED):
            return "running"
        return "halted" if state == libvirt.VIR_DOMAIN_PAUSED else "off"


def cut(host: DomainHost, uuid: str) -> None:
    """Destroy a guest that was never resumed, or must not run."""
    with libvirt_errors("cannot destroy the domain"):
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
