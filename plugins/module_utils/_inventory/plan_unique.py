# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What two machines of an inventory must not share. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_COMPUTE, ROLE_WITNESS
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_hardware, plan_witness
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.model_inventory import CONTROLLER_ROLE, VIRT_ROLE, Machine, Server
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_bmc


def check_witnesses(servers: t.Sequence[Server], machines: t.Sequence[Machine]) -> None:
    """Check that no witness is on the server of a controller.

    :raises RefusedError: otherwise.
    """
    found = [plan_witness.Machine(item.name, "", item.roles, f"{item.path}.roles") for item in servers]
    found += [plan_witness.Machine(one.vm.name, one.server.name, one.vm.roles, f"{one.vm.path}.roles") for one in machines]
    plan_witness.check_places(
        [one for one in found if ROLE_WITNESS in one.roles], [one for one in found if CONTROLLER_ROLE in one.roles]
    )


def refuse_duplicates(servers: t.Sequence[Server], machines: t.Sequence[Machine]) -> None:
    """Check what must be unique among all servers and VMs.

    :raises InputError: with both paths.
    """
    seen: dict[tuple[str, str], str] = {}

    def once(kind: str, value: str | None, path: str, hint: str) -> None:
        if value is None:
            return
        first = seen.setdefault((kind, value), path)
        if first != path:
            raise InputError(f"{value!r} is already used at {first}.", path, hint)

    for item in servers:
        once("name", item.name, item.path, "Give every server a unique name.")
        if item.place and {VIRT_ROLE, ROLE_COMPUTE}.intersection(item.roles):
            # the VMs of both would be on one machine, whose loss takes all of them
            once("address", item.place, f"{item.path}.ansible_host", "Correct the address: each server must be a different machine.")
        if item.variables.get("bmc") is not None:
            host, port, system = model_bmc.parse(item.variables["bmc"]).place
            # two servers with one controller: one of them would be powered off in place of the other
            once("bmc", f"{host}:{port}{f' {system}' if system else ''}", f"{item.path}.bmc", "Correct the address, or name the system of each server.")
        hardware = model_hardware.parse(item.variables.get("hardware"), f"{item.path}.hardware")
        for disk in hardware.disks:
            once("serial", disk.serial, f"{disk.path}.serial", "A disk is in one server only: correct one of the two serial numbers.")
        for nic in hardware.nics:
            once("mac", nic.mac, f"{nic.path}.mac", "Give one of the two network cards a different MAC.")
    for machine in machines:
        vm = machine.vm
        once("id", vm.id, f"{vm.path}.id", "Give every VM an id that is unique in the cluster.")
        once("name", vm.name, f"{vm.path}.name" if vm.name != vm.id else f"{vm.path}.id", "Give every VM and server a unique name.")
        once("uuid", vm.uuid, f"{vm.path}.uuid", "Remove the UUID; it derives from cluster and id.")
        once("address", vm.address, f"{vm.path}.address", "Give every VM an address that no other VM or server has.")
        for index, mac in enumerate(vm.macs):
            once("mac", mac, f"{vm.path}.nics[{index}].mac", "Give one of the two NICs a different MAC.")
