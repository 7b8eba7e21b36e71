# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Merges the wanted document into a definition: everything not specified is kept, especially addresses."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_flatten, xml_rules

# elements that are replaced as a whole when one of the deciding attributes changes
_WHOLE = frozenset(("cpu", "clock", "model", "backend", "source", "loader", "listen"))
_DECIDING = ("type", "model", "mode", "offset")
_MACHINE_CONTROLLERS = frozenset(("pci", "usb", "sata", "ide"))


def merge(config: t.Any, wanted: t.Any, applied: t.Any | None, echo: xml_rules.Echo | None = None) -> t.Any:
    """A new document: ``config`` with every difference corrected that :func:`xml_compare.compare` finds.

    :arg echo: as for ``compare``; without it devices that the template does not name are kept.
    """
    document = copy.deepcopy(config)
    _Merger(xml_flatten.Node(document), xml_flatten.Node(wanted), None if applied is None else xml_flatten.Node(applied), echo).run()
    return document


class _Merger:
    def __init__(self, config: xml_flatten.Node, wanted: xml_flatten.Node, applied: xml_flatten.Node | None, echo: xml_rules.Echo | None) -> None:
        self.config = config
        self.wanted = wanted
        self.applied = applied
        self.known = applied is not None
        self.echo: xml_rules.Echo = {} if echo is None else echo
        self.boot_kept = True
        self.kinds = xml_rules.specified_kinds(wanted, applied) if self.known and echo is not None else set()

    def run(self) -> None:
        """Edit the definition."""
        boot = self.wanted.boot()
        before = self.applied.boot() if self.applied is not None else ""
        # unknown for an adopted domain; a template without boot order means no change
        self.boot_kept = boot == before
        machine = _machine(self.config)
        if not self.boot_kept:
            for element in self.config.element.xpath("os/boot | devices/*/boot"):
                element.getparent().remove(element)
        self.inside("", self.wanted, self.applied, self.config)
        if not self.boot_kept:
            self._set_boot()
        if _machine(xml_flatten.Node(self.config.element)) != machine:
            self._renew_machine()

    def inside(self, path: str, wanted: xml_flatten.Node | None, applied: xml_flatten.Node | None, config: xml_flatten.Node) -> None:
        """Edit an element that the definition has."""
        prefix = f"{path}/" if path else ""
        group = xml_rules.group_of(path, wanted, applied)
        skip: xml_rules.Group = _nothing
        if group is not None:
            if xml_rules.unchanged(xml_rules.parts(wanted, group), wanted, applied, group, self.known):
                skip = group
            else:
                _remove_group(config, group, xml_rules.parts(wanted, group))
                config = xml_flatten.Node(config.element, config.parent)
        if path and wanted is not None and self._is_replaced(prefix, wanted, applied, config):
            _replace(config.element, wanted.element)
            return
        if path and (wanted is not None and wanted.text or applied is not None and applied.text):
            differs, value = xml_rules.target(path, _text(wanted), _text(applied), config.text or None, self.echo)
            if differs:
                _write_text(config.element, wanted, value)
        self._attributes(prefix, wanted, applied, config, skip)
        if path == "devices" and wanted is not None:
            self._pair(wanted, config)
        if path:
            # read the edited element again
            config = xml_flatten.Node(config.element, config.parent)
        for name in _names(wanted, applied, "children"):
            if not skip(name):
                self._element(prefix + name, name, wanted, applied, config)
        if config.element.tag == "graphics" and wanted is not None:
            _settle_listen(config.element, wanted.element, None if applied is None else applied.element)
        if path == "devices":
            for name, child in list(config.children.items()):
                specified = any(node is not None and name in node.children for node in (wanted, applied))
                if not specified and prefix + name not in self.echo and xml_rules.owned_kind(name, child) in self.kinds:
                    config.element.remove(child.element)

    def _attributes(
        self, prefix: str, wanted: xml_flatten.Node | None, applied: xml_flatten.Node | None, config: xml_flatten.Node, skip: xml_rules.Group
    ) -> None:
        element = config.element
        for name in _names(wanted, applied, "attributes"):
            if skip(f"@{name}"):
                continue
            new = None if wanted is None else wanted.attributes.get(name)
            before = None if applied is None else applied.attributes.get(name)
            differs, value = xml_rules.target(f"{prefix}@{name}", new, before, config.attributes.get(name), self.echo)
            if differs:
                _write_attribute(element, wanted, name, value)
                _remove_dependents(element, wanted, name)

    def _element(self, path: str, name: str, wanted: xml_flatten.Node | None, applied: xml_flatten.Node | None, config: xml_flatten.Node) -> None:
        new = None if wanted is None else wanted.children.get(name)
        before = None if applied is None else applied.children.get(name)
        found = config.children.get(name)
        if new is not None and found is not None:
            if name == "currentMemory":
                self._current_memory(new, before, found, config)
            else:
                self.inside(path, new, before, found)
        elif new is not None:
            if not (path in self.echo and self.echo[path] is None and xml_flatten.same(new, before)):
                self._insert(path, new, config)
        elif found is not None and name in xml_rules.CONTAINERS:
            self.inside(path, None, before, found)
        elif found is not None:
            config.element.remove(found.element)

    def _current_memory(self, wanted: xml_flatten.Node, applied: xml_flatten.Node | None, found: xml_flatten.Node, root: xml_flatten.Node) -> None:
        """Edit the current memory, which defaults to the maximum."""
        differs, value = xml_rules.target("currentMemory", wanted.text, _text(applied), found.text, self.echo)
        if differs and value is not None:
            if found.element.tag != "currentMemory":
                found = xml_flatten.Node(root.element.makeelement("currentMemory", {}), root)
                memory = root.element.find("memory")
                root.element.insert(root.element.index(memory) + 1, found.element)
            found.element.text, found.element.attrib["unit"] = value.rpartition(" ")[0], "KiB"

    def _insert(self, path: str, wanted: xml_flatten.Node, parent: xml_flatten.Node) -> None:
        """Insert an element; the boot order of a device is kept only where it is unused."""
        element = copy.deepcopy(wanted.element)
        boot = element.find("boot") if path.startswith("devices/") else None
        if boot is not None:
            root = self.config.element
            taken = {other.get("order") for other in root.iterfind("devices/*/boot")}
            if not self.boot_kept or root.find("os/boot") is not None or boot.get("order") in taken:
                element.remove(boot)
        _insert(parent.element, element)

    def _is_replaced(self, prefix: str, wanted: xml_flatten.Node, applied: xml_flatten.Node | None, config: xml_flatten.Node) -> bool:
        if config.element.tag not in _WHOLE:
            return False
        for name in _DECIDING:
            new = wanted.attributes.get(name)
            before = None if applied is None else applied.attributes.get(name)
            if new is not None and xml_rules.target(f"{prefix}@{name}", new, before, config.attributes.get(name), self.echo)[0]:
                return True
        return False

    def _pair(self, wanted: xml_flatten.Node, config: xml_flatten.Node) -> None:
        """Match devices whose MAC or target was changed, so that they keep their address."""
        for kind in xml_rules.OWNED_DEVICES:
            if kind not in self.kinds:
                continue
            missing = [node for name, node in wanted.children.items() if name not in config.children and xml_rules.owned_kind(name, node) == kind]
            extra = [node for name, node in config.children.items() if name not in wanted.children and xml_rules.owned_kind(name, node) == kind]
            for node in missing:
                twins = [other for other in extra if _alike(node, other)]
                if len(twins) == 1:
                    extra.remove(twins[0])
                    tag = "mac" if kind == "interface" else "target"
                    mine, theirs = node.element.find(tag), twins[0].element.find(tag)
                    if mine is None or theirs is None:
                        # libvirt refuses a disk without a target, with the line of the template
                        continue
                    if mine.get("bus", theirs.get("bus")) != theirs.get("bus"):
                        _drop(twins[0].element, "address")
                    _replace(theirs, mine)

    def _set_boot(self) -> None:
        root, wanted = self.config.element, self.wanted.element
        for boot in wanted.iterfind("os/boot"):
            _insert(root.find("os"), copy.deepcopy(boot))
        devices = xml_flatten.Node(self.config.element).children.get("devices")
        for name, device in self.wanted.children["devices"].children.items() if "devices" in self.wanted.children else ():
            boot = device.element.find("boot")
            if boot is not None and devices is not None and name in devices.children:
                _drop(devices.children[name].element, "boot")
                _insert(devices.children[name].element, copy.deepcopy(boot))

    def _renew_machine(self) -> None:
        """Remove addresses and controllers that are not specified: another machine type has other buses."""
        wanted = self.wanted.children.get("devices")
        devices = xml_flatten.Node(self.config.element).children.get("devices")
        for name, device in devices.children.items() if devices is not None else ():
            new = None if wanted is None else wanted.children.get(name)
            if new is None and device.element.tag == "controller" and device.element.get("type") in _MACHINE_CONTROLLERS:
                device.element.getparent().remove(device.element)
            elif new is None or new.element.find("address") is None:
                _drop(device.element, "address")


def _nothing(name: str) -> bool:
    return False


def _text(node: xml_flatten.Node | None) -> str | None:
    return None if node is None else node.text or None


def _names(wanted: xml_flatten.Node | None, applied: xml_flatten.Node | None, what: str) -> dict[str, None]:
    names: dict[str, None] = {}
    for node in (wanted, applied):
        if node is not None:
            names.update(dict.fromkeys(getattr(node, what)))
    return names


def _alike(one: xml_flatten.Node, other: xml_flatten.Node) -> bool:
    mine, theirs = one.children.get("source"), other.children.get("source")
    if mine is None or theirs is None:
        return False
    return all(theirs.attributes.get(name) == value for name, value in mine.attributes.items()) and one.attributes.get("type") == other.attributes.get("type")


def _machine(root: xml_flatten.Node) -> tuple[str, str]:
    kind = root.element.find("os/type")
    if kind is None:
        return "", ""
    machine = kind.get("machine", "")
    family = "q35" if "q35" in machine else "pc" if machine == "pc" or machine.startswith("pc-i440fx") else machine
    return kind.get("arch", ""), family


def _remove_group(node: xml_flatten.Node, group: xml_rules.Group, wanted: t.Mapping[str, xml_flatten.Node | str]) -> None:
    """Remove the parts of a group that differ from the wanted ones."""
    for name in list(node.element.attrib):
        if group(f"@{name}") and f"@{name}" not in wanted:
            del node.element.attrib[name]
    for name, child in node.children.items():
        new = wanted.get(name)
        if group(name) and not (isinstance(new, xml_flatten.Node) and xml_flatten.same(new, child)):
            node.element.remove(child.element)


def _drop(element: t.Any, tag: str) -> None:
    for child in element.findall(tag):
        element.remove(child)


def _insert(parent: t.Any, element: t.Any) -> None:
    alike = parent.findall(element.tag)
    if alike:
        parent.insert(parent.index(alike[-1]) + 1, element)
    else:
        parent.append(element)


def _replace(element: t.Any, other: t.Any) -> None:
    element.getparent().replace(element, copy.deepcopy(other))


def _write_text(element: t.Any, wanted: xml_flatten.Node | None, value: str | None) -> None:
    if value is None:
        element.text = None
        return
    if wanted is not None and value == wanted.text:
        element.text = wanted.element.text
        unit = wanted.element.get("unit")
        if unit is not None:
            element.set("unit", unit)
        else:
            element.attrib.pop("unit", None)
    elif "unit" in element.attrib:
        element.text, unused, unit = value.rpartition(" ")
        element.set("unit", unit)
    else:
        element.text = value


def _write_attribute(element: t.Any, wanted: xml_flatten.Node | None, name: str, value: str | None) -> None:
    if value is None:
        element.attrib.pop(name, None)
        return
    raw = None if wanted is None else wanted.element.get(name)
    if wanted is not None and value == wanted.attributes.get(name):
        if raw is None and element.tag == "vcpu":
            # the default of libvirt: all CPUs
            element.attrib.pop(name, None)
            return
        if raw is not None:
            value = raw
            if name in ("memory", "size"):
                element.set("unit", wanted.element.get("unit", "KiB"))
    elif value.endswith(" KiB"):
        value = value[:-4]
        element.set("unit", "KiB")
    element.set(name, value)


def _settle_listen(element: t.Any, wanted: t.Any, applied: t.Any | None) -> None:
    """Remove the other forms of the address or socket: libvirt writes each twice, refuses different values and prefers a socket."""
    if not any(each is not None and each.xpath("@listen | @socket | listen") for each in (wanted, applied)):
        return
    inside = wanted.findall("listen")
    if not inside or applied is not None and applied.find("listen") is None:
        # what libvirt wrote for an attribute
        _drop(element, "listen")
        element.extend([copy.deepcopy(each) for each in inside])
    for name in ("listen", "socket"):
        if wanted.get(name) is None:
            element.attrib.pop(name, None)


def _remove_dependents(element: t.Any, wanted: xml_flatten.Node | None, name: str) -> None:
    """Remove elements that depend on the old value of an attribute."""
    if name == "bus" and element.tag == "target":
        _drop(element.getparent(), "address")
    elif name == "type" and element.find("source") is not None:
        _drop(element, "source")
