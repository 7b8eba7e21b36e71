# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VM details of an inventory file: defaults below each VM, and the network configuration of an address with a prefix. No I/O."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import mapping, sequence
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_json_text import parse_json
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.model_inventory import Layer
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import nic_mac
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name, parse_nics
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import CPU_KEYS, RAM_KEYS, VmDetails, parse_vms

#: Keys that describe one VM only.
_OWN = ("id", "name", "uuid", "address")
#: Keys for an address with a prefix; they are replaced by ``network_config``.
_NETWORK = ("gateway", "nameservers")
#: Keys on which the meaning of others depends: after an error in one, the VM is not read further.
_DECIDING = ("hypervisor", "boot_firmware")
_EMPTY = (None, "", [], ())


def parse_defaults(value: t.Any, path: str) -> Layer:
    """Parse ``vm_defaults`` of a cluster or a server; the values are checked with each VM."""
    values = mapping(value, path, "Write the common keys of the VMs, e.g. {ram: 4, nics: [{bridge: br-admin}]}.")
    for key in _OWN:
        if key in values:
            raise InputError("is different for each VM.", f"{path}.{key}", "Write it in the entries of vms.")
    return Layer(path, values)


def as_list(value: t.Any, path: str) -> t.Any:
    """Return the list of VM details, which may be given as JSON text; any other value is returned unchanged."""
    if isinstance(value, str):
        return parse_json(value, path) if value.strip() else []
    return list(value) if isinstance(value, tuple) else [] if value is None else value


def complete(entry: t.Any, path: str, defaults: t.Sequence[Layer], cluster: str) -> t.Any:
    """Return one entry over its defaults, and with a network configuration if its address has a prefix.

    Mappings are merged, other values replaced; ``null`` removes a default.

    :arg defaults: of the server, then of the cluster.
    """
    if not isinstance(entry, t.Mapping):
        return entry
    values: dict[str, t.Any] = {}
    for layer in (*(each.values for each in reversed(defaults)), entry):
        # a VM with `mem` has no `ram` of the defaults: both are the same
        same = {key for keys in (CPU_KEYS, RAM_KEYS) if any(layer.get(key) not in _EMPTY for key in keys) for key in keys}
        values = _over({key: value for key, value in values.items() if key not in same}, layer)
    network = {key: values.pop(key, None) for key in _NETWORK}
    # the MAC address derives from the id; parse_vms reports that it is missing
    if isinstance(values.get("address"), str) and "/" in values["address"] and values.get("id") not in _EMPTY:
        if values.get("network_config") not in _EMPTY:
            raise InputError("is derived from an address with a prefix.", f"{path}.network_config", "Remove it, or the prefix of the address.")
        interface, network_config = _network(values, network, path, cluster)
        values.update(address=interface, network_config=network_config)
    else:
        for key in _NETWORK:
            if entry.get(key) not in _EMPTY:
                raise InputError("requires an address with a prefix.", f"{path}.{key}", "Write the address as e.g. 192.0.2.10/24.")
    return values


def _over(base: t.Mapping[str, t.Any], more: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    result = dict(base)
    for key, value in more.items():
        both = isinstance(value, t.Mapping) and isinstance(base.get(key), t.Mapping)
        result[key] = _over(base[key], value) if both else value
    return result


def _address(value: t.Any, path: str, network: t.Any = None) -> str:
    try:
        found = ipaddress.ip_address(value if isinstance(value, str) else "")
    except ValueError as error:
        raise InputError(f"{shown(value)} is not an IP address.", path, "Write an address such as 192.0.2.1.") from error
    # the link-local address of a router is in no network
    if network is not None and found not in network and not found.is_link_local:
        raise InputError(f"{found} is not in the network {network} of the address.", path, "Correct the gateway, or the prefix of the address.")
    return str(found)


def _network(values: t.Mapping[str, t.Any], network: t.Mapping[str, t.Any], path: str, cluster: str) -> tuple[str, dict[str, t.Any]]:
    """Return the address without its prefix, and the configuration of the first NIC for cloud-init."""
    try:
        interface = ipaddress.ip_interface(values["address"])
    except ValueError as error:
        hint = "Write an address with the length of its network's prefix, e.g. 192.0.2.10/24."
        raise InputError(f"{shown(values['address'])} is not an IP address with a prefix.", f"{path}.address", hint) from error
    ends = (interface.network.network_address, *([interface.network.broadcast_address] if interface.version == 4 else []))
    if interface.network.num_addresses > 2 and interface.ip in ends:
        raise InputError(f"{interface} is the address of the network, or its broadcast address.", f"{path}.address", "Use the address of a host.")
    vm_id = parse_name(values["id"], f"{path}.id")
    nics = parse_nics(values.get("nics"), f"{path}.nics", lambda key: nic_mac(cluster, vm_id, key))
    if not nics:
        raise InputError("has a prefix, which is for the first NIC, but the VM has no NIC.", f"{path}.address", "Add nics, e.g. [{bridge: br-admin}].")
    device: dict[str, t.Any] = {"match": {"macaddress": nics[0].mac}, "addresses": [str(interface)]}
    if network["gateway"] not in _EMPTY:
        gateway = _address(network["gateway"], f"{path}.gateway", interface.network)
        if gateway == str(interface.ip):
            raise InputError(f"{gateway} is the address of the VM itself.", f"{path}.gateway", "Correct the gateway or the address.")
        device["routes"] = [{"to": "0.0.0.0/0" if interface.version == 4 else "::/0", "via": gateway}]
    if network["nameservers"] not in _EMPTY:
        servers = sequence(network["nameservers"], f"{path}.nameservers", "Write a list of addresses, e.g. [192.0.2.1].")
        device["nameservers"] = {"addresses": [_address(one, f"{path}.nameservers[{index}]") for index, one in enumerate(servers)]}
    return str(interface.ip), {"version": 2, "ethernets": {"nic0": device}}


def at_origin(error: FootprintError, layers: t.Sequence[Layer]) -> FootprintError:
    """Return the error with the path at which the invalid value is written.

    :arg layers: the VM itself, then its defaults.
    """
    own = layers[0].path
    if not error.path or not error.path.startswith(own):
        return error
    rest = error.path[len(own) :]
    origin = next((layer.path for layer in layers if _has(layer.values, re.findall(r"[^.\[\]]+", rest))), own)
    return type(error)(error.message, origin + rest, error.hint)


def _has(values: t.Any, keys: t.Sequence[str]) -> bool:
    """Whether a layer contains what the keys lead to, or the list that replaces those of other layers."""
    for key in keys:
        if not isinstance(values, t.Mapping):
            return True
        if key not in values:
            return False
        values = values[key]
    return True


def parse(
    value: t.Any, path: str, cluster: str, defaults: t.Sequence[Layer] | None, more: t.Sequence[Layer] = ()
) -> tuple[t.Any, tuple[VmDetails, ...], list[FootprintError]]:
    """Parse the VM details of a server.

    :arg defaults: of the server, then of the cluster; ``None``: the entries are complete.
    :returns: the complete entries, the VMs, and all errors. A VM with errors is returned without the invalid keys, to find those of its other keys.
    """
    try:
        entries = as_list(value, path)
        if not isinstance(entries, list):
            return value, parse_vms(entries, path, cluster=cluster), []
    except FootprintError as error:
        return value, (), [error]
    errors: list[FootprintError] = []
    result, vms = [], []
    places = [*(f"{path}[{index}]" for index in range(len(entries))), *(one.path for one in more)]
    for place, entry in zip(places, (*entries, *(one.values for one in more))):
        layers = [Layer(place, entry if isinstance(entry, t.Mapping) else {}), *(defaults or ())]
        made, vm, found = _parse_one(entry, layers, cluster, defaults is not None)
        result.append(made)
        vms += vm
        errors += [at_origin(each, layers) for each in found]
    if not errors:
        try:
            checked = parse_vms(result, path, cluster=cluster)
            return result, tuple(dataclasses.replace(vm, path=place) for vm, place in zip(checked, places)), []
        except FootprintError as error:
            message, where = error.message, error.path or ""
            for index, place in enumerate(places):
                message, where = (text.replace(f"{path}[{index}]", place) for text in (message, where))
            errors.append(type(error)(message, where or None, error.hint))
    return result, tuple(vms), errors


def _parse_one(entry: t.Any, layers: t.Sequence[Layer], cluster: str, completes: bool) -> tuple[t.Any, list[VmDetails], list[FootprintError]]:
    path = layers[0].path
    errors: list[FootprintError] = []
    skipped: set[str] = set()
    prefixed = "/" in str(layers[0].values.get("address"))
    made = entry
    while True:
        try:
            if skipped:
                # invalid keys are left out of all layers
                kept = [Layer(each.path, {key: value for key, value in each.values.items() if key not in skipped}) for each in layers]
                made = complete({**kept[0].values, **({"id": "x"} if "id" in skipped else {})}, path, kept[1:], cluster)
            elif completes:
                made = complete(entry, path, layers[1:], cluster)
            (vm,) = parse_vms([made], path, cluster=cluster)
            return made, [dataclasses.replace(vm, path=path)], errors
        except FootprintError as error:
            message, where = (text.replace(f"{path}[0]", path) for text in (error.message, error.path or ""))
            found = re.match(r"\.(\w+)", where[len(path) :])
            key = found.group(1) if found else ""
            written = any(key in each.values for each in layers)
            if not errors or written and key not in skipped:
                errors.append(type(error)(message, where, error.hint))
            if not written or key in skipped or key in _DECIDING:
                return entry, [], errors
            skipped.add(key)
            if prefixed and key in ("address", "nics"):
                # the others require both
                skipped.update(("address", *_NETWORK))
