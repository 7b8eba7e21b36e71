# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The storage pools and libvirt networks of a node, and which of them this collection made."""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t
import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import parse_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_bool, parse_name

POOL, NETWORK = "pool", "network"
DIR, LOGICAL = "dir", "logical"

# Fixed for ever: by its UUID a pool or network is known as one of ours, also when the record is lost.
_NAMESPACE = uuid.UUID("a1b8a5a2-0f0e-5c53-9a0d-6a2f0c7a51e9")
_POOL_KEYS = ("name", "type", "path", "source", "reserve", "mounted")
_NETWORK_KEYS = ("name", "bridge")
# what LVM takes as the name of a volume group
_GROUP = re.compile(r"\A[A-Za-z0-9+_.][A-Za-z0-9+_.-]{0,126}\Z")
_BRIDGE = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,14}\Z")
_HINT_POOL = "Write {name: NAME} for a pool that is there, {name: NAME, path: FOLDER} or {name: NAME, type: logical, source: GROUP} for one to be made."


@dataclasses.dataclass(frozen=True)
class WantedPool:
    """A pool as the operator asks for it; without ``type`` it is used as it is.

    ``path`` is the folder of a ``dir`` pool, ``source`` the volume group of a ``logical`` one,
    ``reserve`` the bytes to keep free where they are not those of all pools, ``where`` its place in the input.
    ``mounted``: whether it must be on a file system of its own, ``None`` where that is to be found out.
    """

    name: str
    type: str | None
    path: str | None = None
    source: str | None = None
    reserve: int | None = None
    where: str = "pool"
    mounted: bool | None = None


@dataclasses.dataclass(frozen=True)
class WantedNetwork:
    """A network of libvirt that leads to a bridge of the host."""

    name: str
    bridge: str
    where: str


@dataclasses.dataclass(frozen=True)
class FoundNetwork:
    """A network as libvirt has it; ``bridge`` is ``None`` where it has none of its own or the host's."""

    name: str
    uuid: str
    mode: str
    bridge: str | None
    active: bool
    autostart: bool

    @property
    def ours(self) -> bool:
        """Whether this collection made it."""
        return self.uuid == made_uuid(NETWORK, self.name)

    def as_dict(self) -> dict[str, t.Any]:
        """For results."""
        return {
            "name": self.name,
            "mode": self.mode,
            "bridge": self.bridge,
            "active": self.active,
            "autostart": self.autostart,
            "ours": self.ours,
        }


def made_uuid(kind: str, name: str) -> str:
    """The UUID of a pool or network that this collection makes."""
    return str(uuid.uuid5(_NAMESPACE, f"{kind}:{name}"))


def parse_pools(value: t.Any, default: str, default_path: str | None) -> tuple[WantedPool, ...]:
    """The pools a node is to have; the default one comes first, as the list has it where it names it.

    :arg value: list of mappings.
    :raises InputError: with the path of the bad value.
    """
    if default_path is not None and not os.path.isabs(default_path):
        raise InputError(f"{default_path!r} is not an absolute path.", "pool_path", "Write the pool's folder from / on.")
    listed = [_parse_pool(entry, f"pools[{index}]") for index, entry in enumerate(_entries(value, "pools", _HINT_POOL))]
    names: dict[str, str] = {}
    for pool in listed:
        if pool.name in names:
            raise InputError(f"{pool.name!r} is the name of {names[pool.name]} as well.", f"{pool.where}.name", "List each pool once.")
        names[pool.name] = pool.where
    first = next((pool for pool in listed if pool.name == default), None)
    if first is not None and default_path is not None:
        raise InputError(f"{default!r} is described by {first.where}, too.", "pool_path", f"Leave pool_path out, or take the pool {default} out of pools.")
    if first is None:
        first = WantedPool(default, DIR if default_path else None, default_path, where="pool_path" if default_path else "pool")
    return (first, *(pool for pool in listed if pool is not first))


def parse_networks(value: t.Any) -> tuple[WantedNetwork, ...]:
    """The networks a node is to have.

    :raises InputError: with the path of the bad value.
    """
    hint = "Write {bridge: BRIDGE}, and a name where the network is not to be called like its bridge."
    found: list[WantedNetwork] = []
    for index, entry in enumerate(_entries(value, "networks", hint)):
        where = f"networks[{index}]"
        check_known(entry, _NETWORK_KEYS, where, hint)
        bridge = entry.get("bridge")
        if not isinstance(bridge, str) or not _BRIDGE.match(bridge):
            raise InputError(f"{shown(bridge)} is no name of a bridge.", f"{where}.bridge", hint)
        name = parse_name(entry["name"], f"{where}.name") if entry.get("name") is not None else bridge
        twin = next((one for one in found if one.name == name), None)
        if twin:
            raise InputError(f"{name!r} is the name of {twin.where} as well.", f"{where}.name", "Give each network its own name.")
        found.append(WantedNetwork(name, bridge, where))
    return tuple(found)


def _parse_pool(entry: t.Mapping[str, t.Any], where: str) -> WantedPool:
    check_known(entry, _POOL_KEYS, where, _HINT_POOL)
    name = parse_name(entry.get("name"), f"{where}.name")
    path, source, kind = (entry.get(key) for key in ("path", "source", "type"))
    reserve = entry.get("reserve")
    kept = None if reserve is None else 0 if str(reserve).strip() in ("0", "0.0") else parse_size(reserve, "GiB", f"{where}.reserve")
    if kind is None:
        kind = DIR if path is not None else LOGICAL if source is not None else None
    if kind not in (None, DIR, LOGICAL):
        raise InputError(f"{shown(kind)} is no type of a pool that can be made.", f"{where}.type", "Use dir or logical, or make the pool yourself and name it.")
    if kind == DIR:
        if source is not None:
            raise InputError("a folder has no volume group.", f"{where}.source", "Leave it out, or set type: logical.")
        if not isinstance(path, str) or not os.path.isabs(path):
            raise InputError(f"{shown(path)} is not an absolute path.", f"{where}.path", "Write the pool's folder from / on.")
    if kind == LOGICAL:
        if path is not None:
            raise InputError("a volume group has no folder.", f"{where}.path", "Leave it out, or set type: dir.")
        source = name if source is None else source
        if not isinstance(source, str) or not _GROUP.match(source) or source in (".", ".."):
            raise InputError(f"{shown(source)} is no name of a volume group.", f"{where}.source", "Write the name that vgs shows.")
    mounted = None if entry.get("mounted") is None else parse_bool(entry["mounted"], f"{where}.mounted")
    if mounted is not None and kind == LOGICAL:
        raise InputError("a volume group is not mounted.", f"{where}.mounted", "Leave it out.")
    return WantedPool(name, kind, path, source, kept, where, mounted)


def _entries(value: t.Any, path: str, hint: str) -> t.Sequence[t.Mapping[str, t.Any]]:
    if value is None or value == "":
        return ()
    if isinstance(value, (str, bytes, t.Mapping)) or not isinstance(value, t.Sequence):
        raise InputError(f"is {type(value).__name__}, not a list.", path, hint)
    return value
