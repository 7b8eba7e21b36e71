# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Access to libvirt on the host: pools, networks, the load of other guests, the container proof."""

from __future__ import annotations

import os
import time
import typing as t
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import PoolCapacity
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import LOGICAL, NETWORK, POOL, FoundNetwork, made_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, libvirt, libvirt_errors


class LibvirtHost(DomainHost):
    """A connection to libvirt, for its pools and networks."""

    def __init__(self, uri: str) -> None:
        try:
            super().__init__(uri)
        except BackendError as error:
            error.hint = f"{error.hint} The role reduced.footprint.virt_host prepares the host."
            raise

    def load_of_others(self, known: t.Container[str]) -> tuple[int, int]:
        """Return MiB and vCPUs of the active guests whose UUID is not in ``known``."""
        memory = vcpus = 0
        for domain in self._ask("list the guests", self.connection.listAllDomains, libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
            try:
                if domain.UUIDString() not in known:
                    info = domain.info()
                    memory += info[1] // 1024
                    vcpus += info[3]
            except libvirt.libvirtError:
                continue  # it has ended meanwhile
        return memory, vcpus

    def pool(self, name: str) -> tuple[PoolCapacity, bool, bool] | None:
        """Return a pool, whether it is active, and whether autostart is enabled; ``None`` if it does not exist.

        An inactive pool has no sizes: all are 0.
        """
        try:
            pool = self.connection.storagePoolLookupByName(name)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_POOL:
                return None
            raise BackendError(f"cannot look up the pool {name}: {error}.") from error
        return self._pool(pool)

    def pools(self) -> list[tuple[PoolCapacity, bool, bool]]:
        """Return every pool as in :meth:`pool`; a pool that vanishes meanwhile is omitted.

        If a pool cannot be refreshed, the volumes last known to libvirt are used.
        """
        found = []
        for pool in self._ask("list the pools", self.connection.listAllStoragePools, 0):
            try:
                found.append(self._pool(pool, anyway=True))
            except BackendError:
                if self._has(self.connection.storagePoolLookupByUUIDString, pool.UUIDString()):
                    raise
        return sorted(found, key=lambda one: one[0].name)

    def _pool(self, pool: t.Any, anyway: bool = False) -> tuple[PoolCapacity, bool, bool]:
        name = pool.name()
        active = bool(self._ask("read the pool", pool.isActive))
        autostart = bool(self._ask("read the pool", pool.autostart))
        document = ElementTree.fromstring(self._ask("read the pool", pool.XMLDesc, 0))
        path, kind, uuid = document.findtext("target/path"), document.get("type") or "", pool.UUIDString()
        source = document.findtext("source/name") if kind == LOGICAL else None
        if not active:
            return PoolCapacity(name, path, 0, 0, {}, kind, source, uuid=uuid), active, autostart
        try:
            self._ask(f"refresh the pool {name}", pool.refresh, 0)
        except BackendError:
            if not anyway:
                raise
        info = self._ask("read the pool", pool.info)
        volumes = {}
        for volume in self._ask("list the volumes", pool.listAllVolumes, 0):
            try:
                volumes[volume.name()] = tuple(volume.info()[1:3])
            except libvirt.libvirtError:
                continue  # removed meanwhile
        return PoolCapacity(name, path, info[1], info[3], volumes, kind, source, info[2], uuid=uuid), active, autostart

    def make_pool(self, name: str, path: str | None, source: str | None = None) -> None:
        """Define the pool if it does not exist, start it and enable autostart.

        Only missing steps are performed, so an interrupted call is completed by the next.

        :arg path: the folder of a ``dir`` pool, created if missing.
        :arg source: the existing volume group of a ``logical`` pool; disks are never formatted.
        """
        try:
            pool = self.connection.storagePoolLookupByName(name)
        except libvirt.libvirtError:
            if path is not None:
                os.makedirs(path, mode=0o711, exist_ok=True)
            pool = self._ask(f"define the pool {name}", self.connection.storagePoolDefineXML, _pool_xml(name, path, source), 0)
        if path is not None and not pool.isActive():
            os.makedirs(path, mode=0o711, exist_ok=True)
        self._start(f"the pool {name}", pool)

    def remove_pool(self, name: str, uuid: str) -> None:
        """Stop and undefine a pool, unless one of that name has another UUID; its content is kept."""
        self._remove(f"the pool {name}", self.connection.storagePoolLookupByUUIDString, uuid)

    def networks(self) -> list[FoundNetwork]:
        """Return every network; a network that vanishes meanwhile is omitted. Empty for a driver without networks."""
        try:
            listed = self.connection.listAllNetworks(0)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT:
                return []
            raise BackendError(f"cannot list the networks: {error}.") from error
        found = []
        for network in listed:
            try:
                document = ElementTree.fromstring(network.XMLDesc(0))
                forward, bridge = document.find("forward"), document.find("bridge")
                mode = "isolated" if forward is None else forward.get("mode") or "nat"
                name = None if bridge is None else bridge.get("name")
                found.append(FoundNetwork(network.name(), network.UUIDString(), mode, name, bool(network.isActive()), bool(network.autostart())))
            except libvirt.libvirtError:
                continue
        return sorted(found, key=lambda one: one.name)

    def make_network(self, name: str, bridge: str) -> None:
        """Define a network for a bridge of the host if it does not exist, start it and enable autostart."""
        try:
            network = self.connection.networkLookupByName(name)
        except libvirt.libvirtError:
            xml = (
                f"<network><name>{escape(name)}</name><uuid>{made_uuid(NETWORK, name)}</uuid>"
                f"<forward mode='bridge'/><bridge name='{escape(bridge)}'/></network>"
            )
            network = self._ask(f"define the network {name}", self.connection.networkDefineXML, xml)
        self._start(f"the network {name}", network)

    def remove_network(self, name: str, uuid: str) -> None:
        """Stop and undefine a network, unless one of that name has another UUID; its bridge is kept."""
        self._remove(f"the network {name}", self.connection.networkLookupByUUIDString, uuid)

    def prove_container(self, xml: str, timeout: float) -> tuple[bool, str]:
        """Start a transient container, check that its process has its own namespace, and destroy it.

        The container is destroyed with the connection, so nothing is left if this process is killed.
        """
        try:
            domain = self.connection.createXML(xml, libvirt.VIR_DOMAIN_START_AUTODESTROY)
        except libvirt.libvirtError as error:
            return False, str(error)
        try:
            deadline = time.monotonic() + timeout
            while time.monotonic() < deadline:
                if not domain.isActive():
                    return False, "the container ended immediately"
                if _own_namespace_below(domain.ID()):
                    return True, "a container ran in its own namespace"
                time.sleep(0.05)
            return False, f"hung after {timeout:g} s: no process in a separate namespace"
        except libvirt.libvirtError as error:
            return False, str(error)
        finally:
            try:
                domain.destroy()
            except libvirt.libvirtError:
                pass  # already gone

    def _start(self, what: str, found: t.Any) -> None:
        if not found.isActive():
            self._ask(f"start {what}", found.create)
        if not found.autostart():
            self._ask(f"enable autostart of {what}", found.setAutostart, 1)

    def _remove(self, what: str, look_up: t.Callable[[str], t.Any], uuid: str) -> None:
        if not self._has(look_up, uuid):
            return
        found = self._ask(f"look up {what}", look_up, uuid)
        # autostart first, so that what a killed run has stopped stays stopped
        if found.autostart():
            self._ask(f"disable autostart of {what}", found.setAutostart, 0)
        if found.isActive():
            self._ask(f"stop {what}", found.destroy)
        self._ask(f"undefine {what}", found.undefine)

    @staticmethod
    def _has(look_up: t.Callable[[str], t.Any], uuid: str) -> bool:
        try:
            look_up(uuid)
        except libvirt.libvirtError as error:
            if error.get_error_code() in (libvirt.VIR_ERR_NO_STORAGE_POOL, libvirt.VIR_ERR_NO_NETWORK):
                return False
            raise BackendError(f"libvirt lookup failed: {error}.") from error
        return True

    @staticmethod
    def _ask(what: str, call: t.Callable[..., t.Any], *arguments: t.Any) -> t.Any:
        with libvirt_errors(f"cannot {what}"):
            return call(*arguments)


def _own_namespace_below(controller: int) -> bool:
    """Whether the container's controller has a child in another process namespace."""
    children = read_text(f"/proc/{controller}/task/{controller}/children") or ""
    for child in children.split():
        try:
            if os.readlink(f"/proc/{child}/ns/pid") != os.readlink("/proc/self/ns/pid"):
                return True
        except OSError:
            continue
    return False


def _pool_xml(name: str, path: str | None, source: str | None) -> str:
    head = f"<name>{escape(name)}</name><uuid>{made_uuid(POOL, name)}</uuid>"
    if source is not None:
        group = escape(source)
        return f"<pool type='logical'>{head}<source><name>{group}</name><format type='lvm2'/></source><target><path>/dev/{group}</path></target></pool>"
    return f"<pool type='dir'>{head}<target><path>{escape(path or '')}</path></target></pool>"
