# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check the roles of a server: VMs require the role virt, the role compute requires a physical server."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_COMPUTE, ROLE_VIRT, ROLE_WITNESS, NodeAttributes
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_bool
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails


def check_roles(node: NodeAttributes) -> None:
    """Check the roles of a server and its VMs."""
    if node.vms and ROLE_VIRT not in node.roles:
        has = ", ".join(node.roles) or "none"
        raise InputError(
            f"host {node.name} has VM details but not the role {ROLE_VIRT} (its roles: {has}).",
            "vms",
            f"Assign the role {ROLE_VIRT} to the host, or move the VM details to a host with this role.",
        )
    if ROLE_WITNESS in node.roles and ROLE_VIRT in node.roles:
        raise RefusedError(
            f"host {node.name} has the roles {ROLE_VIRT} and {ROLE_WITNESS}: its vote would be lost together with its VMs.",
            "roles",
            f"Give the role {ROLE_WITNESS} to a third machine.",
        )
    for vm in node.vms:
        if ROLE_COMPUTE in vm.roles and not wants_nested(vm):
            raise RefusedError(
                f"VM {vm.name} has the role {ROLE_COMPUTE}, which requires a physical server.",
                f"{vm.path}.roles",
                "Assign the role to a physical server, or set nested: true in the VM details for nested virtualization.",
            )


def wants_nested(vm: VmDetails) -> bool:
    """Whether the VM details request nested virtualization."""
    value = vm.free.get("nested")
    return False if value in (None, "") else parse_bool(value, f"{vm.path}.nested")
