# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answers from which the first inventory is written."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, Problems, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import choice, ipv4, matched

VMS, CONTROL_PLANE, CLOUD, MOVE = WANTED = ("vms", "control_plane", "cloud", "move")
CONTROLLERS = tuple(f"controller{number}" for number in (1, 2, 3))
FIRST_VM = "vm1"
#: Names of groups and VMs, which no machine may have.
_TAKEN = (*CONTROLLERS, FIRST_VM, "all", "ungrouped", "localhost", "servers", "virt", "compute", "controller", "master", "footprint_vms", "witness")
_NAME = re.compile(r"\A[a-z][a-z0-9-]{0,62}\Z")
_USER = re.compile(r"\A[a-z_][a-z0-9_-]{0,31}\Z")
#: Uses of addresses. Of the floating ones of a cloud there are some more.
VIRTUAL, TEMPORARY, FLOATING = "the virtual address", "the source after its migration", "floating addresses"
_MORE_FLOATING = 3
_MOST = 1 << 16

Address = ipaddress.IPv4Address


class Machine(t.NamedTuple):
    """A machine that Ansible connects to."""

    name: str
    address: str


class Answers(t.NamedTuple):
    """What the user wants.

    :arg source: the machine that is migrated into a VM.
    :arg first, last: the range of free addresses.
    :arg wanted: one of :data:`WANTED`.
    :arg expert: whether the user has read the disclaimer.
    """

    servers: tuple[Machine, ...]
    source: Machine | None
    user: str
    first: Address
    last: Address
    wanted: str
    cluster: str
    expert: bool

    @property
    def machines(self) -> tuple[Machine, ...]:
        """All machines."""
        return (*self.servers, *([self.source] if self.source else []))

    @property
    def vms(self) -> tuple[str, ...]:
        """The names of the VMs."""
        return {VMS: (FIRST_VM,), MOVE: ()}.get(self.wanted, CONTROLLERS)


def parse(given: t.Mapping[str, t.Any]) -> Answers:
    """Parse the answers.

    :arg given: the variables of the playbook ``init``, without their prefix, and ``expert_mode``.
    """
    problems = Problems()
    servers = [problems.call(_machine, one, f"init_servers[{index}]") for index, one in enumerate(given["servers"])]
    if not servers:
        problems.found.append(InputError("is required.", "init_servers", "Write each server as NAME=ADDRESS, e.g. metal1=192.0.2.11,metal2=192.0.2.12."))
    source = problems.call(_machine, given["source"], "init_source") if given["source"] else None
    wanted = problems.call(choice, given["wanted"], WANTED, "init_wanted")
    if wanted == MOVE and not given["source"]:
        problems.found.append(InputError("is required to move a machine.", "init_source", "Write the machine as NAME=ADDRESS, e.g. laptop=192.0.2.2."))
    user = problems.call(matched, given["user"], _USER, "init_user", "Use the name of a user, e.g. root.") or "root"
    cluster = problems.call(matched, given["cluster"], _NAME, "init_cluster", "Use lower-case letters, digits and hyphens.") or "home"
    seen: dict[str, str] = {}
    for one, path in [*((one, f"init_servers[{index}]") for index, one in enumerate(servers)), (source, "init_source")]:
        for value in one or ():
            if seen.setdefault(value, path) != path:
                problems.found.append(InputError(f"{value} is already used at {seen[value]}.", path, "Each machine has a name and an address of its own."))
    ends = problems.call(_range, given["addresses"])
    problems.check()
    answers = Answers(tuple(servers), source, user, *ends, str(wanted), cluster, given["expert_mode"])
    for machine in answers.machines:
        check_free(answers, machine.address, machine.name)
    addresses(answers)
    return answers


def check_free(answers: Answers, address: str, whose: str) -> None:
    """Refuse an address that is in use within the range."""
    if answers.first <= ipaddress.IPv4Address(address) <= answers.last:
        message = f"contains {address}, which is in use by {whose}."
        raise InputError(message, "init_addresses", "Give a range of which no address is in use; DHCP must not give them to others either.")


def addresses(answers: Answers) -> dict[str, str]:
    """Return the addresses of the range by their use: :data:`VIRTUAL`, the names of VMs, :data:`TEMPORARY`, and the first of :data:`FLOATING`."""
    cloud = answers.wanted == CLOUD
    uses = [*([VIRTUAL] if answers.vms == CONTROLLERS else []), *answers.vms, *([TEMPORARY] if answers.source else []), *([FLOATING] if cloud else [])]
    needed, size = len(uses) + (_MORE_FLOATING if cloud else 0), int(answers.last) - int(answers.first) + 1
    if size < needed:
        raise InputError(f"has {size} addresses, but {needed} are required, for {', '.join(uses)}.", "init_addresses", "Give a larger range.")
    return {use: str(answers.first + number) for number, use in enumerate(uses)}


def _machine(value: t.Any, path: str) -> Machine:
    name, _equals, address = (part.strip() for part in str(value).partition("="))
    if not _NAME.match(name) or not address:
        raise InputError(f"{shown(value)} is not a machine.", path, "Write NAME=ADDRESS, e.g. metal1=192.0.2.11, the name in lower case.")
    if name in _TAKEN:
        raise InputError(f"{name} is the name of a group or VM.", path, "Use another name, e.g. metal1.")
    if ipaddress.IPv4Address(ipv4(address, path)).is_loopback:
        raise InputError(f"{address} is this machine wherever it is used.", path, "Write its address in the network of the servers.")
    return Machine(name, ipv4(address, path))


def _range(value: str) -> tuple[Address, Address]:
    path, hint = "init_addresses", "Write the first and the last free address, e.g. 192.0.2.20-192.0.2.40."
    if not value:
        raise InputError("is required.", path, hint)
    first, dash, last = (part.strip() for part in value.partition("-"))
    if not dash:
        raise InputError(f"{shown(value)} is not a range.", path, hint)
    ends = tuple(ipaddress.IPv4Address(ipv4(one, path)) for one in (first, last))
    if not 0 <= int(ends[1]) - int(ends[0]) < _MOST:
        raise InputError(f"{value} is not a range: the first address must be lower, and there may be {_MOST} at most.", path, hint)
    return ends[0], ends[1]
