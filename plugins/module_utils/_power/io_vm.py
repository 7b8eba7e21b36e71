# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM of a libvirt host, with the same operations as a server."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_power, xml_boot
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_container_process, io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner

_POLL = 0.5
# seconds for libvirt to notice the end of a container
_EXIT_DETECTION = 5.0
_CONTAINER = "a container has no firmware"


class VmMachine(io_domains.DomainHost):
    """One domain, on an open connection. Use as a context manager.

    :raises InputError: the host has no such VM.
    """

    def __init__(self, uri: str, name: str) -> None:
        super().__init__(uri)
        found = [domain for domain in self.domains() if domain.name == name]
        if not found:
            self.close()
            raise InputError(f"the host has no VM named {name}.", "vm", "Use the name of the domain, as in `virsh list --all`.")
        self._uuid = found[0].uuid

    def read(self) -> model_power.Power:
        """Return the state of the VM."""
        record = self.domain(self._uuid)
        if record is None:
            # a transient domain that was powered off
            gone = dict.fromkeys(model_power.OPERATIONS, "the VM was transient and no longer exists")
            return model_power.Power(model_power.OFF, None, False, None, gone, self._uuid)
        unsupported = {
            model_power.BOOT_ONCE: "libvirt has no boot device for the next boot only",
            model_power.BOOT_MODE: "the firmware of a VM is part of its template",
        }
        state = model_power.OTHER if record.state == "crashed" else model_power.ON if record.active else model_power.OFF
        if not record.persistent:
            unsupported.update(dict.fromkeys((model_power.CYCLE, model_power.BOOT_DEVICE), "the VM is transient and ceases to exist when it is off"))
        if xml_boot.is_container(record.config_xml):
            unsupported.update(dict.fromkeys((model_power.BOOT_DEVICE, model_power.BOOT_ONCE, model_power.BOOT_MODE), _CONTAINER))
            return model_power.Power(state, None, False, None, unsupported, self._uuid)
        device, mode = xml_boot.device(record.config_xml), xml_boot.mode(record.config_xml)
        return model_power.Power(state, device, False, mode, unsupported, self._uuid)

    def check(self, boot: model_power.Boot | None, operation: str | None) -> None:
        """Check that the VM has a boot device, and that it may run.

        :raises UnsupportedError: it has no such device.
        :raises RefusedError: the VM was moved to another host, where it may run.
        """
        if boot and boot.device:
            xml_boot.with_device(self.config_xml(self._uuid), boot.device)
        record = io_owner.away(self._uuid) if operation and self.local else None
        if record is None:
            return
        if operation in (model_power.ON, model_power.CYCLE):
            raise RefusedError(f"this copy of the VM must not run: the VM was moved to {record.where}.", "vm", f"Use the VM on {record.where}.")
        found = self.domain(self._uuid)
        if operation == model_power.SOFT and found is not None and found.state in ("paused", "suspended"):
            raise RefusedError(
                f"this copy of the VM must not run, not even for a shutdown: the VM was moved to {record.where}.", "vm", "Use state: off.",
            )

    def set_boot(self, change: model_power.Boot) -> model_power.Power:
        """Set the first boot device of the definition; it is used from the next start."""
        if change.device:
            self.define(xml_boot.with_device(self.config_xml(self._uuid), change.device))
        return self.read()

    def set_power(self, operation: str) -> None:
        """Change the power state; a shutdown is only requested."""
        if operation == model_power.SOFT:
            self._soft()
            return
        if operation == model_power.OFF or self.read().state == model_power.OTHER:
            self._destroy()
        if operation == model_power.ON:
            self.start(self._uuid)

    def cycle(self, timeout: float) -> None:
        """Power the VM off and on; libvirt returns when either is done, so there is nothing to wait for."""
        self._destroy()
        self.start(self._uuid)

    def wait(self, state: str, timeout: float) -> model_power.Power:
        """Wait for a power state.

        :raises BackendError: the state is another one after the timeout.
        """
        deadline, ended = time.monotonic() + timeout, None
        while True:
            found = self.read()
            if found.state == state:
                return found
            if state == model_power.OFF and self._forgotten():
                ended = ended or time.monotonic()
                if time.monotonic() - ended >= _EXIT_DETECTION:
                    self._destroy()
            if time.monotonic() >= deadline:
                hint = "Raise wait_timeout, check that the guest reacts to a shutdown, or use state: off."
                raise BackendError(f"the VM is not {state} after {timeout:g} s: it is {found.state}.", hint=hint)
            time.sleep(_POLL)

    def _soft(self) -> None:
        if self._forgotten():
            # it has ended already
            return
        domain = self._lookup(self._uuid)
        with io_domains.libvirt_errors("cannot shut down"):
            with contextlib.suppress(io_domains.libvirt.libvirtError):
                # a paused guest does not react
                self._resume(domain)
            if not self._request_shutdown(domain):
                raise BackendError("the VM takes no shutdown request.", hint="Use state: off.")

    def _forgotten(self) -> bool:
        with io_domains.libvirt_errors("cannot be queried"):
            try:
                return self.local and io_container_process.forgotten(self._lookup(self._uuid))
            except io_domains.libvirt.libvirtError:
                # a transient one is gone
                return False

    def _destroy(self) -> None:
        domain = self._lookup(self._uuid)
        with io_domains.libvirt_errors("cannot power off"):
            try:
                domain.destroy()
            except io_domains.libvirt.libvirtError:
                record = self.domain(self._uuid)
                if record is not None and record.active:
                    raise


def find(name: str, uri: str | None) -> VmMachine:
    """Return a VM by its name, of any driver of the host if no URI is given.

    :raises InputError: the host has no such VM.
    :raises RefusedError: two drivers have a VM of this name.
    :raises BackendError: no driver answers.
    """
    uris = [uri] if uri else sorted(set(io_domains.DRIVER_URIS.values()))
    found: dict[str, VmMachine] = {}
    problems: list[t.Any] = []
    for each in uris:
        try:
            found[each] = VmMachine(each, name)
        except (InputError, BackendError) as error:
            problems.append(error)
    if len(found) > 1:
        for machine in found.values():
            machine.close()
        raise RefusedError(f"the host has {len(found)} VMs named {name}.", "uri", f"Set uri to select one of them: {' or '.join(found)}.")
    if found:
        return next(iter(found.values()))
    # a driver that is not installed has no VMs
    raise next((each for each in problems if isinstance(each, InputError)), problems[0])
