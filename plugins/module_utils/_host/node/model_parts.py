# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The storage pools and libvirt networks of a node, and which of them this collection created."""

from __future__ import annotations

import os
import re
import typing as t
import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known, sequence
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import parse_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_bool, parse_name

POOL, NETWORK = "pool", "network"
DIR, LOGICAL = "dir", "logical"

# Must never change: the UUID identifies a pool or network of this collection without the record.
_NAMESPACE = uuid.UUID("a1b8a5a2-0f0e-5c53-9a0d-6a2f0c7a51e9")
_POOL_KEYS = ("name", "type", "path", "source", "reserve", "mounted")
_NETWORK_KEYS = ("name", "bridge")
# valid names of LVM volume groups
_GROUP = re.compile(r"\A[A-Za-z0-9+_.][A-Za-z0-9+_.-]{0,126}\Z")
_BRIDGE = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,14}\Z")
_HINT_POOL = "Use {name: NAME} for an existing pool, {name: NAME, path: FOLDER} or {name: NAME, type: logical, source: GROUP} for a new one."


class WantedPool(t.NamedTuple):
    """A requested pool; without ``type`` an existing pool is used unchanged.

    ``path`` is the folder of a ``dir`` pool, ``source`` the volume group of a ``logical`` one,
    ``reserve`` the bytes to keep free, ``None`` for the reserve of all pools, ``where`` its path in the input.
    ``mounted``: whether it must be on a separate file system, ``None`` to use the recorded mount point.
    """

    name: str
    type: str | None
    path: str | None = None
    source: str | None = None
    reserve: int | None = None
    where: str = "pool"
    mounted: bool | None = None


class WantedNetwork(t.NamedTuple):
    """A requested libvirt network that forwards to a bridge of the host."""

    name: str
    bridge: str
    where: str


class FoundNetwork(t.NamedTuple):
    """A libvirt network; ``bridge`` is ``None`` if it has none."""

    name: str
    uuid: str
    mode: str
    bridge: str | None
    active: bool
    autostart: bool

    @property
    def ours(self) -> bool:
        """Whether this collection created it."""
        return self.uuid == made_uuid(NETWORK, self.name)

    def as_dict(self) -> dict[str, t.Any]:
        """Return the network for results."""
        return {**{key: value for key, value in self._asdict().items() if key != "uuid"}, "ours": self.ours}


def made_uuid(kind: str, name: str) -> str:
    """Return the UUID of a pool or network that this collection creates."""
    return str(uuid.uuid5(_NAMESPACE, f"{kind}:{name}"))


def parse_pools(value: t.Any, default: str, default_path: str | None) -> tuple[WantedPool, ...]:
    """Parse the requested pools; the default one comes first, its entry in the list takes precedence."""
    if default_path is not None and not os.path.isabs(default_path):
        raise InputError(f"{default_path!r} is not an absolute path.", "pool_path", "Use the absolute path of the pool's folder.")
    listed = [_parse_pool(entry, f"pools[{index}]") for index, entry in enumerate(sequence(value, "pools", _HINT_POOL))]
    names: dict[str, str] = {}
    for pool in listed:
        if pool.name in names:
            raise InputError(f"{pool.name!r} is already the name of {names[pool.name]}.", f"{pool.where}.name", "List each pool once.")
        names[pool.name] = pool.where
    first = next((pool for pool in listed if pool.name == default), None)
    if first is not None and default_path is not None:
        raise InputError(f"{default!r} is also defined by {first.where}.", "pool_path", f"Omit pool_path, or remove the pool {default} from pools.")
    if first is None:
        first = WantedPool(default, DIR if default_path else None, default_path, where="pool_path" if default_path else "pool")
    return (first, *(pool for pool in listed if pool is not first))


def parse_networks(value: t.Any) -> tuple[WantedNetwork, ...]:
    """Parse the requested networks."""
    hint = "Use {bridge: BRIDGE}, with a name if it differs from that of the bridge."
    found: list[WantedNetwork] = []
    for index, entry in enumerate(sequence(value, "networks", hint)):
        where = f"networks[{index}]"
        check_known(entry, _NETWORK_KEYS, where, hint)
        bridge = entry.get("bridge")
        if not isinstance(bridge, str) or not _BRIDGE.match(bridge):
            raise InputError(f"{shown(bridge)} is not a valid name of a bridge.", f"{where}.bridge", hint)
        name = parse_name(entry["name"], f"{where}.name") if entry.get("name") is not None else bridge
        twin = next((one for one in found if one.name == name), None)
        if twin:
            raise InputError(f"{name!r} is already the name of {twin.where}.", f"{where}.name", "Use unique names.")
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
        raise InputError(f"{shown(kind)} is not a supported pool type.", f"{where}.type", "Use dir or logical, or create the pool manually and only name it.")
    if kind == DIR:
        if source is not None:
            raise InputError("a pool of type dir has no volume group.", f"{where}.source", "Omit source, or set type: logical.")
        if not isinstance(path, str) or not os.path.isabs(path):
            raise InputError(f"{shown(path)} is not an absolute path.", f"{where}.path", "Use the absolute path of the pool's folder.")
    if kind == LOGICAL:
        if path is not None:
            raise InputError("a pool of type logical has no folder.", f"{where}.path", "Omit path, or set type: dir.")
        source = name if source is None else source
        if not isinstance(source, str) or not _GROUP.match(source) or source in (".", ".."):
            raise InputError(f"{shown(source)} is not a valid name of a volume group.", f"{where}.source", "Use a name that vgs shows.")
    mounted = None if entry.get("mounted") is None else parse_bool(entry["mounted"], f"{where}.mounted")
    if mounted is not None and kind == LOGICAL:
        raise InputError("a pool of type logical is not mounted.", f"{where}.mounted", "Omit mounted.")
    return WantedPool(name, kind, path, source, kept, where, mounted)
