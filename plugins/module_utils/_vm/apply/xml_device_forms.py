# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Single devices of a domain document, for live changes and for adopting a domain."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_flatten


@dataclasses.dataclass(frozen=True)
class FoundDisk:
    """The source of a disk: ``type`` is file, block, dir, or another libvirt type; ``format`` that of its driver."""

    type: str
    path: str
    format: str | None
    bus: str | None


class Identity(t.NamedTuple):
    """The identity that an adopted domain keeps; ``disks`` by target or, in containers, by mount point."""

    uuid: str
    macs: tuple[str, ...]
    disks: t.Mapping[str, FoundDisk]


def identity_of(document: t.Any) -> Identity:
    """UUID, MACs and disks of a domain."""
    disks = {}
    for element in document.iterfind("devices/*"):
        if element.tag not in ("disk", "filesystem") or element.get("device", "disk") != "disk":
            continue
        source, target, driver = element.find("source"), element.find("target"), element.find("driver")
        if source is None or target is None:
            continue
        path = source.get("file") or source.get("dev") or source.get("dir") or ""
        kind = "file" if source.get("file") else "block" if source.get("dev") else "dir" if path else element.get("type", "")
        form = driver.get("type") if driver is not None else None
        disks[target.get("dev") or target.get("dir") or ""] = FoundDisk(kind, path, form, target.get("bus"))
    macs = tuple(mac.get("address", "").lower() for mac in document.iterfind("devices/interface/mac"))
    return Identity((document.findtext("uuid") or "").strip().lower(), macs, disks)


def device(document: t.Any, path: str) -> t.Any | None:
    """The element at a path such as ``devices/disk[vdb]``; ``None`` where the document has none."""
    parent, unused, name = path.partition("/")
    node = xml_flatten.Node(document).children.get(parent)
    found = node.children.get(name) if node is not None else None
    return None if found is None else found.element


def text(element: t.Any) -> str:
    """An element as text for libvirt."""
    return xml_flatten.etree.tostring(element, encoding="unicode", with_tail=False)


def without_address(element: t.Any) -> t.Any:
    """A copy without address and alias, which libvirt then chooses."""
    bare = copy.deepcopy(element)
    for tag in ("address", "alias"):
        for child in bare.findall(tag):
            bare.remove(child)
    return bare


def updated(running: t.Any, wanted: t.Any, parts: t.Iterable[str]) -> t.Any:
    """The running device with some parts replaced by the wanted ones: the form libvirt requires for an update.

    :arg parts: ``@type`` or the names of child elements.
    """
    result = copy.deepcopy(running)
    for part in parts:
        if part.startswith("@"):
            if wanted.get(part[1:]) is not None:
                result.set(part[1:], wanted.get(part[1:]))
            continue
        for child in result.findall(part):
            result.remove(child)
        for child in wanted.findall(part):
            result.append(copy.deepcopy(child))
    for tag in ("backingStore", "mirror"):
        for child in result.findall(tag):
            result.remove(child)
    return result
