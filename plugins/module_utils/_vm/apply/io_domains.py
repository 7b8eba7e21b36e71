# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connections to libvirt: domains as records, and what can be done to one.

The only place that talks to libvirt about domains. Every failure comes out as
:class:`BackendError` with libvirt's own words.
"""

from __future__ import annotations

import contextlib
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

# one address per driver; kvm and qemu are the same one
DRIVER_URIS: t.Mapping[str, str] = {"kvm": "qemu:///system", "qemu": "qemu:///system", "lxc": "lxc:///system"}

#: Seconds in which libvirtd notices that a container's process has ended.
_NOTICES = 5.0
_POLL = 0.2
_LOST = "See to it that libvirtd runs on the host, then run again: it takes up what is missing."
_SAID = 2000
_PASSWORD = " passwd="  # of a VNC or SPICE display, in the document that was applied
_STARTING = 30  # seconds a start may take until libvirt lets the guest run
_READERS = 4  # documents asked for at once
_RUNNING = (1, 2)  # VIR_DOMAIN_RUNNING and VIR_DOMAIN_BLOCKED, known before the bindings are


class DomainRecord(t.NamedTuple):
    """A domain as libvirt has it: ``state`` is running, paused, suspended, shutdown or crashed.

    ``config_xml`` is what it will be after its next start, ``live_xml`` what runs now (``None``
    when it does not run). A crashed one may be both: libvirt can keep its remains for a look.
    Both may hold passwords; whoever shows them hides those (``_vm.compare.xml_hidden``).
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
        """Whether it has a process: it runs, is paused, suspended, or a crashed one that is kept."""
        return self.live_xml is not None


@contextlib.contextmanager
def libvirt_errors(what: str, hint: str | None = None) -> t.Iterator[None]:
    """Turn libvirt's exception into ours, with what was being done."""
    try:
        yield
    except libvirt.libvirtError as error:
        said = str(error.get_error_message() or error)
        # libvirt repeats a value of any length
        said = said if len(said) <= _SAID else f"{said[:_SAID]}..."
        if hint is None and error.get_error_domain() == libvirt.VIR_FROM_RPC:
            # of a daemon that goes in the middle the words are those of a socket
            said, hint = f"the connection to libvirtd was lost ({said.rstrip('.')})", _LOST
        raise model_errors.BackendError(f"{what}: {said}.", hint=hint) from error


class DomainHost:
    """One open connection. Use as a context manager.

    :arg uri: address of the driver, e.g. ``qemu:///system``.
    :raises BackendError: libvirt for Python is missing, or nobody answers.
    """

    def __init__(self, uri: str) -> None:
        if LIBVIRT_ERROR is not None:
            raise model_errors.BackendError("libvirt's Python bindings are not installed.", hint="Install python3-libvirt on the host.") from LIBVIRT_ERROR
        # libvirt prints every error to stderr otherwise, also the expected ones
        libvirt.registerErrorHandler(lambda unused, error: None, None)
        self.uri = uri
        with libvirt_errors(f"cannot connect to {uri}", "Check that libvirtd runs on the host and has this driver."):
            self.connection = libvirt.open(uri)

    def __enter__(self) -> DomainHost:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a broken one is as good as closed."""
        with contextlib.suppress(libvirt.libvirtError):
            self.connection.close()

    @property
    def local(self) -> bool:
        """Whether its libvirt, and so its files, are those of this host."""
        return self.uri.partition("://")[2].startswith("/")

    def alive(self) -> bool:
        """Whether somebody still answers at the other end."""
        try:
            return self.connection.isAlive() == 1
        except libvirt.libvirtError:
            return False

    def offers(self, kind: str) -> bool:
        """Whether libvirt says that domains of a type can be had; no proof that they run."""
        with libvirt_errors("cannot read the capabilities"):
            return f"<domain type='{kind}'" in self.connection.getCapabilities()

    def domains(self) -> list[DomainRecord]:
        """Every domain of this driver; one that vanishes meanwhile is left out.

        What can be asked of all at once is: a question per domain costs more than all comparing.
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
            return self._ask_all(domain)

        with libvirt_errors("cannot read the domains"):
            return _all(listed, read)

    def _uuids(self, flag: int) -> set[str]:
        return {domain.UUIDString() for domain in self.connection.listAllDomains(flag)}

    def domain(self, uuid: str) -> DomainRecord | None:
        """One domain, ``None`` when there is none."""
        with libvirt_errors(f"cannot read the domain {uuid}"):
            try:
                return self._ask_all(self.connection.lookupByUUIDString(uuid))
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return None
                raise

    def config_xml(self, uuid: str) -> str:
        """The definition of a domain with its passwords, for a new definition alone: never to be shown."""
        with libvirt_errors("cannot read the definition"):
            return self._lookup(uuid).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)

    def define(self, xml: str) -> str:
        """Define a domain or replace the definition of the one with the same name and UUID.

        :returns: the definition as libvirt has it now.
        """
        with libvirt_errors("libvirt refuses the document", "Correct the template or the VM's details."):
            return _document(self.connection.defineXML(xml), libvirt.VIR_DOMAIN_XML_INACTIVE)

    def set_metadata(self, uuid: str, namespace: str, prefix: str, xml: str | None, live: bool = False) -> None:
        """Replace one element of the metadata, of the definition or of what runs; the rest of the document stays.

        :arg xml: the element without its namespace; ``None`` removes it.
        """
        flags = libvirt.VIR_DOMAIN_AFFECT_LIVE if live else libvirt.VIR_DOMAIN_AFFECT_CONFIG
        with libvirt_errors("cannot write the metadata"):
            self._lookup(uuid).setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, xml, prefix, namespace, flags)

    def saved_xml(self, uuid: str) -> str | None:
        """The document a suspended-to-disk domain goes on with at its next start; ``None`` where nothing is saved."""
        with libvirt_errors("cannot read the saved memory"):
            domain = self._lookup(uuid)
            try:
                return domain.managedSaveGetXMLDesc(0) if domain.hasManagedSaveImage(0) else None
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT:
                    return None
                raise

    def set_autostart(self, uuid: str, wanted: bool) -> None:
        """Whether the domain comes up with its host."""
        with libvirt_errors("cannot set autostart"):
            self._lookup(uuid).setAutostart(int(wanted))

    def start(self, uuid: str) -> None:
        """Start a domain; one that runs already is fine."""
        domain = self._lookup(uuid)
        with libvirt_errors("cannot start"):
            try:
                domain.create()
            except libvirt.libvirtError:
                if not domain.isActive():
                    raise

    def resume(self, uuid: str, timeout: float = 10) -> None:
        """Let a paused or suspended domain run on, and see to it that it does.

        :raises BackendError: it does not, with the reason libvirt gives.
        """
        domain = self._lookup(uuid)
        with libvirt_errors("cannot resume"):
            self._wake(domain)
            if not _within(timeout, lambda: domain.state(0)[0] in _RUNNING):
                state, reason = domain.state(0)
                why = "after an I/O error" if (state, reason) == (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR) else "again"
                raise model_errors.BackendError(f"is paused {why}.", hint="Look at its log below /var/log/libvirt and at the space of its pool.")

    def shutdown(self, uuid: str, timeout: float, force: bool) -> None:
        """Stop a domain: ask it, wait, and only with ``force`` cut its power.

        One that is paused or suspended goes on first, so that it can obey. The remains of a crashed
        one are cleared at once.

        :arg timeout: seconds it gets to obey.
        :raises BackendError: it still runs.
        """
        domain = self._lookup(uuid)
        with libvirt_errors("cannot shut down"):
            asked = False
            if domain.state(0)[0] != libvirt.VIR_DOMAIN_CRASHED:
                with contextlib.suppress(libvirt.libvirtError):
                    self._wake(domain)
                controller = io_container_process.controller(domain)
                asked = self._ask(domain)
                if asked and _within(timeout, lambda: not _active(domain) or io_container_process.ended(controller)):
                    if not _within(_NOTICES, lambda: not _active(domain)):
                        # a libvirtd that lost sight of a container's process takes it for running for ever
                        domain.destroy()
                    return
                if _active(domain) and not force:
                    raise model_errors.BackendError(
                        f"still runs {timeout:g} s after it was asked to shut down.", hint="Raise shutdown_timeout, or allow force."
                    )
            if not _active(domain):
                return
            with contextlib.suppress(libvirt.libvirtError):
                domain.destroy()
            if _active(domain):
                domain.destroy()

    def undefine(self, uuid: str) -> None:
        """Forget a domain with its NVRAM, saved state and snapshot records; its disks stay.

        :raises BackendError: it is still there afterwards.
        """
        record = self.domain(uuid)
        if record is None:
            # a transient one went with its process
            return
        domain = self._lookup(uuid)
        flags = (
            libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
            | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
            | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
            | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
        )
        with libvirt_errors("cannot undefine"):
            try:
                domain.undefineFlags(flags)
            except libvirt.libvirtError as error:
                # drivers without any of these things (lxc, test) refuse the flags as such
                if error.get_error_code() not in (libvirt.VIR_ERR_INVALID_ARG, libvirt.VIR_ERR_NO_SUPPORT):
                    raise
                domain.undefine()
        if self.domain(uuid) is not None:
            raise model_errors.BackendError("is still there after its removal.", hint="Somebody started it meanwhile; run again.")

    def _lookup(self, uuid: str) -> t.Any:
        with libvirt_errors(f"cannot find the domain {uuid}"):
            return self.connection.lookupByUUIDString(uuid)

    @staticmethod
    def _wake(domain: t.Any) -> None:
        """Let a domain run on that is paused, or suspended by its own system."""
        state = domain.state(0)[0]
        if state == libvirt.VIR_DOMAIN_PMSUSPENDED:
            domain.pMWakeup(0)
        elif state == libvirt.VIR_DOMAIN_PAUSED:
            try:
                domain.resume()
            except libvirt.libvirtError:
                # somebody else was faster
                if domain.state(0)[0] not in _RUNNING:
                    raise

    @staticmethod
    def _ask(domain: t.Any) -> bool:
        """Ask a guest to shut down; false when there is no way to ask it."""
        if domain.OSType() == "exe" and io_container_process.ask_systemd(domain.ID()):
            return True
        try:
            domain.shutdown()
            if domain.OSType() == "exe":
                # of a container whose init has no control pipe libvirt 9 says yes and does nothing
                domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_SIGNAL)
            return True
        except libvirt.libvirtError:
            return not _active(domain)

    @staticmethod
    def _ask_all(domain: t.Any) -> DomainRecord:
        # libvirt finishes the start a killed run asked for: until then it looks paused
        _within(_STARTING, lambda: tuple(domain.state(0)) != (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP))
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
    """What is read of each domain, in their order, without those that vanish meanwhile.

    libvirtd makes the documents of several domains at once, and waiting for it is most of what they take.
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
            # for whoever waits: one that was not read must not count as one that is not there
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
        # of a transient domain this is what its definition would be
        config_xml=_document(domain, libvirt.VIR_DOMAIN_XML_INACTIVE),
        live_xml=_document(domain, 0) if active else None,
    )


def _document(domain: t.Any, flags: int) -> str:
    """A document; with its passwords where our metadata say that it has some, for nothing else remembers them."""
    text = domain.XMLDesc(flags)
    return domain.XMLDesc(flags | libvirt.VIR_DOMAIN_XML_SECURE) if _PASSWORD in text else text


def _active(domain: t.Any) -> bool:
    """Whether a domain still has a process; a transient one that is gone has none."""
    try:
        return bool(domain.isActive())
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return False
        raise


def _within(timeout: float, true: t.Callable[[], bool]) -> bool:
    """Wait until something is true; false when it is not in time."""
    until = time.monotonic() + timeout
    while not true():
        if time.monotonic() >= until:
            return False
        time.sleep(_POLL)
    return True
