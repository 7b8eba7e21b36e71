# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot device and firmware in the document of a domain."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._power.model_power import BIOS, CDROM, DISK, PXE, UEFI, UnsupportedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain

try:
    from lxml import etree
except ImportError:
    # reported when a document is parsed
    etree = None

_LIBVIRT: t.Mapping[str, str] = {PXE: "network", DISK: "hd", CDROM: "cdrom"}
_MISSING: t.Mapping[str, str] = {PXE: "network interface", DISK: "disk", CDROM: "CD-ROM drive"}


def is_container(text: str) -> bool:
    """Whether the domain is a container, which has no firmware."""
    return xml_domain.parse(text).findtext("os/type") == "exe"


def device(text: str) -> str | None:
    """Return the first boot device, ``None`` if it is of another kind."""
    root = xml_domain.parse(text)
    ordered = [(_order(element), element) for element in _bootable(root) if element.find("boot") is not None]
    if ordered:
        return _kind(min(ordered, key=lambda pair: pair[0])[1])
    first = root.find("os/boot")
    # libvirt's default
    name = "hd" if first is None else first.get("dev")
    return next((kind for kind, value in _LIBVIRT.items() if value == name), None)


def mode(text: str) -> str:
    """Return the kind of the firmware."""
    root = xml_domain.parse(text)
    loader = root.find("os/loader")
    firmware = (root.find("os").get("firmware") if root.find("os") is not None else None) or ""
    return UEFI if firmware == "efi" or (loader is not None and loader.get("type") == "pflash") else BIOS


def with_device(text: str, wanted: str) -> str:
    """Return a definition with another first boot device; the other devices follow in their order."""
    root = xml_domain.parse(text)
    bootable = list(_bootable(root))
    if wanted not in _LIBVIRT:
        raise UnsupportedError("boot_device", f"a VM boots from {', '.join(_LIBVIRT)}, not from {wanted}")
    if not any(_kind(element) == wanted for element in bootable):
        raise UnsupportedError("boot_device", f"the VM has no {_MISSING[wanted]}", "Add one to the VM details.")
    before = [_kind(element) for element in sorted((each for each in bootable if each.find("boot") is not None), key=_order)]
    names = [_LIBVIRT[kind] for kind in before if kind] or [element.get("dev") for element in root.findall("os/boot")] or ["hd"]
    # the order of single devices and that of kinds exclude each other
    for element in (*bootable, root.find("os")):
        for boot in element.findall("boot"):
            element.remove(boot)
    place = root.find("os")
    # after os/type and the firmware, where libvirt writes it
    for name in dict.fromkeys([_LIBVIRT[wanted], *names]):
        etree.SubElement(place, "boot", dev=name)
    return str(etree.tostring(root, encoding="unicode"))


def _bootable(root: t.Any) -> t.Iterator[t.Any]:
    for name in ("disk", "interface", "hostdev", "redirdev"):
        yield from root.iterfind(f"devices/{name}")


def _order(element: t.Any) -> int:
    return int(element.find("boot").get("order") or 0)


def _kind(element: t.Any) -> str | None:
    if element.tag == "interface":
        return PXE
    return {"disk": DISK, "lun": DISK, "cdrom": CDROM}.get(element.get("device", "disk")) if element.tag == "disk" else None
