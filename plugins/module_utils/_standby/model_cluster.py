# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two servers that start each other's VMs by themselves: a cluster of Corosync and Pacemaker, in which the witness has a vote."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_bmc, model_power
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name

_NAME = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")
_AUTHKEY = re.compile(r"\A[!-~]{128}\Z")
_MOST_ADDRESSES = 2

#: Options of modules for the two servers, documented in the fragment ``failover``.
MEMBER_ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "cluster": {"type": "str"},
    "members": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "addresses": {"type": "list", "elements": "str", "required": True},
            "bmc": model_power.MACHINE_ARGUMENTS["bmc"],
            "bmc_authority": {"type": "str"},
            "watchdog": {"type": "bool", "default": False},
        },
    },
    "witness": {"type": "str"},
    "watchdog": {"type": "str", "choices": ["auto", "always", "never"], "default": "auto"},
}


class Member(t.NamedTuple):
    """A server.

    :arg addresses: one for each network that both servers have, each of which gets a link.
    """

    name: str
    addresses: tuple[str, ...]
    bmc: model_bmc.Bmc | None
    watchdog: bool


class Cluster(t.NamedTuple):
    """The cluster.

    :arg name: also the name in the certificate with which its servers ask the witness for its vote.
    :arg watchdog: whether a server without a majority is reset by its watchdog.
    """

    name: str
    members: tuple[Member, Member]
    witness: str
    watchdog: bool

    def member(self, name: str) -> Member:
        """Return a server by its name."""
        for each in self.members:
            if each.name == name:
                return each
        raise InputError(f"{name} is none of {', '.join(each.name for each in self.members)}.", "name", "Use the name of one of the two servers.")


class Vm(t.NamedTuple):
    """A VM that is started on the other server if its own is lost."""

    id: str
    cluster: str
    uuid: str
    name: str


def parse_cluster(data: t.Mapping[str, t.Any]) -> Cluster:
    """Parse the cluster from module parameters."""
    if not _NAME.match(str(data.get("cluster") or "")):
        raise InputError("is not a valid name.", "cluster", "Use up to 100 letters, digits and . _ -")
    given = list(data.get("members") or ())
    if len(given) != 2:
        raise InputError(f"has {len(given)} entries.", "members", "Name two servers: a server of a VM, and its standby.")
    first, second = sorted((_member(each, f"members[{index}]") for index, each in enumerate(given)), key=lambda each: each.name)
    if first.name == second.name or set(first.addresses) & set(second.addresses):
        raise InputError("names a server or an address twice.", "members")
    if len(first.addresses) != len(second.addresses):
        raise InputError(
            f"{first.name} has {len(first.addresses)} addresses, {second.name} {len(second.addresses)}.",
            "members",
            "Give both one in each network, in the same order.",
        )
    wish = str(data.get("watchdog") or "auto")
    members = (first, second)
    return Cluster(str(data["cluster"]), members, _address(data.get("witness"), "witness"), _uses_watchdog(members, wish))


def _member(entry: t.Mapping[str, t.Any], path: str) -> Member:
    addresses = tuple(_address(each, f"{path}.addresses[{index}]") for index, each in enumerate(entry.get("addresses") or ()))
    if not 0 < len(addresses) <= _MOST_ADDRESSES:
        raise InputError(f"has {len(addresses)} entries.", f"{path}.addresses", "Give one address, or two in different networks.")
    bmc = entry.get("bmc")
    return Member(
        parse_name(entry.get("name"), f"{path}.name"), addresses, model_bmc.parse(bmc, f"{path}.bmc") if bmc else None, bool(entry.get("watchdog"))
    )


def _address(value: t.Any, path: str) -> str:
    try:
        return str(ipaddress.ip_address(str(value)))
    except ValueError as error:
        raise InputError(f"{value!r} is not an IP address.", path, "Use an address such as 192.0.2.12.") from error


def _uses_watchdog(members: t.Sequence[Member], wish: str) -> bool:
    """Whether the watchdogs are used: by default only if a server has no management controller."""
    without = [each.name for each in members if each.bmc is None]
    lacking = [each.name for each in members if not each.watchdog]
    if wish == "never" and without or without and lacking:
        reason = "no bmc in the inventory" if wish == "never" else f"no bmc in the inventory, and {' and '.join(lacking)} no hardware watchdog"
        raise InputError(
            f"{' and '.join(without)} {'have' if len(without) > 1 else 'has'} {reason}, so a server that is lost could continue to run the VM.",
            "automatic",
            "Set bmc of both servers, load the drivers of both watchdogs, or remove automatic from the VM details.",
        )
    if wish == "always" and lacking:
        raise InputError(f"{' and '.join(lacking)} has no hardware watchdog, /dev/watchdog0.", "watchdog", "Load its driver, or use auto.")
    return wish == "always" or bool(without)


def check_authkey(value: t.Any) -> str:
    """Return the key of the messages between the servers."""
    if not _AUTHKEY.match(str(value or "")):
        raise InputError("is not a key of 128 printable characters.", "authkey", "Use the lookup secret with length=128.")
    return str(value)
