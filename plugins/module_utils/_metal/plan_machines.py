# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers and VMs of an inventory that can be driven with Redfish. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_hardware
from ansible_collections.reduced.footprint.plugins.module_utils._metal.plan_export import BIOS, UEFI, Exported
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import MOST_CPUS, one_of, parse_count, parse_mib
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_bmc
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms

_PORT = 8443
_ACCOUNTS = ({"name": "operator", "vms": ["*"]},)

Password = t.Callable[[str], str]
ControllerPassword = t.Callable[[str, str], str]


class Found(t.NamedTuple):
    """Machines, and the hosts that are none, with the reason."""

    machines: tuple[Exported, ...]
    skipped: t.Mapping[str, str]


def find(
    hostvars: t.Mapping[str, t.Any], names: t.Sequence[str], account: str | None, password: Password, controller_password: ControllerPassword
) -> Found:
    """Return the machines among some hosts.

    :arg account: name of the account at the emulators; ``None`` for the first one that may use the VM.
    :arg password: returns the password of an account at the emulators by the name of the secret.
    :arg controller_password: returns the password at a server's management controller by the names of the server and the secret.
    """
    machines, skipped = [], {}
    for position, name in enumerate(names):
        if name not in hostvars:
            hint = did_you_mean(name, list(hostvars), "Use names of servers and VMs of the inventory.")
            raise InputError(f"the inventory has no host {name}.", f"export_metal_hosts[{position}]", hint)
        known = hostvars[name]
        found = _vm(name, known, hostvars, account, password) if known.get("vm_details") is not None else _server(name, known, controller_password)
        if isinstance(found, str):
            skipped[name] = found
        else:
            machines.append(found)
    return Found(tuple(machines), skipped)


def problems(found: Found) -> list[str]:
    """Return one text if no machine was found, with the reasons."""
    if found.machines:
        return []
    hosts: dict[str, list[str]] = {}
    for name, reason in found.skipped.items():
        hosts.setdefault(reason, []).append(name)
    reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in hosts.items())
    why = reasons or "the inventory has no servers"
    return [f"export_metal_hosts: no host can be exported ({why}). Add bmc to servers, or VMs with the hypervisor qemu or kvm."]


def _vm(name: str, known: t.Mapping[str, t.Any], hostvars: t.Mapping[str, t.Any], account: str | None, password: Password) -> Exported | str:
    (vm,) = parse_vms([known["vm_details"]], f"{name}.vm_details", cluster=str(known["footprint_cluster"]))
    server = known["vm_host"]
    there = hostvars[server]
    if vm.hypervisor == "lxc":
        return "a container cannot boot what a deployer provides"
    entries = there.get("redfish_emulator_accounts") or _ACCOUNTS
    listed = [one for one in entries if account in (None, one["name"])]
    if account and not listed:
        raise InputError(f"{server} has no account {account}.", "export_metal_account", f"Use one of {', '.join(one['name'] for one in entries)}.")
    fitting = [one for one in listed if {"*", vm.name.lower(), vm.uuid.lower()} & {str(each).lower() for each in one.get("vms") or ()}]
    if not fitting:
        return f"no account of redfish_emulator_accounts on {server} may use it"
    used = fitting[0]
    address = there.get("redfish_emulator_address") or there.get("ansible_host") or server
    return Exported(
        name=vm.name,
        url=f"https://{f'[{address}]' if ':' in str(address) else address}:{there.get('redfish_emulator_port') or _PORT}",
        system=vm.uuid,
        user=used["name"],
        password=password(used.get("secret") or f"redfish/{used['name']}"),
        # the authority is that of the role
        verify_ca=there.get("redfish_emulator_verify_ca", False),
        macs=vm.macs,
        cpus=vm.cpu,
        memory_mib=vm.memory_mib,
        disk=next((disk.size for disk in vm.disks if disk.size), None),
        arch=str(there.get("node_arch") or "x86_64"),
        boot_mode=UEFI if vm.boot_firmware == "efi" else BIOS,
        sessions=False,
    )


def _server(name: str, known: t.Mapping[str, t.Any], password: ControllerPassword) -> Exported | str:
    entry = known.get("bmc")
    if not entry:
        return "no bmc is set"
    path = f"servers.{name}.bmc"
    bmc = model_bmc.check_entry(entry, known.get("ansible_host"), path)
    capacity = known.get("node_capacity") or {}
    where = f"servers.{name}.node_capacity"
    return Exported(
        name=name,
        url=bmc.url,
        system=bmc.system,
        user=bmc.user,
        password=password(name, entry["secret"]),
        verify_ca=bmc.verify_ca,
        macs=(bmc.boot_mac,) if bmc.boot_mac else (),
        cpus=one_of(capacity, ("cpus", "cpu"), where, lambda value, at: parse_count(value, at, MOST_CPUS, "Write the number of CPUs.")),
        memory_mib=one_of(capacity, ("memory", "ram"), where, parse_mib),
        disk=None,
        arch=str(capacity.get("arch") or "x86_64"),
        boot_mode=known.get("boot_mode") or model_hardware.parse(known.get("hardware"), f"servers.{name}.hardware").firmware or UEFI,
    )
