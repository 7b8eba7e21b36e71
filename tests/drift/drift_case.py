# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cases of the corpus, and helpers to write them."""

from __future__ import annotations

import dataclasses
import typing as t

import libvirt
from drift_guest import Guest
from lxml import etree

BOTH = libvirt.VIR_DOMAIN_AFFECT_CONFIG | libvirt.VIR_DOMAIN_AFFECT_LIVE
CONFIG = libvirt.VIR_DOMAIN_AFFECT_CONFIG
LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE

# what happens to a change made outside the collection
RESTORED = "restored"
LEFT = "left alone"
APPLIED = "applied"

Change = t.Callable[[Guest], t.Any]


@dataclasses.dataclass(frozen=True)
class Case:
    """One change and what has to be found.

    ``found``: path → letters: ``o`` outside, ``c`` the definition differs, ``l`` what runs differs;
    ``MAC0`` and ``MAC1`` in a path stand for the guest's own. ``kept``: paths of a BMC emulator.
    ``fate`` is the definition after the run: as at first, as changed, or as
    the edited template specifies. ``moves``: addresses may change, for the hardware is another.
    ``same_default``: libvirt puts in by itself what the template no longer says.
    """

    name: str
    outside: Change | None = None
    template: t.Callable[[str], str] | None = None
    found: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    kept: tuple[str, ...] = ()
    fate: str = RESTORED
    running: bool = False
    hypervisor: str = "qemu"
    moves: bool = False
    live_only: bool = False
    same_default: bool = False


def put(path: str, *, text: str | None = None, **attributes: str | None) -> Change:
    """Set text and attributes of the first element at a path of the definition; ``None`` takes an attribute away."""

    def change(document: t.Any) -> None:
        element = document.find(path)
        if text is not None:
            element.text = text
        for name, value in attributes.items():
            if value is None:
                element.attrib.pop(name, None)
            else:
                element.set(name, value)

    return lambda guest: guest.edit(change)


def add(path: str, xml: str, first: bool = False) -> Change:
    """Put an element into the one at a path of the definition."""

    def change(guest: Guest) -> None:
        element = etree.fromstring(guest.host.fill(xml, guest.name))
        guest.edit(lambda document: _at(document, path).insert(0 if first else len(_at(document, path)), element))

    return change


def drop(path: str) -> Change:
    """Take every element at a path out of the definition."""

    def change(document: t.Any) -> None:
        for element in document.xpath(path):
            element.getparent().remove(element)

    return lambda guest: guest.edit(change)


def all_of(*changes: Change) -> Change:
    """Together, with one definition."""

    def change(guest: Guest) -> None:
        with guest.at_once():
            for each in changes:
                each(guest)

    return change


def swap(old: str, new: str) -> t.Callable[[str], str]:
    """An edit of the template."""

    def edit(template: str) -> str:
        assert old in template, old
        return template.replace(old, new)

    return edit


def attach(xml: str, flags: int) -> Change:
    """Plug a device in."""
    return lambda guest: guest.domain.attachDeviceFlags(guest.host.fill(xml, guest.name), flags)


def update(path: str, flags: int, edit: t.Callable[[t.Any], t.Any]) -> Change:
    """Change a plugged device."""

    def change(guest: Guest) -> None:
        device = (guest.live() if flags & LIVE else guest.config()).find(path)
        edit(device)
        guest.domain.updateDeviceFlags(etree.tostring(device, encoding="unicode"), flags)

    return change


def _at(document: t.Any, path: str) -> t.Any:
    return document if path == "." else document.find(path)
