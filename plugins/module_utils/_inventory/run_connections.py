# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: find the addresses and host keys of VMs that were created after the inventory was read."""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import io_addresses, run_inventory

_KEPT = ("ansible_host", "vm_address_source", "vm_host_key", "ansible_ssh_extra_args", "ansible_sftp_extra_args", "ansible_scp_extra_args")
_FIELDS = tuple(field.name for field in dataclasses.fields(run_inventory.Lookup))


def is_new(known: t.Mapping[str, t.Any]) -> bool:
    """Return whether the inventory has no address of a VM, or not its host key although there is a file of host keys."""
    if "vm_address_lookup" not in known:
        return False
    return "ansible_host" not in known or ("vm_host_key" not in known and pathlib.Path(str(known.get("footprint_known_hosts") or "")).is_file())


def connections(
    names: t.Sequence[str], hosts: t.Mapping[str, t.Mapping[str, t.Any]], backend: t.Any = io_addresses
) -> tuple[dict[str, dict[str, t.Any]], list[str]]:
    """Return the variables with which Ansible connects to VMs, by name, and the warnings.

    :arg hosts: the variables of all hosts, as the inventory plugin has set them; an address in them is used if none is found now.
    """
    by_server: dict[str, list[str]] = {}
    for index, name in enumerate(names):
        known = hosts[name] if name in hosts else {}
        if "vm_address_lookup" not in known or "vm_host" not in known:
            message = f"{name!r} is not a virtual machine of the inventory plugin reduced.footprint.nodes."
            raise InputError(message, f"_terms[{index}]", "Use names of the group footprint_vms.")
        by_server.setdefault(str(known["vm_host"]), []).append(name)
    found: dict[str, dict[str, t.Any]] = {}
    warnings: list[str] = []
    for server, machines in by_server.items():
        mine, complaints = _of_server(server, machines, hosts, backend)
        found.update(mine)
        warnings += [text for text in complaints if text not in warnings]
    return found, warnings


def _of_server(
    server: str, names: t.Sequence[str], hosts: t.Mapping[str, t.Mapping[str, t.Any]], backend: t.Any
) -> tuple[dict[str, dict[str, t.Any]], list[str]]:
    known = {name: hosts[name] for name in names}
    # the VMs of a server come from one inventory file
    first = known[names[0]]
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in first["vm_address_lookup"].items() if key in _FIELDS}
    variables = {"roles": [run_inventory.VIRT_ROLE], "vms": [known[name]["vm_details"] for name in names]}
    if server in hosts and "ansible_host" in hosts[server]:
        variables["ansible_host"] = hosts[server]["ansible_host"]
    inventory = run_inventory.parse(str(first["footprint_cluster"]), run_inventory.parse_servers({server: variables}))
    found, warnings = run_inventory.find_addresses(inventory, run_inventory.Lookup(**options), backend)
    keys = run_inventory.host_keys(pathlib.Path(str(first["footprint_known_hosts"]))) if first.get("footprint_known_hosts") else None
    result = {}
    for host in run_inventory.hosts(inventory, found, keys):
        if host.name in known:
            before = {key: known[host.name][key] for key in _KEPT[:2] if key in known[host.name]}
            result[host.name] = {**before, **{key: host.variables[key] for key in _KEPT if key in host.variables}}
    return result, warnings
