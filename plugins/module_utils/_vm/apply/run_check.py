# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks what a definition requires of the host: bridges, networks, firmware, unique MACs. Reads only."""

from __future__ import annotations

import platform
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_host_network, run_work
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_domain, run_look

_MAC = re.compile(r"<mac address=['\"]([^'\"]+)['\"]")


def _line_of(work: run_work.Work, element: t.Any) -> str:
    # imported only for errors
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_blame

    return run_blame.line_of(run_work.need(work.prepared), element)


class HostChecks:
    """The checks of one call.

    :arg local: whether libvirt runs on this host, so that its files and links can be checked.
    """

    def __init__(self, domains: t.Iterable[run_look.Seen], local: bool) -> None:
        self._local = local
        # MAC → UUID and name of its first owner
        self._macs: dict[str, tuple[str, str]] = {}
        self._names: dict[str, str] = {}
        self._networks: dict[str, t.Mapping[str, bool]] = {}
        self._bridges: dict[str, str | None] = {}
        for seen in domains:
            record = seen.record
            for text in (record.config_xml, record.live_xml or ""):
                for mac in _MAC.findall(text):
                    self._macs.setdefault(mac.lower(), (record.uuid, record.name))

    def check(self, work: run_work.Work) -> None:
        """Check that the host provides what the definition of a VM requires."""
        if not work.has(*plan_domain.DEFINING, plan_domain.START):
            return
        prepared = run_work.need(work.prepared)
        self._check_name(work, prepared.name)
        before = work.seen.config if work.seen is not None else None
        known = set() if before is None else {_place(interface) for interface in before.iterfind("devices/interface")}
        macs = set() if before is None else {mac.get("address", "").lower() for mac in before.iterfind("devices/interface/mac")}
        for index, interface in enumerate(prepared.document.iterfind("devices/interface")):
            mac = interface.find("mac").get("address", "").lower()
            owner = self._macs.setdefault(mac, (work.uuid, prepared.name))
            if owner[0] != work.uuid and mac not in macs:
                raise model_errors.InputError(
                    f"the MAC {mac} is already used by {owner[1]} on this host.", self._path(work, interface, index, "mac"), "Set another mac for one of them."
                )
        for index, interface in enumerate(prepared.document.iterfind("devices/interface")):
            problem = self._problem(work.host, interface) if interface.find("source") is not None else None
            if problem is None:
                continue
            kind, message, hint = problem
            path = self._path(work, interface, index, kind)
            if _place(interface) not in known:
                raise model_errors.InputError(message, path, hint)
            if work.has(plan_domain.START):
                raise model_errors.RefusedError(message, path, hint)
        if self._local:
            self._check_firmware(work)

    def _check_name(self, work: run_work.Work, name: str) -> None:
        first = self._names.setdefault(name, work.vm.id)
        if first != work.vm.id:
            path = _line_of(work, run_work.need(work.prepared).document.find("name"))
            raise model_errors.InputError(f"the name {name!r} is already used by the VM {first!r}.", path, "Use {name} or {id} there.")

    def _problem(self, host: DomainHost, interface: t.Any) -> tuple[str, str, str] | None:
        """The problem with the network or bridge of a NIC: attribute, message, hint; ``None`` when there is none."""
        source = interface.find("source")
        network, bridge = source.get("network"), source.get("bridge")
        if interface.get("type") == "network" and network:
            if host.uri not in self._networks:
                self._networks[host.uri] = io_host_network.networks(host)
            found = self._networks[host.uri]
            if network not in found:
                names = ", ".join(sorted(found)) or "none"
                return "network", f"libvirt has no network {network!r} (existing: {names}).", "Define the network, or use another one."
            if not found[network]:
                return "network", f"the libvirt network {network!r} is not active.", f"Start it: virsh net-start {network}."
        if interface.get("type") == "bridge" and bridge and self._local:
            if bridge not in self._bridges:
                self._bridges[bridge] = io_host_network.kind_of(bridge)
            kind = self._bridges[bridge]
            port = interface.find("virtualport")
            switched = port is not None and port.get("type") == "openvswitch"
            if kind is None:
                return "bridge", f"this host has no bridge {bridge!r}.", "Create the bridge first, or use another one."
            if kind == io_host_network.LINK:
                return "bridge", f"{bridge!r} is a network interface of this host, not a bridge.", "Use the bridge it belongs to."
            if kind == io_host_network.OPEN_VSWITCH and not switched:
                return "bridge", f"{bridge!r} is an Open vSwitch bridge.", "Add virtualport: openvswitch to the NIC."
            if kind == io_host_network.BRIDGE and switched:
                return "bridge", f"{bridge!r} is a Linux bridge, not an Open vSwitch bridge.", "Remove virtualport from the NIC."
        if interface.find("vlan") is not None and (network or bridge):
            problem = io_host_network.tag_problem(host, interface, self._local)
            return ("vlan", *problem) if problem else None
        return None

    def _path(self, work: run_work.Work, interface: t.Any, index: int, key: str) -> str:
        """The path in the details of a NIC of the document; the line of the template for other NICs."""
        if index < len(work.vm.nics):
            nic = work.vm.nics[index]
            source = interface.find("source")
            if key == "mac" and nic.mac == interface.find("mac").get("address", "").lower():
                return f"{work.vm.path}.nics[{index}].mac"
            if nic.vlan is not None if key == "vlan" else key != "mac" and source is not None and getattr(nic, key) == source.get(key):
                return f"{work.vm.path}.nics[{index}].{key}"
        return _line_of(work, interface)

    def _check_firmware(self, work: run_work.Work) -> None:
        prepared = run_work.need(work.prepared)
        system = prepared.document.find("os")
        if system is None:
            return
        loader = system.find("loader")
        path = (loader.text or "").strip() if loader is not None else ""
        if not path and system.get("firmware") != "efi":
            return
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_firmware

        problem = None
        if path and not io_firmware.exists(path):
            problem = f"the firmware {path} does not exist on this host."
        elif not path:
            features = {feature.get("name"): feature.get("enabled") == "yes" for feature in system.iterfind("firmware/feature")}
            kind = system.find("type")
            if not io_firmware.fitting((kind.get("arch") if kind is not None else None) or platform.machine(), features):
                wanted = [f"{'with' if yes else 'without'} {name}" for name, yes in sorted(features.items())]
                problem = f"this host has no UEFI firmware {' and '.join(wanted)}".rstrip() + "."
        if problem:
            given = work.vm.boot_firmware is not None
            where = f"{work.vm.path}.boot_firmware" if given else _line_of(work, system if loader is None else loader)
            raise model_errors.InputError(problem, where, "Install the package ovmf (Debian, Ubuntu) or edk2-ovmf (RHEL) on the host; the role virt_host does.")


def _place(interface: t.Any) -> tuple[str | None, ...]:
    source = interface.find("source")
    found = (source.get("bridge"), source.get("network")) if source is not None else ()
    return (*found, *(tag.get("id") for tag in interface.iterfind("vlan/tag")))
