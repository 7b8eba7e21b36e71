# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the source is quiesced: which units and containers, by stopping them or by a boot without them."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known

STOP_SERVICES = "stop_services"
MAINTENANCE_BOOT = "maintenance_boot"
QUIESCE = (STOP_SERVICES, MAINTENANCE_BOOT)
ENGINES = ("docker", "podman")
# instead of unit names: all units except those the migration depends on
ALL = "all"

_UNIT = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9:_.@\\-]{0,250}\Z")
_UNIT_TYPES = ("service", "socket", "timer", "target", "path", "mount", "slice", "scope", "automount", "swap")
# names that both engines accept
_CONTAINER = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,250}\Z")
# the kernel accepts almost any name of a network card
_CARD = re.compile(r"\A[^\s/'\"\\-][^\s/'\"\\]{0,14}\Z")
_ADDRESS = re.compile(r"\A[0-9A-Fa-f.:]{2,45}\Z")
#: Longest lease in seconds.
LONGEST_LEASE = 86400
_CARRIERS = ("ssh", "sshd", "dbus", "dbus-broker", "systemd-networkd", "NetworkManager", "networking")


class Container(t.NamedTuple):
    """One container of the source."""

    engine: str
    name: str


def parse_quiesce(value: t.Any) -> str:
    """Parse ``quiesce``; the default is :data:`STOP_SERVICES`."""
    if value is None or value == "":
        return STOP_SERVICES
    if value not in QUIESCE:
        raise InputError(f"{shown(value)} is not supported.", "quiesce", f"Use one of {', '.join(QUIESCE)}.")
    return str(value)


def parse_unit(value: t.Any, path: str) -> str:
    """Parse the name of a systemd unit; ``.service`` is added if it has no suffix."""
    if not isinstance(value, str) or not _UNIT.match(value):
        raise InputError(f"{shown(value)} is not a valid unit name.", path, "Write the name of a systemd unit, e.g. mariadb or backup.timer.")
    return value if "." in value.rpartition("@")[2] and value.rsplit(".", 1)[1] in _UNIT_TYPES else f"{value}.service"


def parse_services(value: t.Any) -> tuple[str, ...]:
    """Parse unit names in the order in which they stop, or ``("all",)``."""
    entries = [value] if isinstance(value, str) else value or []
    if not isinstance(entries, (list, tuple)):
        raise InputError(f"{shown(value)} is not a list.", "services", f"Name systemd units, or write {ALL}.")
    if ALL in entries:
        if len(entries) > 1:
            raise InputError(f"contains {ALL} and other units.", "services", f"Write {ALL} alone; systemd's own order applies to it.")
        return (ALL,)
    units = []
    for index, unit in enumerate(entries):
        path = f"services[{index}]"
        if isinstance(unit, str) and unit.lower() == ALL:
            raise InputError(f"{unit!r} is not a valid unit name.", path, f"Write {ALL} in lower case and alone to stop all services.")
        name = parse_unit(unit, path)
        if name.split(".")[0] in _CARRIERS:
            raise InputError(f"{name} cannot be stopped because the migration depends on it.", path, "Remove it from the list.")
        units.append(name)
    if len(set(units)) != len(units):
        raise InputError("contains a unit twice.", "services", "List every unit once, in the order in which they must stop.")
    return tuple(units)


def parse_containers(value: t.Any) -> tuple[Container, ...]:
    """Parse containers in the order in which they stop."""
    if value is not None and not isinstance(value, (list, tuple)):
        raise InputError(f"{shown(value)} is not a list.", "containers", "Write e.g. [{engine: podman, name: web}].")
    found: list[Container] = []
    for index, entry in enumerate(value or []):
        path = f"containers[{index}]"
        if not isinstance(entry, t.Mapping):
            raise InputError(f"{shown(entry)} is not a mapping.", path, "Write e.g. {engine: podman, name: web}.")
        check_known(entry, ("engine", "name"), path, "")
        if entry.get("engine") not in ENGINES:
            raise InputError(f"{shown(entry.get('engine'))} is not supported.", f"{path}.engine", f"Use one of {', '.join(ENGINES)}.")
        name = entry.get("name")
        if not isinstance(name, str) or not _CONTAINER.match(name):
            raise InputError(f"{shown(name)} is not a valid container name.", f"{path}.name", "Write the name as the engine lists it.")
        container = Container(str(entry["engine"]), name)
        if container in found:
            raise InputError("is listed twice.", path, "List every container once, in the order in which they must stop.")
        found.append(container)
    return tuple(found)


def parse_excludes(value: t.Any) -> tuple[str, ...]:
    """Parse paths and patterns that are not copied."""
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{shown(value)} is not a list.", "excludes", "Write e.g. [/var/cache/x/*].")
    for index, each in enumerate(value):
        if not isinstance(each, str) or not each.startswith("/") or each in ("/", "/*", "/**") or "\n" in each or "\0" in each:
            raise InputError(f"{shown(each)} is not a valid exclude.", f"excludes[{index}]", "Write an absolute path or rsync pattern, e.g. /var/cache/x/*.")
    return tuple(value)


def check_request(given: t.Mapping[str, t.Any]) -> None:
    """Check the values that a virt host sends to its source: they become parts of files, commands and unit names there."""
    parse_services(given.get("services"))
    parse_containers(given.get("containers"))
    parse_quiesce(given.get("quiesce"))
    parse_excludes(given.get("excludes") or [])
    lease = given.get("lease", 1)
    if isinstance(lease, bool) or not isinstance(lease, (int, float)) or not 0 < lease <= LONGEST_LEASE:
        raise InputError(f"{shown(lease)} is not a number of seconds up to {LONGEST_LEASE}.", "lease")
    if given.get("address") is not None:
        _check_address(given["address"], "address")
    admin = given.get("admin")
    if admin is None:
        return
    if not isinstance(admin, t.Mapping):
        raise InputError(f"{shown(admin)} is not a mapping.", "admin")
    for name in ("address", "temporary_address"):
        _check_address(admin.get(name), f"admin.{name}")
    prefix = admin.get("prefix")
    if isinstance(prefix, bool) or not isinstance(prefix, int) or not 0 <= prefix <= 128:
        raise InputError(f"{shown(prefix)} is not a prefix length.", "admin.prefix")
    cards = admin.get("cards") or []
    if not isinstance(cards, list):
        raise InputError(f"{shown(cards)} is not a list.", "admin.cards")
    for path, card in [("admin.interface", admin.get("interface")), *((f"admin.cards[{index}]", card) for index, card in enumerate(cards))]:
        if not isinstance(card, str) or not _CARD.match(card):
            raise InputError(f"{shown(card)} is not the name of a network card.", path)


def _check_address(value: t.Any, path: str) -> None:
    # the scope of an IPv6 address may contain any text
    try:
        if isinstance(value, str) and _ADDRESS.match(value):
            ipaddress.ip_address(value)
            return
    except ValueError:
        pass
    raise InputError(f"{shown(value)} is not an IP address.", path)
