# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a placement is asked about: servers, VMs that want one, wanted servers, and the policy."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_json_text import parse_json
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import parse_size
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import CapacityPolicy, HostCapacity, parse_policy
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails

# How the members of a group stand to each other: a majority of them has to survive, they were asked
# to be kept apart, or they only do the same work.
QUORUM, APART, SPREAD = "quorum", "apart", "spread"

EXACT, AT_LEAST = "exact", "at_least"
MATCHES = (EXACT, AT_LEAST)

MOST_CPUS = 65536

_NOTHING = re.compile(r"\A\s*0+(\.0+)?\s*([KMGT]?i?B?)?\s*\Z", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class PlanServer:
    """A physical server as the plan sees it; ``None`` where nobody told.

    ``disk`` is in bytes. ``runs`` are the ids of VMs that stand on it now. ``sized`` are the pools
    whose bytes are known; ``credits`` those of them whose free bytes already lack what the VMs that
    stand there take. ``capacity`` is ``None`` for a server nobody measured: it carries no VM.
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

    @property
    def memory_mib(self) -> int | None:
        """What is built in, ``None`` when nobody told."""
        return self.capacity.facts.memory_mib if self.capacity else None

    @property
    def cpus(self) -> int | None:
        """Logical CPUs, ``None`` when nobody told."""
        return self.capacity.facts.cpus if self.capacity else None


@dataclasses.dataclass(frozen=True)
class PlanVm:
    """A VM that wants a server: its details, the server it is pinned to, the one it stands on now."""

    details: VmDetails
    host: str | None
    current: str | None
    groups: tuple[str, ...]
    nested: bool


@dataclasses.dataclass(frozen=True)
class WantedServer:
    """A whole physical server somebody asks for; ``None`` asks for nothing in particular.

    ``match`` is ``exact`` (as much as asked, no less and no more) or ``at_least``; ``host`` pins it.
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
    """How VMs are placed.

    ``thin_ratio`` is how many bytes may be promised per byte of a pool. Members of ``quorum_roles``
    need a majority; those of ``apart_roles`` are kept apart; of ``strict_groups`` two on one server
    are refused rather than avoided.
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
    """Everything a plan is made from, all values checked."""

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
    """The policy.

    :raises InputError: with the path of the bad value.
    """
    ratio = parse_ratio(thin_ratio, "thin_ratio", "Write how many bytes may be promised per byte of a pool, e.g. 1.5.")
    if ratio < 1:
        raise InputError(f"{thin_ratio} is less than 1.", "thin_ratio", "Use pool_reserve to keep bytes free.")
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
    """Wanted physical servers; ``count: 3`` of an entry asks for ``NAME-1`` to ``NAME-3``.

    :raises InputError: with the path of the bad value.
    """
    found: list[WantedServer] = []
    for index, entry in enumerate(as_list(value, path)):
        found.extend(_parse_wanted(entry, f"{path}[{index}]"))
    refuse_twins(((one.name, f"{one.path}.name") for one in found), "Give every wanted server its own name.")
    return tuple(found)


def _parse_wanted(entry: t.Any, path: str) -> t.Iterator[WantedServer]:
    check_known(entry, _WANTED_KEYS, path, "Write each wanted server as a mapping, e.g. {name: compute1, ram: 16}.")
    name = parse_name(entry.get("name"), f"{path}.name")
    match = entry.get("match") or EXACT
    if match not in MATCHES:
        raise InputError(f"{match!r} is no way to match.", f"{path}.match", f"Use one of {', '.join(MATCHES)}.")
    count = 1 if entry.get("count") is None else parse_count(entry["count"], f"{path}.count", _MOST_COUNT, "Write how many are wanted, e.g. 3.")
    host = entry.get("host")
    if host is not None and count != 1:
        raise InputError("pins several servers to one.", f"{path}.host", "Leave count out, or write one entry for each.")
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
    """A list, that list as JSON text, or a mapping of names; ``None`` and ``""`` are none at all.

    :raises InputError: anything else.
    """
    if isinstance(value, str):
        if not value.strip():
            return []
        value = parse_json(value, path)
    if value is None:
        return []
    if isinstance(value, t.Mapping):
        for name, entry in value.items():
            if entry is not None and not isinstance(entry, t.Mapping):
                raise InputError(f"is {type(entry).__name__}, not a mapping.", f"{path}.{name}", "Write NAME: {key: value}.")
        return [{"name": name, **(entry or {})} for name, entry in value.items()]
    if isinstance(value, (str, bytes)) or not isinstance(value, t.Sequence):
        raise InputError(f"is {type(value).__name__}, not a list.", path, "Give a list of mappings, or that list as JSON text.")
    return list(value)


def parse_names(value: t.Any, path: str) -> tuple[str, ...]:
    """A list of names, or one name.

    :raises InputError: anything else.
    """
    if value is None or value == "":
        return ()
    if isinstance(value, (str, int)):
        value = [value]
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise InputError(f"{value!r} is not a list of names.", path, "Write a list of names, e.g. [controller].")
    names = sorted(value) if isinstance(value, (set, frozenset)) else value
    return tuple(dict.fromkeys(parse_name(name, f"{path}[{index}]") for index, name in enumerate(names)))


def parse_count(value: t.Any, path: str, most: int, hint: str, least: int = 1) -> int:
    """A whole number, also as text.

    :raises InputError: anything else, or out of bounds.
    """
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{value!r} is not a whole number.", path, hint)
    if not least <= value <= most:
        raise InputError(f"{value} is not between {least} and {most}.", path, hint)
    return value


def parse_ratio(value: t.Any, path: str, hint: str) -> float:
    """A number above 0, at most 1000.

    :raises InputError: anything else.
    """
    try:
        ratio = float(value) if not isinstance(value, bool) else 0.0
    except (TypeError, ValueError) as error:
        raise InputError(f"{value!r} is not a number.", path, hint) from error
    if not 0 < ratio <= 1000:
        raise InputError(f"{value} is not between 0 and 1000.", path, hint)
    return ratio


def parse_bytes(value: t.Any, path: str, default_unit: str = "GiB") -> int:
    """A size in bytes that may be 0.

    :raises InputError: not a size.
    """
    if not isinstance(value, bool) and _NOTHING.match(str(value)):
        return 0
    return parse_size(value, default_unit, path)


def parse_mib(value: t.Any, path: str) -> int:
    """A size of memory that is more than nothing, in MiB (rounded down: nobody has what is not there).

    :raises InputError: not a size, or less than 1 MiB.
    """
    size = parse_size(value, "GiB", path) >> 20
    if not 1 <= size <= 1 << 30:
        raise InputError(f"{value!r} is not between 1 MiB and 1 PiB.", path, "A bare number counts in GiB; add a unit to mean another one.")
    return size


def one_of(entry: t.Mapping[str, t.Any], keys: t.Sequence[str], path: str, convert: t.Callable[[t.Any, str], t.Any]) -> t.Any:
    """The value that goes by one of several names, ``None`` when none is given.

    :raises InputError: two of them that differ.
    """
    found = [(key, convert(entry[key], f"{path}.{key}")) for key in keys if entry.get(key) is not None]
    for key, value in found[1:]:
        if value != found[0][1]:
            raise InputError(f"says something else than {found[0][0]}, which names the same thing.", f"{path}.{key}", "Keep one of the two.")
    return found[0][1] if found else None


def refuse_twins(named: t.Iterable[tuple[str, str]], hint: str) -> None:
    """Refuse a name that is used twice; the second one is named.

    :raises InputError: the path of the second.
    """
    seen: dict[str, str] = {}
    for name, path in named:
        first = seen.setdefault(name, path)
        if first != path:
            raise InputError(f"{name!r} is already used at {first}.", path, hint)
