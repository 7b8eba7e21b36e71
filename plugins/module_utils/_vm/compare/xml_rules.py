# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose word counts where in a domain document, for :mod:`compare` and :mod:`merge` alike.

The template speaks where the wanted or the last applied document says something. What libvirt or
anybody else added elsewhere is left alone, with three kinds of devices excepted that no one adds by
accident; and what a BMC emulator owns is left as found until the template itself changes it.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_flatten

Node = xml_flatten.Node
Echo = t.Mapping[str, t.Optional[str]]
Group = t.Callable[[str], bool]

#: Elements in which others put things too: what the template no longer says is taken out of them one by one.
CONTAINERS = frozenset(("os", "features", "devices", "metadata"))
#: Devices of which there are those the template names and no others, where it names such at all.
OWNED_DEVICES = ("disk", "interface", "filesystem")
# names that QEMU takes for the newest version of a machine
_NEWEST = {"pc": "pc-i440fx-", "q35": "pc-q35-"}
_REMOVABLE = frozenset(("cdrom", "floppy"))
_FIRMWARE = re.compile(r"\A(?:@firmware|(?:firmware|loader|nvram)(?:\[.*)?)\Z")
_MEDIUM = re.compile(r"\A(?:@type|source(?:\[.*)?|backingStore|mirror)\Z")
_LIVE = re.compile(
    r"\A(?:title|description|currentMemory|vcpu/@current"
    r"|devices/(?:disk|interface|filesystem)\[[^/]*\]"
    r"(?:/(?:@type|(?:source|target|vlan)(?:/.*)?|model/@type|link/@state))?)\Z"
)
# of a tap device's name libvirt makes a new one at each start
_NOT_LIVE = re.compile(r"\Adevices/interface\[[^/]*\]/(?:target/|source/(?:@portid|@index|address))")
# chosen anew at each start, or shown expanded
_PER_START = re.compile(
    r"(?:\Acpu/(?:feature|@match|@check|model/@)|\Aseclabel|/alias(?:/|\Z)|/@tty\Z"
    r"|devices/(?:serial|console|channel|parallel)[^/]*/source/|devices/interface[^/]*/target/)"
)


def well_understood(path: str) -> bool:
    """Whether what a running domain shows there is what it has."""
    return _LIVE.match(path) is not None and _NOT_LIVE.match(path) is None


def per_start(path: str, host_model: bool) -> bool:
    """Whether a running domain shows something else there than its definition says.

    :arg host_model: the CPU is the host's, spelt out at each start.
    """
    return _PER_START.search(path) is not None or host_model and path.startswith("cpu")


def removable(node: Node | None) -> bool:
    """Whether a disk is a drive whose medium a BMC emulator may change."""
    return node is not None and node.element.get("device") in _REMOVABLE


def owned_kind(name: str, node: Node) -> str | None:
    """``disk``, ``interface`` or ``filesystem`` for a device that has to be in the template; else nothing."""
    kind = name.partition("[")[0]
    if kind not in OWNED_DEVICES or kind == "disk" and removable(node):
        return None
    return kind


def spoken_kinds(*documents: Node | None) -> set[str]:
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
    """Whether this part of ``os`` is the firmware's."""
    return _FIRMWARE.match(name) is not None


def medium(name: str) -> bool:
    """Whether this part of a removable drive is its medium."""
    return _MEDIUM.match(name) is not None


def parts(node: Node | None, which: Group) -> dict[str, Node | str]:
    """Attributes (as ``@name``) and children of a node that belong to a group."""
    if node is None:
        return {}
    found: dict[str, Node | str] = {f"@{name}": value for name, value in node.attributes.items() if which(f"@{name}")}
    found.update((name, child) for name, child in node.children.items() if which(name))
    return found


def unchanged(said: t.Mapping[str, Node | str], wanted: Node | None, applied: Node | None, group: Group, known: bool) -> bool:
    """Whether the template says about a group (``said``) what it said last time; of a domain taken over: nothing."""
    if wanted is applied:
        return True
    return _same_parts(said, parts(applied, group)) if known else not said


def _same_parts(one: t.Mapping[str, Node | str], other: t.Mapping[str, Node | str]) -> bool:
    """Whether two groups mean the same."""
    return one.keys() == other.keys() and all(_same(part, other[name]) for name, part in one.items())


def _same(one: Node | str, other: Node | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return xml_flatten.same(one, other)


def group_of(path: str, *nodes: Node | None) -> Group | None:
    """Which parts of this element a BMC emulator owns as a group; nothing where it owns none."""
    if path == "os":
        return firmware
    if path.startswith("devices/disk[") and path.count("/") == 1 and any(removable(node) for node in nodes):
        return medium
    return None


def expected(path: str, applied: str | None, echo: Echo) -> str | None:
    """What libvirt made of an applied value."""
    return echo[path] if path in echo else applied


def target(path: str, wanted: str | None, applied: str | None, found: str | None, echo: Echo) -> tuple[bool, str | None]:
    """Whether a value of the definition has to change, and to what.

    While the template says what it said last time, libvirt's own form of that is as good.
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
    """Whether a machine is a version of the one that is wanted, and nobody wrote down which: a guest's hardware is not renewed by the way."""
    if path != "os/type/@machine" or path in echo or found is None or wanted is None:
        return False
    return found.startswith(_NEWEST.get(wanted, f"{wanted}-"))
