# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the element of a document that a libvirt error refers to, and the parts that a schema does not allow.

libvirt errors rarely contain a location, but they quote values of the document. The element
that contains most of the quoted values is the most likely location.
"""

from __future__ import annotations

import copy
import re
import typing as t

# messages that quote nothing of the document: part of the message → path of the element
_KNOWN_MESSAGES = (
    ("No PCI buses available", "os/type"),
    ("vCPU count", "vcpu"),
    ("vcpus count", "vcpu"),
    ("loader path", "os/loader"),
)
_PCI = re.compile(r"PCI Address [0-9a-fA-F]{4}:([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
_PARENT = re.compile(r"missing \w+ (?:information|element)|requires an? '\w+' element", re.IGNORECASE)
_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"|<([A-Za-z]+)>")
_WORD = re.compile(r"[^\s'\",;()=<>]+")
# too frequent to identify an element
_COMMON = frozenset(("address", "device", "domain", "driver", "model", "name", "source", "target", "type"))
# required elements of a domain; the other parts are validated one by one together with these
_REQUIRED = frozenset(("name", "uuid", "memory", "vcpu", "os"))

_Valid = t.Callable[[t.Any], bool]


def find_element(document: t.Any, message: str) -> t.Any | None:
    """Return the element that an error message refers to, ``None`` if none matches.

    :arg document: the refused document, possibly with other line numbers.
    """
    places = [document.find(path) for part, path in _KNOWN_MESSAGES if part in message] + [_by_address(document, message)]
    found = next((place for place in places if place is not None), None)
    if found is None:
        found = _by_words(document, message)
    if found is None and "firmware" in message:
        found = document.find("os")
    if found is not None and _PARENT.search(message):
        # the missing element has no location: return its device
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
    """Return how well an element matches the message; 0 if the match is not significant."""
    tag = 4 if element.tag in quoted else 2 if element.tag in words else 0
    values = [(key, value) for key, value in element.attrib.items() if value in quoted or len(value) > 1 and value in words]
    points = sum((6 if value in quoted else 2) + (3 if key in quoted else 2 if key in words else 0) for key, value in values)
    text = (element.text or "").strip()
    if text and (text in quoted or len(text) > 1 and text in words):
        points += 6 if text in quoted else 3
    points += sum(2 for key in element.attrib if key in quoted and (key, element.get(key)) not in values)
    if not points and element.tag in _COMMON:
        return 0
    return points + tag


def invalid_parts(document: t.Any, valid: _Valid) -> list[tuple[t.Any, str | None]]:
    """Return the parts of a document that a schema does not allow: elements, each with the attribute if only that is invalid.

    :arg valid: validates a whole document. ``document`` is not modified.
    """
    work = copy.deepcopy(document)
    twins = dict(zip(work.iter(), document.iter()))
    if valid(work):
        return []
    # each part of the domain, and each device, is validated separately together with the required elements
    parts = [part for part in work if part.tag not in _REQUIRED]
    devices = [device for part in parts if part.tag == "devices" for device in part]
    for part in parts:
        work.remove(part)
    found = [] if valid(work) else [_narrow(work, valid, work)]
    if found:
        # with invalid required elements, nothing else can be validated
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
    """Return the smallest part of an element without which the document is valid."""
    for child in list(element):
        place = element.index(child)
        element.remove(child)
        fixed = valid(document)
        element.insert(place, child)
        if fixed:
            return _narrow(document, valid, child)
    for key, value in list(element.attrib.items()):
        del element.attrib[key]
        fixed = valid(document)
        element.set(key, value)
        if fixed:
            return element, key
    return element, None
