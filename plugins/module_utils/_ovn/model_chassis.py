# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Open vSwitch of a chassis: its wanted and its present state."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

#: Key of a port that was added as an uplink, and of a switch that has to be restarted.
UPLINK, RESTART = "footprint-uplink", "footprint-restart"
#: The bridge of OVN, and the interface of a chassis that observes gateways.
INTEGRATION, OBSERVER = "br-int", "fp-observer"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}\Z")
_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")


class Bridge(t.NamedTuple):
    """A bridge, its datapath and its uplinks; ports of others, such as those of OVN, are not changed."""

    name: str
    datapath: str = "system"
    ports: tuple[str, ...] = ()


class Wanted(t.NamedTuple):
    """The wanted state.

    :arg external_ids: keys of the table Open_vSwitch, ``None`` for one that must not exist.
    :arg other_config: likewise.
    :arg managers: where the database listens or connects, e.g. ``ptcp:6640:127.0.0.1``.
    :arg observer: port in OVN of the interface that observes gateways, empty for no such interface, ``None`` for no change.
    """

    external_ids: t.Mapping[str, str | None] = {}
    other_config: t.Mapping[str, str | None] = {}
    managers: tuple[str, ...] = ()
    bridges: tuple[Bridge, ...] = ()
    observer: str | None = None


class Found(t.NamedTuple):
    """The present state: keys, managers, and bridge → datapath and ports.

    :arg uplinks: ports that were added as such, on any bridge.
    :arg observer: port in OVN of the interface that observes gateways.
    """

    external_ids: t.Mapping[str, str] = {}
    other_config: t.Mapping[str, str] = {}
    managers: tuple[str, ...] = ()
    bridges: t.Mapping[str, tuple[str, tuple[str, ...]]] = {}
    uplinks: frozenset[str] = frozenset()
    observer: str = ""


def parse_wanted(value: t.Mapping[str, t.Any]) -> Wanted:
    """Parse the wanted state from module parameters.

    :raises InputError: with the path of the invalid value.
    """
    bridges = []
    for index, entry in enumerate(value.get("bridges") or ()):
        path = f"bridges[{index}]"
        ports = tuple(_name(port, f"{path}.ports[{number}]") for number, port in enumerate(entry.get("ports") or ()))
        bridges.append(Bridge(_name(entry.get("name"), f"{path}.name"), str(entry.get("datapath") or "system"), ports))
    names = [bridge.name for bridge in bridges]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"{name} is listed twice.", f"bridges[{index}].name", "List each bridge once.")
    return Wanted(
        _keys(value.get("external_ids") or {}, "external_ids"),
        _keys(value.get("other_config") or {}, "other_config"),
        tuple(str(one) for one in value.get("managers") or ()),
        tuple(bridges),
        None if value.get("observer") is None else str(value["observer"]),
    )


def _keys(value: t.Mapping[str, t.Any], path: str) -> dict[str, str | None]:
    for key in value:
        if not _KEY.match(str(key)):
            raise InputError(f"{key!r} is not a valid key.", f"{path}.{key}", "Use letters, digits, hyphens and underscores.")
    return {str(key): None if text is None else str(text) for key, text in value.items()}


def _name(value: t.Any, path: str) -> str:
    if not isinstance(value, str) or not _NAME.match(value):
        raise InputError(f"{value!r} is not a valid name of an interface.", path, "Use up to 15 letters, digits, dots, hyphens and underscores.")
    return value
