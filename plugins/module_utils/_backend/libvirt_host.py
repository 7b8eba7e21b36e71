# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of libvirt that concerns the host: pools, the load of other guests, the proof of containers."""

from __future__ import annotations

import os
import time
import typing as t
from xml.sax.saxutils import escape, unescape

try:
    import libvirt
except ImportError:
    libvirt = None

from ansible_collections.reduced.footprint.plugins.module_utils._backend.files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._model.node import PoolCapacity

LIBVIRT_MISSING = "the Python bindings of libvirt are not installed"
_MEND = "Run the role reduced.footprint.virt_host on this host first."


class LibvirtHost:
    """One connection to libvirt; a context manager.

    :raises BackendError: no bindings, or libvirt does not answer.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._connection: t.Any = None

    def __enter__(self) -> LibvirtHost:
        if libvirt is None:
            raise BackendError(f"{LIBVIRT_MISSING}.", mend=_MEND)
        # libvirt would otherwise also write its errors to standard error
        libvirt.registerErrorHandler(lambda context, error: None, None)
        try:
            self._connection = libvirt.open(self._uri)
        except libvirt.libvirtError as error:
            raise BackendError(f"libvirt does not answer at {self._uri}: {error}.", mend=_MEND) from error
        return self

    def __exit__(self, *unused: t.Any) -> None:
        try:
            self._connection.close()
        except libvirt.libvirtError:
            pass

    def load_of_others(self, known: t.Container[str]) -> tuple[int, int]:
        """MiB and vCPUs of the running guests whose UUID is not ``known``."""
        memory = vcpus = 0
        for domain in self._ask("list the guests", self._connection.listAllDomains, libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
            try:
                if domain.UUIDString() not in known:
                    info = domain.info()
                    memory += info[1] // 1024
                    vcpus += info[3]
            except libvirt.libvirtError:
                continue  # it ended while being asked
        return memory, vcpus

    def pool(self, name: str) -> tuple[PoolCapacity, bool, bool] | None:
        """A pool with whether it is active and whether it starts with the host; ``None`` when there is none.

        An inactive pool has no sizes: all are 0.
        """
        try:
            pool = self._connection.storagePoolLookupByName(name)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_POOL:
                return None
            raise BackendError(f"cannot look up the pool {name}: {error}.") from error
        active = bool(self._ask("read the pool", pool.isActive))
        autostart = bool(self._ask("read the pool", pool.autostart))
        path = _text_between(self._ask("read the pool", pool.XMLDesc, 0), "path")
        if not active:
            return PoolCapacity(name, path, 0, 0, {}), active, autostart
        self._ask(f"refresh the pool {name}", pool.refresh, 0)
        info = self._ask("read the pool", pool.info)
        volumes = {}
        for volume in self._ask("list the volumes", pool.listAllVolumes, 0):
            try:
                volumes[volume.name()] = tuple(volume.info()[1:3])
            except libvirt.libvirtError:
                continue  # removed while being asked
        return PoolCapacity(name, path, info[1], info[3], volumes), active, autostart

    def make_pool(self, name: str, path: str) -> None:
        """Define the directory pool if there is none, then see to it that it is active and starts with the host.

        Each step is taken only where it is missing, so a call that was cut short is completed by the next.
        """
        try:
            pool = self._connection.storagePoolLookupByName(name)
        except libvirt.libvirtError:
            os.makedirs(path, mode=0o711, exist_ok=True)
            xml = f"<pool type='dir'><name>{escape(name)}</name><target><path>{escape(path)}</path></target></pool>"
            pool = self._ask(f"define the pool {name}", self._connection.storagePoolDefineXML, xml, 0)
        if not pool.isActive():
            os.makedirs(path, mode=0o711, exist_ok=True)
            self._ask(f"start the pool {name}", pool.create, 0)
        if not pool.autostart():
            self._ask(f"let the pool {name} start with the host", pool.setAutostart, 1)

    def prove_container(self, xml: str, timeout: float) -> tuple[bool, str]:
        """Start a transient container, see its process in its own namespace, and destroy it.

        The container goes with the connection, so nothing stays when this process is killed.
        """
        try:
            domain = self._connection.createXML(xml, libvirt.VIR_DOMAIN_START_AUTODESTROY)
        except libvirt.libvirtError as error:
            return False, str(error)
        try:
            deadline = time.monotonic() + timeout
            while time.monotonic() < deadline:
                if not domain.isActive():
                    return False, "the container ended at once"
                if _own_namespace_below(domain.ID()):
                    return True, "a container ran in its own namespace"
                time.sleep(0.05)
            return False, f"hung after {timeout:g} s: no process in a namespace of its own"
        except libvirt.libvirtError as error:
            return False, str(error)
        finally:
            try:
                domain.destroy()
            except libvirt.libvirtError:
                pass  # already gone

    @staticmethod
    def _ask(what: str, call: t.Callable[..., t.Any], *arguments: t.Any) -> t.Any:
        try:
            return call(*arguments)
        except libvirt.libvirtError as error:
            raise BackendError(f"cannot {what}: {error}.") from error


def _own_namespace_below(controller: int) -> bool:
    """Whether the container's controller has a child that sees other processes than we do."""
    children = read_text(f"/proc/{controller}/task/{controller}/children") or ""
    for child in children.split():
        try:
            if os.readlink(f"/proc/{child}/ns/pid") != os.readlink("/proc/self/ns/pid"):
                return True
        except OSError:
            continue
    return False


def _text_between(xml: str, tag: str) -> str | None:
    start, end = xml.find(f"<{tag}>"), xml.find(f"</{tag}>")
    if not 0 <= start < end:
        return None
    return unescape(xml[start + len(tag) + 2 : end], {"&apos;": "'", "&quot;": '"'})
