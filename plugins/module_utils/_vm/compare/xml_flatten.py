# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A domain document as a tree of named nodes, and as a flat table of its values."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_normal

try:
    from lxml import etree

    LXML_ERROR: ImportError | None = None
except ImportError as error:
    etree = None
    LXML_ERROR = error

#: The path of the boot order, in either of its two forms.
BOOT = "os/boot"
_ORDER = re.compile(r"\A[0-9]{1,9}\Z")
_NAMES_ONLY = frozenset(("title", "description"))


class Node:
    """An element with named children, which are read on first use."""

    __slots__ = ("element", "parent", "_text", "_attributes", "_children")

    def __init__(self, element: t.Any, parent: Node | None = None) -> None:
        self.element = element
        self.parent = parent
        self._text: str | None = None
        self._attributes: dict[str, str] | None = None
        self._children: dict[str, Node] | None = None

    @property
    def text(self) -> str:
        """The normalized text."""
        if self._text is None:
            self._text = xml_normal.text_of(self.element)
        return self._text

    @property
    def attributes(self) -> dict[str, str]:
        """The normalized attributes; a unit is part of the text."""
        if self._attributes is None:
            found = xml_normal.attributes_of(self.element, self.parent)
            if "unit" in found and self.text:
                del found["unit"]
            self._attributes = found
        return self._attributes

    @property
    def children(self) -> dict[str, Node]:
        """The children by name, without the boot order and without the metadata of this collection."""
        if self._children is None:
            element = self.element
            children = {name: Node(child, self) for name, child in xml_normal.segments(element).items()} if len(element) else {}
            if self.parent is None:
                _settle_root(children, self)
            elif element.tag == "os" or (self.parent.element.tag == "devices" and "boot" in children):
                for name in [name for name in children if name == "boot" or name.startswith("boot[")]:
                    del children[name]
            elif element.tag == "metadata":
                for name in [name for name in children if name.startswith(xml_normal.OWN_NAMESPACES)]:
                    del children[name]
            self._children = children
        return self._children

    def boot(self) -> str:
        """The boot order of a whole document: ``network hd`` or ``1=disk[vda] 2=interface[…]``, empty where there is none."""
        order = " ".join([boot.get("dev", "") for boot in self.element.iterfind("os/boot")])
        if self.element.find("devices/*/boot") is None:
            return order
        devices = self.children["devices"].children
        numbered = []
        for name, device in devices.items():
            boot = device.element.find("boot")
            if boot is not None:
                number = boot.get("order", "")
                # libvirt refuses any other, with the line of the template
                numbered.append((int(number) if _ORDER.match(number) else 0, name))
        return " ".join(([order] if order else []) + [f"{place}={name}" for place, name in sorted(numbered)])


def _settle_root(children: dict[str, Node], root: Node) -> None:
    for name in _NAMES_ONLY & children.keys():
        # libvirt drops empty ones
        if not children[name].text:
            del children[name]
    if "memory" in children and "currentMemory" not in children:
        # default: all of it
        current = Node(children["memory"].element, root)
        current._attributes, current._children = {}, {}
        children["currentMemory"] = current


def flatten(document: t.Any) -> dict[str, str]:
    """Every normalized value of a document by its path.

    Texts are at the path of their element, attributes at ``/@name``; an element with neither
    has an empty text.
    """
    root = Node(document)
    found: dict[str, str] = {}
    _collect("", root, found)
    order = root.boot()
    if order:
        found[BOOT] = order
    return found


def _collect(path: str, node: Node, found: dict[str, str]) -> None:
    prefix = f"{path}/" if path else ""
    for name, value in node.attributes.items():
        found[f"{prefix}@{name}"] = value
    if node.text or path and not node.attributes and not len(node.element):
        found[path] = node.text
    for name, child in node.children.items():
        _collect(prefix + name, child, found)


def same(one: Node | None, other: Node | None) -> bool:
    """Whether two nodes are equivalent, including everything below them."""
    if one is other:
        return True
    if one is None or other is None or one.text != other.text or one.attributes != other.attributes:
        return False
    mine, others = one.children, other.children
    return mine.keys() == others.keys() and all(same(child, others[name]) for name, child in mine.items())


def shown(node: Node | None) -> str | None:
    """A whole node as one line: its text if it has only that, else XML with sorted attributes."""
    if node is None:
        return None
    if node.text and not node.attributes and not node.children:
        return node.text
    return etree.tostring(_plain(node.element), encoding="unicode")


def _plain(element: t.Any) -> t.Any:
    copy = element.makeelement(element.tag, dict(sorted(element.attrib.items())), nsmap=element.nsmap if element.tag[0] == "{" else None)
    copy.text = (element.text or "").strip() or None
    copy.extend([_plain(child) for child in element if isinstance(child.tag, str)])
    return copy
