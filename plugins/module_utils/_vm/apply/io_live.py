# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of a running domain. Each waits until it is in effect, up to a timeout.

A refusal of the guest or driver raises :class:`LiveRefusal` with libvirt's own message: the change
then waits for the next start. Any other failure is an ordinary :class:`BackendError`.
"""

from __future__ import annotations

import contextlib
import re
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains

_POLL = 0.2
# a guest that makes less progress than this part of the change within the timeout could keep the run waiting for days
_LEAST_PROGRESS = 100
_MEMORY = re.compile(r"<currentMemory unit='KiB'>([0-9]+)</currentMemory>")


class LiveRefusal(model_errors.BackendError):
    """The running guest or the driver refuses the change."""


class LiveDomain:
    """A running domain to change.

    :arg timeout: seconds to wait for the guest; for memory, seconds without any progress.
    """

    def __init__(self, host: io_domains.DomainHost, uuid: str, timeout: float = 10) -> None:
        self._host = host
        self._timeout = timeout
        with io_domains.libvirt_errors(f"cannot find the domain {uuid}"):
            self._domain = host.connection.lookupByUUIDString(uuid)

    def xml(self) -> str:
        """The running configuration."""
        with io_domains.libvirt_errors("cannot read the running domain"):
            return self._domain.XMLDesc(0)

    def attach(self, *forms: str) -> None:
        """Attach a device.

        :arg forms: the XML of the device, and alternatives to try when the previous one is refused.
        """
        for number, form in enumerate(forms, start=1):
            try:
                with self._refusals():
                    self._domain.attachDeviceFlags(form, io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE)
                return
            except LiveRefusal:
                if number == len(forms):
                    raise

    def detach(self, form: str, gone: t.Callable[[str], bool]) -> None:
        """Detach a device and wait until the guest has released it.

        :arg gone: returns, for the live document, whether the device is detached.
        """
        with self._refusals():
            self._domain.detachDeviceFlags(form, io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE)
        if not self._wait_until(lambda: gone(self._domain.XMLDesc(0))):
            raise LiveRefusal("the guest did not release the device")

    def update(self, form: str) -> None:
        """Change a device in place: the network of a NIC, its link, the medium in a drive."""
        with self._refusals():
            self._domain.updateDeviceFlags(form, io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def set_memory(self, kib: int) -> None:
        """Set the current memory of the guest in KiB, and wait while it makes progress."""
        with self._refusals():
            self._domain.setMemoryFlags(kib, io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE)
        with io_domains.libvirt_errors("cannot read the memory"):
            left, deadline = 0, 0.0
            step: int | None = None
            while True:
                # info() of a container reports its usage, not its limit
                found = _MEMORY.search(self._domain.XMLDesc(0))
                now = abs(int(found.group(1)) - kib) if found else 0
                if not now:
                    return
                if step is None or now <= left - step:
                    step = max(1, now // _LEAST_PROGRESS) if step is None else step
                    left, deadline = now, time.monotonic() + self._timeout
                if time.monotonic() >= deadline:
                    raise LiveRefusal(f"the memory of the guest still differs by {now} KiB")
                time.sleep(_POLL)

    def set_vcpus(self, count: int) -> None:
        """Set the number of current virtual CPUs."""
        with self._refusals():
            self._domain.setVcpusFlags(count, io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE)
        if not self._wait_until(lambda: self._domain.vcpusFlags(io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE) == count):
            raise LiveRefusal("the guest did not change the number of its CPUs")

    def set_text(self, what: str, text: str | None) -> None:
        """Change the ``title`` or the ``description``."""
        kind = io_domains.libvirt.VIR_DOMAIN_METADATA_TITLE if what == "title" else io_domains.libvirt.VIR_DOMAIN_METADATA_DESCRIPTION
        with self._refusals():
            self._domain.setMetadata(kind, text, None, None, io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def _wait_until(self, condition: t.Callable[[], bool]) -> bool:
        with io_domains.libvirt_errors("cannot read the running domain"):
            return io_domains.wait_until(self._timeout, condition)

    @contextlib.contextmanager
    def _refusals(self) -> t.Iterator[None]:
        try:
            yield
        except io_domains.libvirt.libvirtError as error:
            message = error.get_error_message() or str(error)
            if not self._host.alive():
                raise model_errors.BackendError(f"{message}.") from error
            raise LiveRefusal(message) from error
