# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Normalizes domain documents, so that different notations of the same value are equal.

Names of elements among their siblings, values of texts and attributes: units, hexadecimal numbers,
values filled in by libvirt, values only shown for running domains. How differences are handled is
defined in :mod:`xml_compare` and :mod:`xml_merge`.
"""

from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_size

#: Metadata of this collection, which is excluded from comparisons.
OWN_NAMESPACES = "{https://reduced.footprint/"
_PREFIXES = {"{http://libvirt.org/schemas/domain/qemu/1.0}": "qemu:", "{http://libvirt.org/schemas/domain/lxc/1.0}": "lxc:"}
# texts in KiB where no unit is given
_SIZED = frozenset(("memory", "currentMemory", "maxMemory", "hard_limit", "soft_limit", "swap_hard_limit", "min_guarantee"))
_HEX = re.compile(r"\A0[xX][0-9a-fA-F]+\Z")
_DIGITS = re.compile(r"\A[0-9]+\Z")
# bridge and port of a network, shown only while the domain runs
_OF_A_RUNNING_NETWORK = frozenset(("bridge", "portid", "dev", "mode"))


def _child(tag: str, attribute: str) -> t.Callable[[t.Any], str | None]:
    def key(element: t.Any) -> str | None:
        child = element.find(tag)
        return None if child is None else child.get(attribute)

    return key


def _own(attribute: str) -> t.Callable[[t.Any], str | None]:
    return lambda element: element.get(attribute)


def _mac(element: t.Any) -> str | None:
    mac = element.find("mac")
    return None if mac is None else mac.get("address", "").lower() or None


def _console(element: t.Any) -> str | None:
    # libvirt adds the first one for the serial port
    kind = _child("target", "type")(element)
    return None if kind in ("serial", "lxc") else kind


#: The keys that distinguish an element from siblings of the same name, instead of their order.
KEYS: t.Mapping[str, t.Callable[[t.Any], str | None]] = {
    "disk": _child("target", "dev"),
    "interface": _mac,
    "filesystem": _child("target", "dir"),
    "channel": _child("target", "name"),
    "console": _console,
    "graphics": _own("type"),
    "input": _own("type"),
    "watchdog": _own("model"),
    "timer": _own("name"),
    "feature": _own("name"),
    "entry": _own("name"),
    "parameter": _own("name"),
    "cell": _own("id"),
    "iothread": _own("id"),
    "tag": _own("id"),
    "vcpu": _own("id"),
    "vcpupin": _own("vcpu"),
    "memnode": _own("cellid"),
}


def name_of(tag: str) -> str:
    """The name of an element in a path: libvirt's own namespaces by their usual prefix."""
    if tag[0] != "{":
        return tag
    space, brace, name = tag.rpartition("}")
    prefix = _PREFIXES.get(space + brace)
    return tag if prefix is None else prefix + name


def segments(elements: t.Iterable[t.Any]) -> dict[str, t.Any]:
    """The children of one element by unique names, e.g. ``disk[vda]``, ``serial``, ``serial[2]``."""
    found: dict[str, t.Any] = {}
    counts: dict[str, int] = {}
    for element in elements:
        tag = element.tag
        # comments and processing instructions are ignored
        if not isinstance(tag, str):
            continue
        name = tag if tag[0] != "{" else name_of(tag)
        if tag == "controller":
            name = _controller(element, counts)
        elif tag in KEYS:
            key = KEYS[tag](element)
            if key:
                name = f"{tag}[{key}]"
        if name in found:
            count = counts[name] = counts.get(name, 1) + 1
            name = f"{name}[{count}]"
        found[name] = element
    return found


def _controller(element: t.Any, counts: dict[str, int]) -> str:
    kind, index = element.get("type", ""), element.get("index")
    if index is None:
        root = element.get("model") in ("pci-root", "pcie-root")
        # the first PCI controller belongs to the machine
        number = 0 if root else counts.get(f"controller {kind}", int(kind == "pci"))
        if not root:
            counts[f"controller {kind}"] = number + 1
        index = str(number)
    return f"controller[{kind}:{index}]"


@functools.lru_cache(maxsize=64)
def _factor(unit: str) -> int:
    try:
        return model_size.parse_size(f"1{unit}", "B", "unit")
    except model_errors.InputError:
        return 0


def size(number: str, unit: str) -> str:
    """A number with a unit in KiB, rounded up as libvirt does; an unknown unit is kept."""
    factor = _factor(unit)
    if not factor or not _DIGITS.match(number):
        return f"{number} {unit}"
    return f"{-(-int(number) * factor // model_size.KIB)} KiB"


def text_of(element: t.Any) -> str:
    """The normalized text of an element; empty where it has none."""
    text = element.text
    if text is None:
        return ""
    text = text.strip()
    if not text:
        return ""
    tag = element.tag
    if tag in _SIZED:
        return size(text, element.get("unit", "KiB"))
    if tag == "uuid":
        return _uuid(text)
    if tag == "vcpu":
        return _number(text)
    unit = element.get("unit")
    return text if unit is None else size(text, unit)


def attributes_of(element: t.Any, parent: t.Any) -> dict[str, str]:
    """The normalized attributes of an element, with the defaults of libvirt."""
    found = dict(element.attrib)
    if not found:
        return {"current": text_of(element)} if element.tag == "vcpu" else found
    for name, value in found.items():
        if value[:1] == "0" and _HEX.match(value):
            found[name] = str(int(value, 16))
    rule = _ATTRIBUTES.get(element.tag)
    if rule is not None:
        rule(found, element, parent)
    elif "unit" in found:
        _unit(found, element, parent)
    return found


def _address(found: dict[str, str], element: t.Any, parent: t.Any) -> None:
    for name, value in found.items():
        if _DIGITS.match(value):
            found[name] = _number(value)


def _vcpu(found: dict[str, str], element: t.Any, parent: t.Any) -> None:
    found["current"] = _number(found["current"]) if "current" in found else text_of(element)


def _unit(found: dict[str, str], element: t.Any, parent: t.Any) -> None:
    unit = found.pop("unit", "KiB")
    for name in ("memory", "size"):
        if name in found:
            found[name] = size(found[name], unit)


def _interface(found: dict[str, str], element: t.Any, parent: t.Any) -> None:
    # a running domain may show the resolved type of its network
    if found.get("type") in ("bridge", "direct") and _child("source", "network")(element):
        found["type"] = "network"


def _source(found: dict[str, str], element: t.Any, parent: t.Any) -> None:
    if "network" in found:
        for name in _OF_A_RUNNING_NETWORK & found.keys():
            del found[name]


def _graphics(found: dict[str, str], element: t.Any, parent: t.Any) -> None:
    if "autoport" not in found and "port" in found:
        found["autoport"] = "yes" if found["port"] == "-1" else "no"
    if found.get("autoport") == "yes":
        # chosen at each start
        for name in ("port", "tlsPort"):
            found.pop(name, None)


def _mac_address(found: dict[str, str], element: t.Any, parent: t.Any) -> None:
    if "address" in found:
        found["address"] = found["address"].lower()


def _domain(found: dict[str, str], element: t.Any, parent: t.Any) -> None:
    found.pop("id", None)


_ATTRIBUTES: t.Mapping[str, t.Callable[[dict[str, str], t.Any, t.Any], None]] = {
    "address": _address,
    "cell": _unit,
    "page": _unit,
    "vcpu": _vcpu,
    "interface": _interface,
    "source": _source,
    "graphics": _graphics,
    "mac": _mac_address,
    "domain": _domain,
}


def _number(text: str) -> str:
    return str(int(text)) if _DIGITS.match(text) else text


def _uuid(text: str) -> str:
    plain = text.replace("-", "").lower()
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))
