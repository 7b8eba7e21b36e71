# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who owns which part of a domain document, for :mod:`xml_compare` and :mod:`xml_merge`.

The template owns the parts that the wanted or the last applied document contains. Additions by libvirt or
other tools are ignored, except for three kinds of devices that are never added by
accident; parts owned by a BMC emulator are kept as found until the template itself changes them.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_flatten

Node = xml_flatten.Node
Echo = t.Mapping[str, t.Optional[str]]
Group = t.Callable[[str], bool]

#: Elements that other tools extend, too: parts the template no longer contains are removed one by one.
CONTAINERS = frozenset(("os", "features", "devices", "metadata"))
#: Kinds of devices of which only those in the template are allowed, where it has any of the kind.
OWNED_DEVICES = ("disk", "interface", "filesystem")
# QEMU aliases for the newest version of a machine type
_NEWEST = {"pc": "pc-i440fx-", "q35": "pc-q35-"}
_REMOVABLE = frozenset(("cdrom", "floppy"))
_FIRMWARE = re.compile(r"\A(?:@firmware|(?:firmware|loader|nvram)(?:\[.*)?)\Z")
_MEDIUM = re.compile(r"\A(?:@type|source(?:\[.*)?|backingStore|mirror)\Z")
_LIVE = re.compile(
    r"\A(?:title|description|currentMemory|vcpu/@current"
    r"|devices/(?:disk|interface|filesystem)\[[^/]*\]"
    r"(?:/(?:@type|(?:source|target|vlan)(?:/.*)?|model/@type|link/@state))?)\Z"
)
# libvirt chooses these at each start, such as the name of a tap device
_NOT_LIVE = re.compile(r"\Adevices/interface\[[^/]*\]/(?:target/|source/(?:@portid|@index|address))")
# chosen at each start, or shown expanded
_PER_START = re.compile(
    r"(?:\Acpu/(?:feature|@match|@check|model/@)|\Aseclabel|/alias(?:/|\Z)|/@tty\Z"
    r"|devices/(?:serial|console|channel|parallel)[^/]*/source/|devices/interface[^/]*/target/)"
)


def well_understood(path: str) -> bool:
    """Whether the live document shows the actual value at a path."""
    return _LIVE.match(path) is not None and _NOT_LIVE.match(path) is None


def per_start(path: str, host_model: bool) -> bool:
    """Whether the live document shows another value than the definition at a path.

    :arg host_model: the CPU is that of the host, expanded at each start.
    """
    return _PER_START.search(path) is not None or host_model and path.startswith("cpu")


def removable(node: Node | None) -> bool:
    """Whether a disk is a drive whose medium a BMC emulator may change."""
    return node is not None and node.element.get("device") in _REMOVABLE


def owned_kind(name: str, node: Node) -> str | None:
    """``disk``, ``interface`` or ``filesystem`` for a device that must be in the template; else ``None``."""
    kind = name.partition("[")[0]
    if kind not in OWNED_DEVICES or kind == "disk" and removable(node):
        return None
    return kind


def specified_kinds(*documents: Node | None) -> set[str]:
    """The owned kinds of devices that any of these documents has."""
    kinds = set()
    for document in documents:
        devices = document.children.get("devices") if document is not None else None
        for name, node in devices.children.items() if devices is not None else ():
            kind = owned_kind(name, node)
            if kind:
                kinds.add(kind)
    return kinds


def firmware(name: str) -> bool:
    """Whether this part of ``os`` belongs to the firmware."""
    return _FIRMWARE.match(name) is not None


def medium(name: str) -> bool:
    """Whether this part of a removable drive belongs to its medium."""
    return _MEDIUM.match(name) is not None


def parts(node: Node | None, which: Group) -> dict[str, Node | str]:
    """Attributes (as ``@name``) and children of a node that belong to a group."""
    if node is None:
        return {}
    found: dict[str, Node | str] = {f"@{name}": value for name, value in node.attributes.items() if which(f"@{name}")}
    found.update((name, child) for name, child in node.children.items() if which(name))
    return found


def unchanged(current: t.Mapping[str, Node | str], wanted: Node | None, applied: Node | None, group: Group, known: bool) -> bool:
    """Whether the template has the same content of a group (``current``) as last time; for an adopted domain: none."""
    if wanted is applied:
        return True
    if not known:
        return not current
    before = parts(applied, group)
    return current.keys() == before.keys() and all(_same(part, before[name]) for name, part in current.items())


def _same(one: Node | str, other: Node | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return xml_flatten.same(one, other)


def group_of(path: str, *nodes: Node | None) -> Group | None:
    """The group of parts of this element that a BMC emulator owns; ``None`` where it owns none."""
    if path == "os":
        return firmware
    if path.startswith("devices/disk[") and path.count("/") == 1 and any(removable(node) for node in nodes):
        return medium
    return None


def expected(path: str, applied: str | None, echo: Echo) -> str | None:
    """The value that libvirt stored for an applied value."""
    return echo[path] if path in echo else applied


def target(path: str, wanted: str | None, applied: str | None, found: str | None, echo: Echo) -> tuple[bool, str | None]:
    """Whether a value of the definition must change, and the new value.

    While the template is unchanged, the form that libvirt stored is accepted.
    """
    if wanted == applied:
        value = expected(path, applied, echo)
        if found in (applied, value):
            return False, found
        if not version_of(path, found, wanted, echo):
            return True, wanted if value is None else value
        return False, found
    return found != wanted and not version_of(path, found, wanted, echo), wanted


def version_of(path: str, found: str | None, wanted: str | None, echo: Echo) -> bool:
    """Whether a machine type is a version of the wanted one and none was recorded: a guest's hardware is not upgraded implicitly."""
    if path != "os/type/@machine" or path in echo or found is None or wanted is None:
        return False
    return found.startswith(_NEWEST.get(wanted, f"{wanted}-"))
