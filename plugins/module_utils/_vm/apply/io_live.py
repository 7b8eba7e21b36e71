# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of a running domain. Each waits, for a while, until it is so.

A guest or driver that does not do it is :class:`LiveRefusal` with libvirt's own words: the change
waits for the next start then. Anything else that goes wrong is an ordinary :class:`BackendError`.
"""

from __future__ import annotations

import contextlib
import re
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains

_POLL = 0.2
_MEMORY = re.compile(r"<currentMemory unit='KiB'>([0-9]+)</currentMemory>")


class LiveRefusal(model_errors.BackendError):
    """The running guest, or the driver, does not do it."""


class LiveDomain:
    """A running domain that is to be changed.

    :arg timeout: seconds a guest gets to do its part; with memory, seconds without any progress.
    """

    def __init__(self, host: io_domains.DomainHost, uuid: str, timeout: float = 10) -> None:
        self._host = host
        self._timeout = timeout
        with io_domains.libvirt_errors(f"cannot find the domain {uuid}"):
            self._domain = host.connection.lookupByUUIDString(uuid)

    def xml(self) -> str:
        """What runs now."""
        with io_domains.libvirt_errors("cannot read the running domain"):
            return self._domain.XMLDesc(0)

    def attach(self, *forms: str) -> None:
        """Plug a device in.

        :arg forms: the device's document, and further ones to try when the one before is refused.
        """
        for number, form in enumerate(forms, start=1):
            try:
                with self._asked():
                    self._domain.attachDeviceFlags(form, io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE)
                return
            except LiveRefusal:
                if number == len(forms):
                    raise

    def detach(self, form: str, gone: t.Callable[[str], bool]) -> None:
        """Unplug a device and wait until the guest has let go of it.

        :arg gone: tells from the live document whether it is.
        """
        with self._asked():
            self._domain.detachDeviceFlags(form, io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE)
        if not self._within(lambda: gone(self._domain.XMLDesc(0))):
            raise LiveRefusal("the guest did not let go of the device")

    def update(self, form: str) -> None:
        """Change a device in place: the network of a NIC, its link, the medium in a drive."""
        with self._asked():
            self._domain.updateDeviceFlags(form, io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def set_memory(self, kib: int) -> None:
        """Have the guest give memory back or take it, in KiB, and wait while it gets anywhere."""
        with self._asked():
            self._domain.setMemoryFlags(kib, io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE)
        with io_domains.libvirt_errors("cannot read the memory"):
            left, until = None, 0.0
            while True:
                # of a container info() tells what it uses, not what it may
                found = _MEMORY.search(self._domain.XMLDesc(0))
                now = abs(int(found.group(1)) - kib) if found else 0
                if not now:
                    return
                if left is None or now < left:
                    left, until = now, time.monotonic() + self._timeout
                if time.monotonic() >= until:
                    raise LiveRefusal(f"the guest is still {now} KiB away from it")
                time.sleep(_POLL)

    def set_vcpus(self, count: int) -> None:
        """Plug virtual CPUs in or out."""
        with self._asked():
            self._domain.setVcpusFlags(count, io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE)
        if not self._within(lambda: self._domain.vcpusFlags(io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE) == count):
            raise LiveRefusal("the guest did not change its CPUs")

    def set_text(self, what: str, text: str | None) -> None:
        """Change the ``title`` or the ``description``."""
        kind = io_domains.libvirt.VIR_DOMAIN_METADATA_TITLE if what == "title" else io_domains.libvirt.VIR_DOMAIN_METADATA_DESCRIPTION
        with self._asked():
            self._domain.setMetadata(kind, text, None, None, io_domains.libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def _within(self, true: t.Callable[[], bool]) -> bool:
        until = time.monotonic() + self._timeout
        with io_domains.libvirt_errors("cannot read the running domain"):
            while not true():
                if time.monotonic() >= until:
                    return False
                time.sleep(_POLL)
        return True

    @contextlib.contextmanager
    def _asked(self) -> t.Iterator[None]:
        try:
            yield
        except io_domains.libvirt.libvirtError as error:
            said = error.get_error_message() or str(error)
            if not self._host.alive():
                raise model_errors.BackendError(f"{said}.") from error
            raise LiveRefusal(said) from error
