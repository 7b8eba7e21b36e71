# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the machines of the first inventory have, from their facts."""

from __future__ import annotations

import ipaddress
import math
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, InputError, Problems, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._placement.first.model_answers import Answers, Machine, check_free

BRIDGE = "br-admin"
_IMAGES = "/var/lib/libvirt/images"
_INTERFACE = re.compile(r"\A[A-Za-z][\w.@:-]{0,14}\Z")
# ports of a bridge that are those of VMs and containers
_OF_GUESTS = ("vnet", "tap", "veth", "macvtap")
_GIB = 1 << 30

Facts = t.Mapping[str, t.Any]


class Network(t.NamedTuple):
    """The admin network, which all servers are in."""

    network: ipaddress.IPv4Network
    gateway: str
    nameservers: tuple[str, ...]
    bridge: str


class Found(t.NamedTuple):
    """What the machines have.

    :arg facts: machine → facts without their prefix.
    :arg ports: server → the NIC, bond or VLAN of its default route.
    """

    facts: t.Mapping[str, Facts]
    ports: t.Mapping[str, str]
    network: Network


def read(answers: Answers, results: t.Sequence[t.Mapping[str, t.Any]]) -> Found:
    """Read the results of the module ``setup`` in a loop over the machines.

    :raises FootprintError: a machine does not answer, or cannot be a virt host; all such errors in one.
    """
    problems = Problems()
    by_name = {str((one.get("item") or {}).get("name")): one for one in results}
    facts = {one.name: problems.call(_facts, answers.user, one, by_name.get(one.name) or {}) for one in answers.machines}
    problems.check()
    links = {one.name: problems.call(_link, one.name, facts[one.name]) for one in answers.servers}
    problems.check()
    first = answers.servers[0].name
    for name, (_port, network) in links.items():
        for what, same in (("bridge", "its default route is on {0}"), ("network", "its default route is in {0}"), ("gateway", "its gateway is {0}")):
            mine, other = getattr(network, what), getattr(links[first][1], what)
            if mine != other:
                message = f"{same.format(mine)}, that of {first} {other}."
                problems.found.append(RefusedError(message, name, "VMs move between servers only if these are the same: change one of them."))
    problems.check()
    network = links[first][1]
    for address in (answers.first, answers.last):
        if address not in network.network or address in (network.network.network_address, network.network.broadcast_address):
            message = f"{address} is not the address of a host in {network.network}, the network of {first}."
            raise InputError(message, "init_addresses", "Give a range in it, e.g. its last addresses that are free.")
    for name, known in facts.items():
        for address in known.get("all_ipv4_addresses") or ():
            check_free(answers, str(address), name)
    check_free(answers, network.gateway, "the gateway")
    return Found(facts, {name: port for name, (port, _network) in links.items()}, network)


def _facts(user: str, machine: Machine, result: t.Mapping[str, t.Any]) -> Facts:
    known = {key.removeprefix("ansible_"): value for key, value in (result.get("ansible_facts") or {}).items()}
    if known.get("memtotal_mb") and isinstance(known.get("mounts"), (list, tuple)):
        return known
    why = " ".join(str(result.get("msg") or "it returned no facts").rpartition("via ssh: ")[2].split()).rstrip(".")
    silent = "does not answer" if result.get("unreachable") else "could not be inspected"
    raise BackendError(f"{machine.name} ({machine.address}) {silent}: {why}.", hint=f"Test it with: ssh {user}@{machine.address}")


def _link(name: str, facts: Facts) -> tuple[str, Network]:
    route = facts.get("default_ipv4") or {}
    try:
        network = ipaddress.IPv4Network(f"{route['address']}/{route['netmask']}", strict=False)
        gateway = str(ipaddress.IPv4Address(route["gateway"]))
        port, bridge = str(route["interface"]), BRIDGE
    except (KeyError, TypeError, ValueError) as error:
        message = "has no default route by IPv4 through an interface with an address."
        raise FootprintError(message, name, "Configure one: its interface becomes the port of the bridge.") from error
    if route.get("type") == "bridge":
        ports = (facts.get(port.replace("-", "_").replace(":", "_")) or {}).get("interfaces") or ()
        bridge, port = port, next((str(one) for one in sorted(ports) if not str(one).startswith(_OF_GUESTS)), "")
        if not port:
            raise FootprintError(f"its default route is on the bridge {bridge}, which has no NIC.", name, "Add a NIC to the bridge.")
    if port.startswith("wl"):
        raise RefusedError(f"its default route is on the Wi-Fi card {port}, which cannot be the port of a bridge.", name, "Connect it by cable.")
    for interface in (port, bridge):
        if not _INTERFACE.match(interface):
            raise FootprintError(f"{interface!r} is not the name of an interface.", name, "Rename the interface of the default route.")
    return port, Network(network, gateway, _nameservers(facts, gateway), bridge)


def _nameservers(facts: Facts, gateway: str) -> tuple[str, ...]:
    found = []
    for one in (facts.get("dns") or {}).get("nameservers") or ():
        try:
            address = ipaddress.ip_address(str(one))
        except ValueError:
            continue
        # of a resolver on the server itself, which VMs cannot use
        if not address.is_loopback and not address.is_link_local:
            found.append(str(address))
    return tuple(found) or (gateway,)


def pool(facts: Facts) -> dict[str, dict[str, t.Any]]:
    """Return the pool that a server will have, with the size of its file system; empty if that is unknown."""
    over = [one for one in facts["mounts"] if one.get("size_total") and f"{_IMAGES}/".startswith(f"{str(one.get('mount')).rstrip('/')}/")]
    mount = max(over, key=lambda one: len(one["mount"]), default=None)
    if mount is None:
        return {}
    return {"default": {"path": _IMAGES, "capacity_bytes": mount["size_total"], "available_bytes": mount["size_available"]}}


def used_gib(facts: Facts) -> int:
    """Return the GiB that the files on the disks of a machine take."""
    disks = {str(one.get("device")): one for one in facts["mounts"] if str(one.get("device")).startswith("/dev/") and one.get("size_total")}
    return math.ceil(sum(one["size_total"] - one["size_available"] for one in disks.values()) / _GIB)


def memory_gib(facts: Facts) -> int:
    """Return the GiB of memory that a machine needs as a VM: half as much again as its programs use, at least 2, and never more than it has."""
    total = facts["memtotal_mb"]
    used = ((facts.get("memory_mb") or {}).get("nocache") or {}).get("used") or total
    return math.ceil(min(total, max(2048, used * 1.5)) / 1024)
