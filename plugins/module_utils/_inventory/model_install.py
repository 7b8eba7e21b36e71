# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How Debian is installed on a server: ``install`` in the inventory."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known, ipv4, number, parse_mac, sequence
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import GIB, parse_size, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_authorized_keys

KEYS = ("disk", "lvm", "hostname", "network", "keys")
#: A system with its updates fits.
LEAST_ROOT = 4 * GIB
_EXAMPLE = "Write {disk: S4EVNX0, network: {prefix: 24, gateway: 192.0.2.1}, keys: [ssh-ed25519 AAAA...]}."
_LVM_KEYS = ("group", "root")
_NETWORK_KEYS = ("prefix", "gateway", "dns", "mac")
_SERIAL = re.compile(r"\A[^\s\x00-\x1f](?:[^\x00-\x1f]*[^\s\x00-\x1f])?\Z")
_GROUP = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9_.+]{0,62}\Z")
_LABEL = re.compile(r"\A(?!-)[A-Za-z0-9-]{1,63}(?<!-)\Z")


class Lvm(t.NamedTuple):
    """A volume group on the rest of the disk, and the bytes of the volume ``root`` in it."""

    group: str
    root: int


class Install(t.NamedTuple):
    """What is installed.

    :arg disk: its serial number.
    :arg lvm: ``None`` for a root file system on the rest of the disk.
    :arg address: with its prefix.
    """

    name: str
    path: str
    disk: str
    lvm: Lvm | None
    hostname: str
    address: ipaddress.IPv4Interface
    gateway: str | None
    dns: tuple[str, ...]
    mac: str
    keys: tuple[str, ...]


class Known(t.NamedTuple):
    """What else is declared of the server, for defaults and checks: ``bmc.boot_mac``, and disks and network cards of ``hardware``."""

    boot_mac: str | None = None
    disks: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()


def parse(entry: t.Any, name: str, address: t.Any, path: str = "install", known: Known = Known(), owner: str = "") -> Install:
    """Return ``install`` of a server."""
    if entry is None:
        raise InputError("is required.", path, _EXAMPLE)
    check_known(entry, KEYS, path, _EXAMPLE)
    hostname = entry.get("hostname", name)
    if not isinstance(hostname, str) or not all(_LABEL.match(label) for label in hostname.split(".")) or len(hostname) > 64:
        raise InputError(f"{shown(hostname)} is not a valid host name.", f"{path}.hostname", "Use letters, digits and hyphens, e.g. metal1.")
    network = entry.get("network")
    where = f"{path}.network"
    check_known({} if network is None else network, _NETWORK_KEYS, where, "Write {prefix: 24, gateway: 192.0.2.1, dns: [192.0.2.1]}.")
    network = network or {}
    own = _address(address, network.get("prefix"), where, f"{owner}.ansible_host" if owner else "address")
    return Install(
        name,
        path,
        _disk(entry.get("disk"), known.disks, f"{path}.disk"),
        _lvm(entry.get("lvm"), f"{path}.lvm"),
        hostname,
        own,
        _gateway(network.get("gateway"), own, f"{where}.gateway"),
        tuple(ipv4(one, f"{where}.dns[{position}]") for position, one in enumerate(sequence(network.get("dns"), f"{where}.dns", "Write [192.0.2.1]."))),
        _mac(network.get("mac"), known, f"{where}.mac"),
        _keys(entry.get("keys"), f"{path}.keys"),
    )


def options(install: Install) -> dict[str, t.Any]:
    """Return the options of the module ``server_install`` that describe what is installed."""
    return {
        "name": install.name,
        "disk": install.disk,
        "lvm": {"group": install.lvm.group, "root": f"{install.lvm.root} B"} if install.lvm else None,
        "hostname": install.hostname,
        "address": str(install.address.ip),
        "network": {"prefix": install.address.network.prefixlen, "gateway": install.gateway, "dns": list(install.dns), "mac": install.mac},
        "authorized_keys": list(install.keys),
    }


def _disk(value: t.Any, declared: t.Sequence[str], path: str) -> str:
    if value is None and len(declared) == 1:
        return declared[0]
    if value is None:
        why = "is required." if not declared else f"is required, because hardware.disks declares {len(declared)} disks."
        raise InputError(why, path, "Write the serial number of the disk in quotes; discover_servers lists them.")
    # YAML reads a serial of digits as a number, and may change it: 0123 is 83
    if not isinstance(value, str) or not _SERIAL.match(value):
        raise InputError(f"{shown(value)} is not text.", path, "Write the serial number in quotes.")
    if declared and value not in declared:
        raise InputError(f"{value} is not one of hardware.disks.", path, f"Use one of {', '.join(declared)}, or declare it there.")
    return value


def _lvm(value: t.Any, path: str) -> Lvm | None:
    if value is None:
        return None
    example = "Write {group: vms, root: 32 GiB}."
    check_known(value, _LVM_KEYS, path, example)
    group = value.get("group")
    if not isinstance(group, str) or not _GROUP.match(group):
        what = "is required." if group is None else f"{shown(group)} is not a valid name."
        raise InputError(what, f"{path}.group", "Use letters, digits, dots and underscores, e.g. vms.")
    if value.get("root") is None:
        raise InputError("is required.", f"{path}.root", example)
    root = parse_size(value["root"], "GiB", f"{path}.root")
    if root < LEAST_ROOT:
        raise InputError(f"{size_text(root)} are too small for a system.", f"{path}.root", f"Use {size_text(LEAST_ROOT)} or more.")
    return Lvm(group, root)


def _address(value: t.Any, prefix: t.Any, path: str, own: str) -> ipaddress.IPv4Interface:
    address = ipv4(value, own)
    if prefix is None:
        raise InputError("is required.", f"{path}.prefix", "Write the length of the network's prefix, e.g. 24.")
    found = ipaddress.IPv4Interface(f"{address}/{number(prefix, 0, 8, 30, f'{path}.prefix')}")
    if found.ip in (found.network.network_address, found.network.broadcast_address):
        raise InputError(f"{found.ip} is the network or broadcast address of {found.network}.", own, "Correct it or the prefix.")
    return found


def _gateway(value: t.Any, own: ipaddress.IPv4Interface, path: str) -> str | None:
    if value is None:
        return None
    gateway = ipaddress.IPv4Address(ipv4(value, path))
    if gateway not in own.network or gateway == own.ip:
        what = "is the address of the server." if gateway == own.ip else f"{gateway} is not in {own.network}."
        raise InputError(what, path, "Write the address of the router in the network of the server.")
    return str(gateway)


def _mac(value: t.Any, known: Known, path: str) -> str:
    if value is None:
        if not known.boot_mac:
            raise InputError("is required.", path, "Write the MAC of the network card in quotes, e.g. '52:54:00:12:34:56'.")
        return known.boot_mac.lower()
    mac = parse_mac(value, path)
    if known.macs and mac not in known.macs:
        raise InputError(f"{mac} is not one of hardware.nics.", path, f"Use one of {', '.join(known.macs)}, or declare it there.")
    return mac


def _keys(value: t.Any, path: str) -> tuple[str, ...]:
    found = sequence(value, path, "Write a list with the lines of .pub files.")
    if not found:
        raise InputError("is required: the system has no password.", path, "Add the public ssh keys of the operators.")
    return model_authorized_keys.parse(found, path)


def servers(
    asked: t.Sequence[str], variables: t.Mapping[str, t.Mapping[str, t.Any]], parse_one: t.Callable[[str, t.Mapping[str, t.Any]], Install]
) -> list[Install]:
    """Return what is installed on each server, in the order of the inventory.

    :arg asked: names; empty means every server with ``install``.
    """
    names = [name for name in variables if (name in asked if asked else variables[name].get("install") is not None)]
    found = [parse_one(name, variables[name]) for name in names]
    for value, key in ((lambda one: one.disk, "disk"), (lambda one: one.address.ip, "network"), (lambda one: one.mac, "network.mac")):
        first: dict[t.Any, str] = {}
        for one in found:
            other = first.setdefault(value(one), one.name)
            if other != one.name:
                raise InputError(f"{value(one)} is also that of {other}.", f"{one.path}.{key}", "Correct one of them.")
    return found
