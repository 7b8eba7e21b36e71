# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The place in a document that libvirt's words are about, and the parts of one that a schema does not know.

libvirt refuses a document with a sentence, hardly ever with a place. The sentence quotes what it
did not like, so the element that has most of the quoted words is the one to look at.
"""

from __future__ import annotations

import copy
import re
import typing as t

# sentences that speak of something by no word of the document: what is in them → where to look
_HINTS = (
    ("No PCI buses available", "os/type"),
    ("vCPU count", "vcpu"),
    ("vcpus count", "vcpu"),
    ("loader path", "os/loader"),
)
_PCI = re.compile(r"PCI Address [0-9a-fA-F]{4}:([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
_PARENT = re.compile(r"missing \w+ (?:information|element)|requires an? '\w+' element", re.IGNORECASE)
_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"|<([A-Za-z]+)>")
_WORD = re.compile(r"[^\s'\",;()=<>]+")
# these stand in too many places to tell one from another
_COMMON = frozenset(("address", "device", "domain", "driver", "model", "name", "source", "target", "type"))
# what a domain cannot be without: the ground on which its other parts are tried one by one
_GROUND = frozenset(("name", "uuid", "memory", "vcpu", "os"))

_Valid = t.Callable[[t.Any], bool]


def spoken_of(document: t.Any, message: str) -> t.Any | None:
    """The element a refusal is about, ``None`` where its words lead nowhere.

    :arg document: what was refused, or the same with other line numbers.
    """
    places = [document.find(path) for hint, path in _HINTS if hint in message] + [_by_address(document, message)]
    found = next((place for place in places if place is not None), None)
    if found is None:
        found = _by_words(document, message)
    if found is None and "firmware" in message:
        found = document.find("os")
    if found is not None and _PARENT.search(message):
        # something is not there: its device is
        while found.getparent() is not None and found.getparent().tag not in ("devices", "domain"):
            found = found.getparent()
    return found


def _by_address(document: t.Any, message: str) -> t.Any | None:
    address = _PCI.search(message)
    if address is None:
        return None
    wanted = [int(part, 16) for part in address.groups()]
    found = None
    for element in document.iter("address"):
        if element.get("type") == "pci" and [_number(element.get(key)) for key in ("bus", "slot", "function")] == wanted:
            found = element
    return found


def _number(text: str | None) -> int:
    try:
        return int(text or "0", 0)
    except ValueError:
        return -1


def _by_words(document: t.Any, message: str) -> t.Any | None:
    quoted = {next(part for part in parts if part) for parts in _QUOTED.findall(message)}
    words = {word.rstrip(".:") for word in _WORD.findall(message)}
    words |= {word.lower() for word in words}
    # "vcpus", "disk sources"
    words |= {word[:-1] for word in words if word.endswith("s")}
    last = "duplicate" in message or "already" in message
    best, most = None, 0
    for element in document.iter():
        if not isinstance(element.tag, str):
            continue
        points = _points(element, quoted, words)
        if points > most or last and points == most > 0:
            best, most = element, points
    return best


def _points(element: t.Any, quoted: set[str], words: set[str]) -> int:
    """How much of what was said is in an element; 0 where it is too little to name the place."""
    tag = 4 if element.tag in quoted else 2 if element.tag in words else 0
    values = [(key, value) for key, value in element.attrib.items() if value in quoted or len(value) > 1 and value in words]
    told = sum((6 if value in quoted else 2) + (3 if key in quoted else 2 if key in words else 0) for key, value in values)
    text = (element.text or "").strip()
    if text and (text in quoted or len(text) > 1 and text in words):
        told += 6 if text in quoted else 3
    told += sum(2 for key in element.attrib if key in quoted and (key, element.get(key)) not in values)
    if not told and element.tag in _COMMON:
        return 0
    return told + tag


def strangers(document: t.Any, valid: _Valid) -> list[tuple[t.Any, str | None]]:
    """What a schema does not know of a document: elements, each with the attribute if it is only that.

    :arg valid: whether a whole document follows the schema. The given one is left as it was.
    """
    work = copy.deepcopy(document)
    twins = dict(zip(work.iter(), document.iter()))
    if valid(work):
        return []
    # each part of the domain, and each device, is tried alone on what no domain is without
    parts = [part for part in work if part.tag not in _GROUND]
    devices = [device for part in parts if part.tag == "devices" for device in part]
    for part in parts:
        work.remove(part)
    found = [] if valid(work) else [_narrow(work, valid, work)]
    if found:
        # on ground that does not hold, nothing else can be tried
        return [(twins[element], attribute) for element, attribute in found]
    for part in parts:
        if part.tag == "devices":
            for device in devices:
                part.remove(device)
        work.append(part)
        if not valid(work):
            found.append(_narrow(work, valid, part))
        elif part.tag == "devices":
            for device in devices:
                part.append(device)
                if not valid(work):
                    found.append(_narrow(work, valid, device))
                part.remove(device)
        work.remove(part)
    return [(twins[element], attribute) for element, attribute in found] or [(document, None)]


def _narrow(document: t.Any, valid: _Valid, element: t.Any) -> tuple[t.Any, str | None]:
    """The smallest part of an element without which the document follows the schema."""
    for child in list(element):
        place = element.index(child)
        element.remove(child)
        mended = valid(document)
        element.insert(place, child)
        if mended:
            return _narrow(document, valid, child)
    for key, value in list(element.attrib.items()):
        del element.attrib[key]
        mended = valid(document)
        element.set(key, value)
        if mended:
            return element, key
    return element, None
