# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connections to libvirt: domains as records, and operations on them.

The only module that calls libvirt about domains. Every failure is raised as
:class:`BackendError` with libvirt's own message.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_container_process

try:
    import libvirt

    LIBVIRT_ERROR: ImportError | None = None
except ImportError as error:
    libvirt = None
    LIBVIRT_ERROR = error

# one URI per driver; kvm and qemu share one
DRIVER_URIS: t.Mapping[str, str] = {"kvm": "qemu:///system", "qemu": "qemu:///system", "lxc": "lxc:///system"}

#: Seconds until libvirtd detects that a container's process has ended.
_EXIT_DETECTION = 5.0
_POLL = 0.2
_LOST_HINT = "Make sure that libvirtd runs on the host, then run again; the next run completes the rest."
_MAX_MESSAGE = 2000
_PASSWORD = " passwd="  # of a VNC or SPICE display, in the applied document
_STARTING = 30  # seconds until libvirt resumes a guest that is starting
_READERS = 4  # documents read in parallel
_RUNNING = (1, 2)  # VIR_DOMAIN_RUNNING and VIR_DOMAIN_BLOCKED; the bindings may be missing


class DomainRecord(t.NamedTuple):
    """A domain in libvirt: ``state`` is running, paused, suspended, shutdown or crashed.

    ``config_xml`` is the persistent definition, ``live_xml`` the running configuration (``None``
    when it does not run). A crashed domain can have both: libvirt can preserve it for inspection.
    Both can contain passwords; callers that show them must hide those (``_vm.compare.xml_hidden``).
    """

    name: str
    uuid: str
    state: str
    autostart: bool
    persistent: bool
    config_xml: str
    live_xml: str | None

    @property
    def active(self) -> bool:
        """Whether it has a process: it runs, is paused or suspended, or has crashed and is preserved."""
        return self.live_xml is not None


@contextlib.contextmanager
def libvirt_errors(what: str, hint: str | None = None) -> t.Iterator[None]:
    """Turn a libvirt exception into :class:`BackendError`, prefixed with the failed operation."""
    try:
        yield
    except libvirt.libvirtError as error:
        message = str(error.get_error_message() or error)
        # libvirt quotes values of any length
        message = message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}..."
        if hint is None and error.get_error_domain() == libvirt.VIR_FROM_RPC:
            # when the daemon ends during a call, the message is about a socket
            message, hint = f"the connection to libvirtd was lost ({message.rstrip('.')})", _LOST_HINT
        raise model_errors.BackendError(f"{what}: {message}.", hint=hint) from error


class DriverMissing(model_errors.BackendError):
    """This host has no such driver: its daemon does not exist, or answers that. Every other failure to connect leaves unknown which VMs it has."""


class DomainHost:
    """One open connection. Use as a context manager."""

    def __init__(self, uri: str) -> None:
        if LIBVIRT_ERROR is not None:
            raise model_errors.missing_libraries(*model_errors.VM_LIBRARIES) from LIBVIRT_ERROR
        # otherwise libvirt prints every error to stderr, including expected ones
        libvirt.registerErrorHandler(lambda unused, error: None, None)
        self.uri = uri
        try:
            with libvirt_errors(f"cannot connect to {uri}", "Check that libvirtd runs on the host and has this driver."):
                self.connection = libvirt.open(uri)
        except model_errors.BackendError as error:
            cause = t.cast(t.Any, error.__cause__)
            if cause.get_error_domain() == libvirt.VIR_FROM_RPC and cause.get_int1() != errno.ENOENT:
                raise
            raise DriverMissing(error.message, hint=error.hint) from cause

    def __enter__(self) -> DomainHost:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; errors of a broken one are ignored."""
        with contextlib.suppress(libvirt.libvirtError):
            self.connection.close()

    @property
    def local(self) -> bool:
        """Whether libvirt, and so its files, are on this host."""
        return self.uri.partition("://")[2].startswith("/")

    def alive(self) -> bool:
        """Whether the connection is still alive."""
        try:
            return self.connection.isAlive() == 1
        except libvirt.libvirtError:
            return False

    def offers(self, kind: str) -> bool:
        """Whether the capabilities list a domain type; no proof that such domains run."""
        with libvirt_errors("cannot read the capabilities"):
            return f"<domain type='{kind}'" in self.connection.getCapabilities()

    def domains(self) -> list[DomainRecord]:
        """All domains of this driver, except those that disappear during the call.

        Bulk queries are used where possible: one call per domain costs more than the whole comparison.
        """
        with libvirt_errors("cannot list the domains"):
            listed = self.connection.listAllDomains(0)
            running = self._uuids(libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING)
            off = self._uuids(libvirt.VIR_CONNECT_LIST_DOMAINS_SHUTOFF)
            persistent = self._uuids(libvirt.VIR_CONNECT_LIST_DOMAINS_PERSISTENT)
            autostart = self._uuids(libvirt.VIR_CONNECT_LIST_DOMAINS_AUTOSTART)

        def read(domain: t.Any) -> DomainRecord:
            uuid = domain.UUIDString()
            if uuid in running or uuid in off:
                return _record(domain, "running" if uuid in running else "shutdown", uuid in running, uuid in persistent, uuid in autostart)
            return self._read_domain(domain)

        with libvirt_errors("cannot read the domains"):
            return _all(listed, read)

    def _uuids(self, flag: int) -> set[str]:
        return {domain.UUIDString() for domain in self.connection.listAllDomains(flag)}

    def domain(self, uuid: str) -> DomainRecord | None:
        """A domain by its UUID, ``None`` when it does not exist."""
        with libvirt_errors(f"cannot read the domain {uuid}"):
            try:
                return self._read_domain(self.connection.lookupByUUIDString(uuid))
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return None
                raise

    def config_xml(self, uuid: str) -> str:
        """The definition of a domain with its passwords, only for a new definition: it must never be shown."""
        with libvirt_errors("cannot read the definition"):
            return self._lookup(uuid).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)

    def define(self, xml: str) -> str:
        """Define a domain or replace the definition of the domain with the same name and UUID.

        :returns: the resulting definition in libvirt.
        """
        with libvirt_errors("libvirt refuses the document", "Correct the template or the VM details."):
            return _document(self.connection.defineXML(xml), libvirt.VIR_DOMAIN_XML_INACTIVE)

    def set_metadata(self, uuid: str, namespace: str, prefix: str, xml: str | None, live: bool = False) -> None:
        """Replace one element of the metadata in the definition or the running configuration; the rest of the document is unchanged.

        :arg xml: the element without its namespace; ``None`` removes it.
        """
        flags = libvirt.VIR_DOMAIN_AFFECT_LIVE if live else libvirt.VIR_DOMAIN_AFFECT_CONFIG
        with libvirt_errors("cannot write the metadata"):
            self._lookup(uuid).setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, xml, prefix, namespace, flags)

    def saved_xml(self, uuid: str) -> str | None:
        """The document of a managed save image, used at the next start; ``None`` where nothing is saved."""
        with libvirt_errors("cannot read the saved memory"):
            domain = self._lookup(uuid)
            try:
                return domain.managedSaveGetXMLDesc(0) if domain.hasManagedSaveImage(0) else None
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT:
                    return None
                raise

    def set_autostart(self, uuid: str, wanted: bool) -> None:
        """Set whether the domain starts with its host."""
        with libvirt_errors("cannot set autostart"):
            self._lookup(uuid).setAutostart(int(wanted))

    def start(self, uuid: str) -> None:
        """Start a domain; does nothing when it runs already."""
        domain = self._lookup(uuid)
        with libvirt_errors("cannot start"):
            try:
                domain.create()
            except libvirt.libvirtError:
                if not domain.isActive():
                    raise

    def resume(self, uuid: str, timeout: float = 10) -> None:
        """Resume a paused or suspended domain and check that it runs.

        :raises BackendError: it does not run, with libvirt's reason.
        """
        domain = self._lookup(uuid)
        with libvirt_errors("cannot resume"):
            self._resume(domain)
            if not wait_until(timeout, lambda: domain.state(0)[0] in _RUNNING):
                state, reason = domain.state(0)
                why = "after an I/O error" if (state, reason) == (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR) else "again"
                raise model_errors.BackendError(f"is paused {why}.", hint="Check its log below /var/log/libvirt and the free space of its pool.")

    def shutdown(self, uuid: str, timeout: float, force: bool) -> None:
        """Shut down a domain: request it, wait, and only with ``force`` power it off.

        A paused or suspended domain is resumed first, so that it can react. The remains of a crashed
        domain are destroyed immediately.
        """
        domain = self._lookup(uuid)
        with libvirt_errors("cannot shut down"):
            requested = False
            if domain.state(0)[0] != libvirt.VIR_DOMAIN_CRASHED:
                with contextlib.suppress(libvirt.libvirtError):
                    self._resume(domain)
                controller = io_container_process.controller(domain)
                requested = self._request_shutdown(domain)
                if requested and wait_until(timeout, lambda: not _active(domain) or io_container_process.ended(controller)):
                    if not wait_until(_EXIT_DETECTION, lambda: not _active(domain)):
                        # a libvirtd that no longer tracks a container's process reports it as running for ever
                        domain.destroy()
                    return
                if _active(domain) and not force:
                    raise model_errors.BackendError(f"still runs {timeout:g} s after the shutdown request.", hint="Raise shutdown_timeout, or set force: true.")
            if not _active(domain):
                return
            with contextlib.suppress(libvirt.libvirtError):
                domain.destroy()
            if _active(domain):
                domain.destroy()

    def undefine(self, uuid: str, keep: bool = False) -> None:
        """Undefine a domain with its NVRAM, saved state and snapshot records; its disks are kept.

        :arg keep: also its NVRAM and the state of its TPM.
        """
        record = self.domain(uuid)
        if record is None:
            # a transient domain is removed when its process ends
            return
        domain = self._lookup(uuid)
        flags = (
            libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
            | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
            | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
            # older versions never remove the state of the TPM
            | (libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM | getattr(libvirt, "VIR_DOMAIN_UNDEFINE_KEEP_TPM", 0) if keep else libvirt.VIR_DOMAIN_UNDEFINE_NVRAM)
        )
        with libvirt_errors("cannot undefine"):
            try:
                domain.undefineFlags(flags)
            except libvirt.libvirtError as error:
                # drivers without these features (lxc, test) refuse the flags
                if error.get_error_code() not in (libvirt.VIR_ERR_INVALID_ARG, libvirt.VIR_ERR_NO_SUPPORT):
                    raise
                domain.undefine()
        if self.domain(uuid) is not None:
            raise model_errors.BackendError("still exists after its removal.", hint="Another process started it meanwhile; run again.")

    def _lookup(self, uuid: str) -> t.Any:
        with libvirt_errors(f"cannot find the domain {uuid}"):
            return self.connection.lookupByUUIDString(uuid)

    @staticmethod
    def _resume(domain: t.Any) -> None:
        """Resume a paused domain, or wake one that its guest suspended."""
        state = domain.state(0)[0]
        if state == libvirt.VIR_DOMAIN_PMSUSPENDED:
            domain.pMWakeup(0)
        elif state == libvirt.VIR_DOMAIN_PAUSED:
            try:
                domain.resume()
            except libvirt.libvirtError:
                # another process resumed it
                if domain.state(0)[0] not in _RUNNING:
                    raise

    @staticmethod
    def _request_shutdown(domain: t.Any) -> bool:
        """Request a shutdown of the guest; false when that is not possible."""
        if domain.OSType() == "exe" and io_container_process.ask_systemd(domain.ID()):
            return True
        try:
            domain.shutdown()
            if domain.OSType() == "exe":
                # libvirt 9 reports success without effect for a container whose init has no control pipe
                domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_SIGNAL)
            return True
        except libvirt.libvirtError:
            return not _active(domain)

    @staticmethod
    def _read_domain(domain: t.Any) -> DomainRecord:
        # libvirt completes a start that a killed run requested: until then the domain is reported as paused
        wait_until(_STARTING, lambda: tuple(domain.state(0)) != (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP))
        active = bool(domain.isActive())
        code = domain.state(0)[0]
        state = "running" if active else "shutdown"
        if code == libvirt.VIR_DOMAIN_PAUSED:
            state = "paused"
        elif code == libvirt.VIR_DOMAIN_PMSUSPENDED:
            state = "suspended"
        elif code == libvirt.VIR_DOMAIN_CRASHED:
            state = "crashed"
        persistent = bool(domain.isPersistent())
        return _record(domain, state, active, persistent, persistent and bool(domain.autostart()))


def _all(listed: t.Sequence[t.Any], read: t.Callable[[t.Any], DomainRecord]) -> list[DomainRecord]:
    """The records of the domains in their order, without those that disappear meanwhile.

    libvirtd creates the documents of several domains in parallel, and most of the time is spent waiting for it.
    """
    found: dict[int, DomainRecord] = {}
    failures: list[BaseException] = []

    def share(first: int) -> None:
        try:
            for index in range(first, len(listed), _READERS):
                try:
                    found[index] = read(listed[index])
                except libvirt.libvirtError as error:
                    if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                        raise
        except BaseException as error:  # pylint: disable=broad-except
            # raised in the calling thread: a domain that was not read must not count as missing
            failures.append(error)

    threads = [threading.Thread(target=share, args=(first,)) for first in range(min(_READERS, len(listed)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [found[index] for index in sorted(found)]


def _record(domain: t.Any, state: str, active: bool, persistent: bool, autostart: bool) -> DomainRecord:
    return DomainRecord(
        name=domain.name(),
        uuid=domain.UUIDString(),
        state=state,
        autostart=autostart,
        persistent=persistent,
        # for a transient domain, the definition it would have
        config_xml=_document(domain, libvirt.VIR_DOMAIN_XML_INACTIVE),
        live_xml=_document(domain, 0) if active else None,
    )


def _document(domain: t.Any, flags: int) -> str:
    """A document, with its passwords where the metadata of this collection record that it has some: they are stored nowhere else."""
    text = domain.XMLDesc(flags)
    return domain.XMLDesc(flags | libvirt.VIR_DOMAIN_XML_SECURE) if _PASSWORD in text else text


def _active(domain: t.Any) -> bool:
    """Whether a domain still has a process; false for a transient domain that no longer exists."""
    try:
        return bool(domain.isActive())
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return False
        raise


def wait_until(timeout: float, condition: t.Callable[[], bool]) -> bool:
    """Wait until a condition is true; false after the timeout."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL)
    return True
