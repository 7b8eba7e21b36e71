# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers and VMs of an inventory, and what must be unique among them."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import Unique
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_COMPUTE
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_hardware
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_bmc
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails

VIRT_ROLE = "virt"


class Layer(t.NamedTuple):
    """VM details, or defaults of them, and where they are written."""

    path: str
    values: t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Server:
    """A physical server of the inventory.

    :arg variables: its host variables, without ``vms`` and roles.
    :arg defaults: of its VMs, then those of the cluster; ``None`` for a server of another source, whose VM details are complete.
    :arg more: VM details that are not written in the inventory file itself.
    :arg place: the address at which Ansible reaches it, with a port if that is set; empty if its variables do not show it.
    """

    name: str
    roles: tuple[str, ...]
    vms: t.Any
    variables: t.Mapping[str, t.Any]
    path: str
    place: str = ""
    defaults: tuple[Layer, ...] | None = None
    more: tuple[Layer, ...] = ()


@dataclasses.dataclass(frozen=True)
class Machine:
    """A VM and its server."""

    vm: VmDetails
    server: Server


@dataclasses.dataclass(frozen=True)
class Inventory:
    """The servers and VMs of a cluster, checked for duplicates.

    :arg slips: server → errors of keys in its VM details that are valid only if a template of the operator uses them.
    :arg images: server → path of a disk's image → the image.
    """

    cluster: str
    servers: tuple[Server, ...]
    machines: tuple[Machine, ...]
    slips: t.Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    images: t.Mapping[str, t.Mapping[str, str]] = dataclasses.field(default_factory=dict)


def refuse_duplicates(servers: t.Sequence[Server], machines: t.Sequence[Machine]) -> None:
    """Check what must be unique among all servers and VMs."""
    once = Unique().check
    for item in servers:
        once(item.name, item.path, "Give every server a unique name.", "name")
        if item.place and {VIRT_ROLE, ROLE_COMPUTE}.intersection(item.roles):
            # the VMs of both would be on one machine, whose loss takes all of them
            once(item.place, f"{item.path}.ansible_host", "Correct the address: each server must be a different machine.", "address")
        if item.variables.get("bmc") is not None:
            host, port, system = model_bmc.parse(item.variables["bmc"]).place
            # two servers with one controller: one of them would be powered off in place of the other
            once(f"{host}:{port}{f' {system}' if system else ''}", f"{item.path}.bmc", "Correct the address, or name the system of each server.", "bmc")
        hardware = model_hardware.parse(item.variables.get("hardware"), f"{item.path}.hardware")
        for disk in hardware.disks:
            once(disk.serial, f"{disk.path}.serial", "A disk is in one server only: correct one of the two serial numbers.", "serial")
        for nic in hardware.nics:
            once(nic.mac, f"{nic.path}.mac", "Give one of the two network cards a different MAC.", "mac")
    for machine in machines:
        vm = machine.vm
        once(vm.id, f"{vm.path}.id", "Give every VM an id that is unique in the cluster.", "id")
        once(vm.name, f"{vm.path}.name" if vm.name != vm.id else f"{vm.path}.id", "Give every VM and server a unique name.", "name")
        once(vm.uuid, f"{vm.path}.uuid", "Remove the UUID; it derives from cluster and id.", "uuid")
        once(vm.address, f"{vm.path}.address", "Give every VM an address that no other VM or server has.", "address")
        for index, mac in enumerate(vm.macs):
            once(mac, f"{vm.path}.nics[{index}].mac", "Give one of the two NICs a different MAC.", "mac")
