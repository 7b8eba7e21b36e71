# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The input of a placement: servers, VMs, requests for whole servers, and the policy."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, Unique, kind_of
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_json_text import parse_json
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import parse_size
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import CapacityPolicy, HostCapacity, parse_policy
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails

# Kinds of groups: a majority of the members must survive; the members must be on different servers; the members only
# share a role.
QUORUM, APART, SPREAD = "quorum", "apart", "spread"

EXACT, AT_LEAST = "exact", "at_least"
MATCHES = (EXACT, AT_LEAST)

MOST_CPUS = 65536

_NOTHING = re.compile(r"\A\s*0+(\.0+)?\s*([KMGT]?i?B?)?\s*\Z", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class PlanServer:
    """A physical server of a plan; ``None`` means unknown.

    ``disk`` is in bytes. ``runs`` are the ids of the VMs that are on it now. ``sized`` are the pools whose size is known;
    ``credits`` those of them whose free bytes already exclude what the existing VMs use. ``capacity`` is ``None`` for a
    server that was not measured: it carries no VM. ``copies`` are the bytes of copies of VMs of other servers by id, ``held`` the MiB and vCPUs
    of VMs in ``runs`` by id.
    """

    name: str
    roles: tuple[str, ...]
    capacity: HostCapacity | None
    arch: str | None
    disk: int | None
    pools: frozenset[str] | None
    sized: frozenset[str]
    credits: frozenset[str]
    hypervisors: frozenset[str] | None
    hypervisor_reasons: t.Mapping[str, str]
    bridges: frozenset[str] | None
    networks: frozenset[str] | None
    runs: tuple[str, ...]
    path: str
    copies: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    held: t.Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)

    @property
    def memory_mib(self) -> int | None:
        """Installed memory, ``None`` if unknown."""
        return self.capacity.facts.memory_mib if self.capacity else None

    @property
    def cpus(self) -> int | None:
        """Logical CPUs, ``None`` if unknown."""
        return self.capacity.facts.cpus if self.capacity else None


@dataclasses.dataclass(frozen=True)
class PlanVm:
    """A VM to place: its details, the server it is pinned to, and its current server.

    ``exists`` is false if the current server only lists it, ``None`` if unknown.
    """

    details: VmDetails
    host: str | None
    current: str | None
    groups: tuple[str, ...]
    nested: bool
    exists: bool | None = True


@dataclasses.dataclass(frozen=True)
class WantedServer:
    """A request for a whole physical server; ``None`` means any.

    ``match`` is ``exact`` (as much as requested, no less and no more) or ``at_least``; ``host`` pins it.
    """

    name: str
    cpus: int | None
    memory_mib: int | None
    disk: int | None
    arch: str | None
    match: str
    roles: tuple[str, ...]
    host: str | None
    path: str


@dataclasses.dataclass(frozen=True)
class PlacementPolicy:
    """The rules of a placement.

    ``thin_ratio`` is the total size of disks per capacity of a pool. Members of ``quorum_roles`` need a majority; those of
    ``apart_roles`` are placed on different servers where possible, those of ``strict_groups`` always.
    """

    capacity: CapacityPolicy
    thin_ratio: float
    pool: str
    quorum_roles: tuple[str, ...]
    apart_roles: tuple[str, ...]
    strict_groups: tuple[str, ...]
    allow_moves: bool
    ha_required: bool


@dataclasses.dataclass(frozen=True)
class PlacementQuestion:
    """The checked input of a plan."""

    cluster: str
    servers: tuple[PlanServer, ...]
    vms: tuple[PlanVm, ...]
    wanted: tuple[WantedServer, ...]
    policy: PlacementPolicy


def parse_placement_policy(
    *,
    memory_reserve: t.Any = "1 GiB",
    vcpu_ratio: t.Any = 4,
    pool_reserve: t.Any = None,
    thin_ratio: t.Any = 1,
    pool: t.Any = "default",
    quorum_roles: t.Any = ("controller",),
    apart_roles: t.Any = (),
    strict_groups: t.Any = (),
    allow_moves: bool = True,
    ha_required: bool = False,
) -> PlacementPolicy:
    """Parse the policy."""
    ratio = parse_ratio(thin_ratio, "thin_ratio", "Write the total size of disks per capacity of a pool, e.g. 1.5.")
    if ratio < 1:
        raise InputError(f"{thin_ratio} is less than 1.", "thin_ratio", "Set at least 1. To keep space free, use pool_reserve.")
    return PlacementPolicy(
        capacity=parse_policy(memory_reserve, vcpu_ratio, pool_reserve),
        thin_ratio=ratio,
        pool=parse_name(pool, "pool"),
        quorum_roles=parse_names(quorum_roles, "quorum_roles"),
        apart_roles=parse_names(apart_roles, "apart_roles"),
        strict_groups=parse_names(strict_groups, "strict_groups"),
        allow_moves=allow_moves,
        ha_required=ha_required,
    )


_WANTED_KEYS = ("name", "cpu", "cpus", "ram", "memory", "disk", "arch", "match", "roles", "host", "count")
_MOST_COUNT = 10000


def parse_wanted(value: t.Any, path: str = "wanted") -> tuple[WantedServer, ...]:
    """Parse requests for physical servers; ``count: 3`` of an entry requests ``NAME-1`` to ``NAME-3``."""
    found: list[WantedServer] = []
    for index, entry in enumerate(as_list(value, path)):
        found.extend(_parse_wanted(entry, f"{path}[{index}]"))
    refuse_duplicates(((one.name, f"{one.path}.name") for one in found), "Give every wanted server a unique name.")
    return tuple(found)


def _parse_wanted(entry: t.Any, path: str) -> t.Iterator[WantedServer]:
    check_known(entry, _WANTED_KEYS, path, "Write each wanted server as a mapping, e.g. {name: compute1, ram: 16}.")
    name = parse_name(entry.get("name"), f"{path}.name")
    match = entry.get("match") or EXACT
    if match not in MATCHES:
        raise InputError(f"{match!r} is not a valid match.", f"{path}.match", f"Use one of {', '.join(MATCHES)}.")
    count = 1 if entry.get("count") is None else parse_count(entry["count"], f"{path}.count", _MOST_COUNT, "Write the number of servers, e.g. 3.")
    host = entry.get("host")
    if host is not None and count != 1:
        raise InputError(f"{host!r} cannot be used for {count} servers.", f"{path}.host", "Remove count, or write one entry for each server.")
    arch = entry.get("arch")
    one = WantedServer(
        name=name,
        cpus=one_of(entry, ("cpu", "cpus"), path, lambda v, p: parse_count(v, p, MOST_CPUS, "Write a whole number of CPUs, e.g. 16.")),
        memory_mib=one_of(entry, ("ram", "memory"), path, parse_mib),
        disk=parse_size(entry["disk"], "GiB", f"{path}.disk") if entry.get("disk") is not None else None,
        arch=parse_name(arch, f"{path}.arch") if arch is not None else None,
        match=match,
        roles=parse_names(entry.get("roles"), f"{path}.roles"),
        host=parse_name(host, f"{path}.host") if host is not None else None,
        path=path,
    )
    if entry.get("count") is None:
        yield one
        return
    for number in range(1, count + 1):
        yield dataclasses.replace(one, name=f"{name}-{number}")


def as_list(value: t.Any, path: str) -> list[t.Any]:
    """Return a list from a list, a mapping by name, or either as JSON text; ``None`` and ``""`` are an empty list."""
    if isinstance(value, str):
        if not value.strip():
            return []
        value = parse_json(value, path)
    if value is None:
        return []
    if isinstance(value, t.Mapping):
        for name, entry in value.items():
            if entry is not None and not isinstance(entry, t.Mapping):
                raise InputError(f"expected a mapping, got {kind_of(entry)}.", f"{path}.{name}", "Write NAME: {key: value}.")
        return [{"name": name, **(entry or {})} for name, entry in value.items()]
    if isinstance(value, (str, bytes)) or not isinstance(value, t.Sequence):
        raise InputError(f"expected a list, got {kind_of(value)}.", path, "Give a list of mappings, or that list as JSON text.")
    return list(value)


def parse_names(value: t.Any, path: str) -> tuple[str, ...]:
    """Parse a list of names, or one name."""
    if value is None or value == "":
        return ()
    if isinstance(value, (str, int)):
        value = [value]
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise InputError(f"expected a list of names, got {value!r}.", path, "Write a list of names, e.g. [controller].")
    names = sorted(value) if isinstance(value, (set, frozenset)) else value
    return tuple(dict.fromkeys(parse_name(name, f"{path}[{index}]") for index, name in enumerate(names)))


def parse_count(value: t.Any, path: str, most: int, hint: str, least: int = 1) -> int:
    """Parse an integer, also as text."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{value!r} is not an integer.", path, hint)
    if not least <= value <= most:
        raise InputError(f"{value} is not between {least} and {most}.", path, hint)
    return value


def parse_ratio(value: t.Any, path: str, hint: str) -> float:
    """Parse a number above 0 and at most 1000."""
    try:
        ratio = float(value) if not isinstance(value, bool) else 0.0
    except (TypeError, ValueError) as error:
        raise InputError(f"{value!r} is not a number.", path, hint) from error
    if not 0 < ratio <= 1000:
        raise InputError(f"{value} is not between 0 and 1000.", path, hint)
    return ratio


def parse_bytes(value: t.Any, path: str, default_unit: str = "GiB") -> int:
    """Parse a size in bytes, which may be 0."""
    if not isinstance(value, bool) and _NOTHING.match(str(value)):
        return 0
    return parse_size(value, default_unit, path)


def parse_mib(value: t.Any, path: str) -> int:
    """Parse a size of memory, in MiB, rounded down."""
    size = parse_size(value, "GiB", path) >> 20
    if not 1 <= size <= 1 << 30:
        raise InputError(f"{value!r} is not between 1 MiB and 1 PiB.", path, "A number without unit is in GiB; add another unit if needed.")
    return size


def one_of(entry: t.Mapping[str, t.Any], keys: t.Sequence[str], path: str, convert: t.Callable[[t.Any, str], t.Any]) -> t.Any:
    """Return the value of the first of several alternative keys, ``None`` if none is given."""
    found = [(key, convert(entry[key], f"{path}.{key}")) for key in keys if entry.get(key) is not None]
    for key, value in found[1:]:
        if value != found[0][1]:
            raise InputError(f"differs from {found[0][0]}, which has the same meaning.", f"{path}.{key}", "Keep one of the two.")
    return found[0][1] if found else None


def refuse_duplicates(named: t.Iterable[tuple[str, str]], hint: str) -> None:
    """Refuse a name that is used twice."""
    unique = Unique()
    for name, path in named:
        unique.check(name, path, hint)
