# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Live migration by libvirt itself, its connections led through our ssh: no port is opened on any network.

The guest is left paused at the other end. libvirt cannot tell a lost answer from a failure and then
lets the guest run on here; a copy that nobody has let run yet can be thrown away without loss.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import threading
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend.domains import DomainHost, libvirt, told
from ansible_collections.reduced.footprint.plugins.module_utils._backend.remote_source import RemoteSource
from ansible_collections.reduced.footprint.plugins.module_utils._backend.volume_files import with_us
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError

RUN = pathlib.Path("/run/reduced.footprint/moves")
_SOCKETS = ("/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock")
_POLL = 0.2
_TUNNEL = 20.0
_MIB = 1024 * 1024


def free_ports(count: int = 2) -> list[int]:
    """Ports of the loopback address that nobody listens on right now."""
    with contextlib.ExitStack() as stack:
        ports = []
        for unused in range(count):
            each = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            each.bind(("127.0.0.1", 0))
            ports.append(each.getsockname()[1])
        return ports


def daemon_socket() -> str | None:
    """Where this host's daemon for QEMU listens."""
    return next((path for path in _SOCKETS if os.path.exists(path)), None)


class Tunnel:
    """ssh to the other host that carries libvirt's own connection, the memory and the disks.

    :arg there: the path of the daemon's socket on the other host.
    :arg ports: free ones of the other host; they must be free here as well.
    """

    def __init__(self, remote: RemoteSource, folder: pathlib.Path, there: str, ports: t.Sequence[int]) -> None:
        self._remote = remote
        self._socket = folder / "libvirt.sock"
        self._there = there
        self.memory, self.disks = ports
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """The other host's libvirt as this host's daemon reaches it."""
        return f"qemu+unix:///system?socket={self._socket}"

    def __enter__(self) -> Tunnel:
        self._socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._socket.unlink(missing_ok=True)
        argv = [*with_us(), *self._remote.ssh_argv(), "-N", "-o", "ExitOnForwardFailure=yes", "-L", f"{self._socket}:{self._there}"]
        for port in (self.memory, self.disks):
            argv += ["-L", f"127.0.0.1:{port}:127.0.0.1:{port}"]
        # pylint: disable-next=ansible-bad-function,consider-using-with  # no AnsibleModule reaches this layer; ended in __exit__
        self._process = subprocess.Popen([*argv, self._remote.address], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        until = time.monotonic() + _TUNNEL
        while not self._socket.exists():
            if self._process.poll() is not None or time.monotonic() > until:
                ended = self._process.poll() is not None and self._process.stderr is not None
                said = self._process.stderr.read().decode(errors="replace").strip() if ended else "no answer"
                self.__exit__()
                raise BackendError(
                    f"ssh leads no connection to {self._remote.address}: {said}.", mend="Allow forwarding to root's key there, or use method: copy."
                )
            time.sleep(_POLL)
        return self

    def __exit__(self, *unused: object) -> None:
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        self._socket.unlink(missing_ok=True)


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
        libvirt.VIR_MIGRATE_PARAM_URI: f"tcp://127.0.0.1:{tunnel.memory}",
        "disks_uri": f"tcp://127.0.0.1:{tunnel.disks}",
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
            with DomainHost(uri) as own, told("libvirt did not migrate it", "The VM runs on here; mend that, or use method: copy."):
                own.connection.lookupByUUIDString(uuid).migrateToURI3(tunnel.uri, parameters, flags)
        except BackendError as error:
            failure.append(error)

    worker = threading.Thread(target=work, name="migrate", daemon=True)
    with DomainHost(uri) as host:
        with told("cannot find the domain"):
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
        with told("cannot end the migration that is under way"):
            while _busy(domain):
                with contextlib.suppress(libvirt.libvirtError):
                    domain.abortJob()
                if time.monotonic() > until:
                    raise BackendError("a migration is under way and does not end.", mend="Look at virsh domjobinfo.")
                time.sleep(_POLL)
        with told("cannot read the state"):
            state, reason = domain.state(0)
        if state == libvirt.VIR_DOMAIN_SHUTOFF:
            return "left" if reason == libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED else "off"
        if state in (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_BLOCKED):
            return "running"
        return "halted" if state == libvirt.VIR_DOMAIN_PAUSED else "off"


def cut(host: DomainHost, uuid: str) -> None:
    """End a guest's process at once: one that never ran, or that must not."""
    with told("cannot end it"):
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
