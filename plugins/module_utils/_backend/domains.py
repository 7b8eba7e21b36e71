# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connections to libvirt: domains as records, and what can be done to one.

The only place that talks to libvirt about domains. Every failure comes out as
:class:`BackendError` with libvirt's own words.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError

try:
    import libvirt

    LIBVIRT_ERROR: ImportError | None = None
except ImportError as error:
    libvirt = None
    LIBVIRT_ERROR = error

# one address per driver; kvm and qemu are the same one
DRIVER_URIS: t.Mapping[str, str] = {"kvm": "qemu:///system", "qemu": "qemu:///system", "lxc": "lxc:///system"}

_POLL = 0.2


@dataclasses.dataclass(frozen=True)
class DomainRecord:
    """A domain as libvirt has it: ``state`` is running, paused, shutdown or crashed.

    ``config_xml`` is what it will be after its next start, ``live_xml`` what runs now (``None``
    when it does not run).
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
        """Whether it runs or is paused."""
        return self.live_xml is not None


@contextlib.contextmanager
def told(what: str, mend: str | None = None) -> t.Iterator[None]:
    """Turn libvirt's exception into ours, with what was being done."""
    try:
        yield
    except libvirt.libvirtError as error:
        raise BackendError(f"{what}: {error.get_error_message() or error}.", mend=mend) from error


class DomainHost:
    """One open connection. Use as a context manager.

    :arg uri: address of the driver, e.g. ``qemu:///system``.
    :raises BackendError: libvirt for Python is missing, or nobody answers.
    """

    def __init__(self, uri: str) -> None:
        if LIBVIRT_ERROR is not None:
            raise BackendError("libvirt's Python bindings are not installed.", mend="Install python3-libvirt on the host.") from LIBVIRT_ERROR
        # libvirt prints every error to stderr otherwise, also the expected ones
        libvirt.registerErrorHandler(lambda unused, error: None, None)
        self.uri = uri
        with told(f"cannot connect to {uri}", "Check that libvirtd runs on the host and has this driver."):
            self.connection = libvirt.open(uri)

    def __enter__(self) -> DomainHost:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a broken one is as good as closed."""
        with contextlib.suppress(libvirt.libvirtError):
            self.connection.close()

    def domains(self) -> list[DomainRecord]:
        """Every domain of this driver; one that vanishes meanwhile is left out."""
        records = []
        with told("cannot list the domains"):
            listed = self.connection.listAllDomains(0)
        for domain in listed:
            with contextlib.suppress(libvirt.libvirtError):
                records.append(self._record(domain))
        return records

    def domain(self, uuid: str) -> DomainRecord | None:
        """One domain, ``None`` when there is none."""
        with told(f"cannot read the domain {uuid}"):
            try:
                return self._record(self.connection.lookupByUUIDString(uuid))
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return None
                raise

    def define(self, xml: str) -> None:
        """Define a domain or replace the definition of the one with the same name and UUID (X5)."""
        with told("libvirt refuses the document", "Mend the template or the VM's details."):
            self.connection.defineXML(xml)

    def set_autostart(self, uuid: str, wanted: bool) -> None:
        """Whether the domain comes up with its host."""
        with told("cannot set autostart"):
            self._lookup(uuid).setAutostart(int(wanted))

    def start(self, uuid: str) -> None:
        """Start a domain; one that runs already is fine."""
        domain = self._lookup(uuid)
        with told("cannot start"):
            try:
                domain.create()
            except libvirt.libvirtError:
                if not domain.isActive():
                    raise

    def resume(self, uuid: str) -> None:
        """Let a paused domain run on."""
        with told("cannot resume"):
            self._lookup(uuid).resume()

    def shutdown(self, uuid: str, timeout: float, force: bool) -> None:
        """Stop a domain: ask it, wait, and only with ``force`` cut its power.

        :arg timeout: seconds it gets to obey.
        :raises BackendError: it still runs.
        """
        domain = self._lookup(uuid)
        with told("cannot shut down"):
            asked = self._ask(domain)
            until = time.monotonic() + timeout
            while asked and domain.isActive() and time.monotonic() < until:
                time.sleep(_POLL)
            if not domain.isActive():
                return
            if not force:
                raise BackendError(f"still runs {timeout:g} s after it was asked to shut down.", mend="Raise shutdown_timeout, or allow force.")
            with contextlib.suppress(libvirt.libvirtError):
                domain.destroy()
            if domain.isActive():
                domain.destroy()

    def undefine(self, uuid: str) -> None:
        """Forget a domain with its NVRAM, saved state and snapshot records; its disks stay."""
        domain = self._lookup(uuid)
        flags = (
            libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
            | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
            | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
            | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
        )
        with told("cannot undefine"):
            try:
                domain.undefineFlags(flags)
            except libvirt.libvirtError as error:
                # drivers without any of these things (lxc, test) refuse the flags as such
                if error.get_error_code() not in (libvirt.VIR_ERR_INVALID_ARG, libvirt.VIR_ERR_NO_SUPPORT):
                    raise
                domain.undefine()

    def _lookup(self, uuid: str) -> t.Any:
        with told(f"cannot find the domain {uuid}"):
            return self.connection.lookupByUUIDString(uuid)

    @staticmethod
    def _ask(domain: t.Any) -> bool:
        """Ask a guest to shut down; false when there is no way to ask it."""
        if domain.OSType() == "exe" and _ask_systemd(domain.ID()):
            return True
        try:
            domain.shutdown()
            return True
        except libvirt.libvirtError:
            if not domain.isActive():
                return True
            return False

    @staticmethod
    def _record(domain: t.Any) -> DomainRecord:
        active = bool(domain.isActive())
        code = domain.state(0)[0]
        state = "running" if active else "shutdown"
        if code in (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PMSUSPENDED):
            state = "paused"
        elif code == libvirt.VIR_DOMAIN_CRASHED:
            state = "crashed"
        persistent = bool(domain.isPersistent())
        return DomainRecord(
            name=domain.name(),
            uuid=domain.UUIDString(),
            state=state,
            autostart=bool(domain.autostart()) if persistent else False,
            persistent=persistent,
            config_xml=domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE if persistent else 0),
            live_xml=domain.XMLDesc(0) if active else None,
        )


def _ask_systemd(controller: int) -> bool:
    """Ask the systemd of a container to power off; false when its init is another one.

    libvirt itself knows the init control pipe, which newer systemd no longer has, and a signal that
    systemd takes for something else.
    """
    try:
        for child in pathlib.Path(f"/proc/{controller}/task/{controller}/children").read_text(encoding="ascii").split():
            if pathlib.Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip() == "systemd":
                os.kill(int(child), signal.SIGRTMIN + 4)
                return True
    except OSError:
        # it is gone already, or runs on another host
        pass
    return False
