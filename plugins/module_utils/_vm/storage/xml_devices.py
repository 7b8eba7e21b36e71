# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Paths and formats of the disks in a parsed domain document."""

from __future__ import annotations

import typing as t


def open_disks(document: t.Any) -> dict[str, str | None]:
    """Path of every disk and file system with a local source → the format of its driver.

    Removable media are included: a domain needs the medium in its drive.
    """
    found: dict[str, str | None] = {}
    for device in document.iterfind("devices/*"):
        if device.tag not in ("disk", "filesystem"):
            continue
        for source in device.iterfind("source"):
            path = source.get("file") or source.get("dev") or source.get("dir")
            driver = device.find("driver")
            if path and path.startswith("/"):
                found[path] = driver.get("type") if driver is not None else None
    return found


def own_disks(document: t.Any, writable: bool = False) -> list[str]:
    """Paths of the disks and file systems of a domain, without removable media.

    :arg writable: without those that the domain can only read.
    """
    found = []
    for source in _own_sources(document, writable):
        path = source.get("file") or source.get("dev") or source.get("dir")
        if path and path.startswith("/"):
            found.append(path)
    return found


def own_volumes(document: t.Any, writable: bool = False) -> list[tuple[str, str]]:
    """As :func:`own_disks`, for disks given by pool and volume."""
    return [(source.get("pool"), source.get("volume")) for source in _own_sources(document, writable) if source.get("pool") and source.get("volume")]


def _own_sources(document: t.Any, writable: bool) -> t.Iterator[t.Any]:
    for device in document.iterfind("devices/*"):
        if (device.tag == "disk" and device.get("device", "disk") == "disk") or (device.tag == "filesystem" and device.get("type", "mount") == "mount"):
            if not writable or device.find("readonly") is None:
                yield from device.iterfind("source")


def placed_disks(document: t.Any) -> dict[str, tuple[str | None, str | None, str | None]]:
    """Target of every disk, mount point of every file system → its path, or its pool and volume."""
    found: dict[str, tuple[str | None, str | None, str | None]] = {}
    for device in document.iterfind("devices/*"):
        if device.tag not in ("disk", "filesystem"):
            continue
        target, source = device.find("target"), device.find("source")
        if target is None or source is None:
            continue
        path = source.get("file") or source.get("dev") or source.get("dir")
        name = target.get("dev") or target.get("dir")
        if name:
            found[name] = (path, source.get("pool"), source.get("volume"))
    return found


def pool_disks(document: t.Any) -> dict[tuple[str, str], str | None]:
    """Pool and volume of every disk given by these → the format of its driver."""
    found: dict[tuple[str, str], str | None] = {}
    for device in document.iterfind("devices/disk"):
        for source in device.iterfind("source"):
            if source.get("pool") and source.get("volume"):
                driver = device.find("driver")
                found[source.get("pool"), source.get("volume")] = driver.get("type") if driver is not None else None
    return found


def needed_files(document: t.Any) -> dict[str, str | None]:
    """Path of every file a running domain has open, including backing files, as libvirt reports them → its format in the document."""
    found = open_disks(document)
    for layer in document.iterfind(".//backingStore"):
        source, form = layer.find("source"), layer.find("format")
        path = source.get("file") or source.get("dev") if source is not None else None
        if path:
            found.setdefault(path, form.get("type") if form is not None else None)
    return found


def seed_waits(document: t.Any, namespace: str) -> bool:
    """Whether the live document records that the seed was changed after the start."""
    return document.find(f"metadata/{{{namespace}}}changed") is not None


class RecordedDisk(t.NamedTuple):
    """A disk or file system in a document; ``format`` is dir for a file system, ``mount`` its mount point in a container."""

    target: str
    bus: str | None
    format: str | None
    serial: str | None
    mount: str | None


def recorded_disks(document: t.Any) -> dict[str, RecordedDisk]:
    """Path of every disk and file system of a domain (or ``pool:volume``) → how it is attached."""
    found = {}
    for device in document.iterfind("devices/*"):
        folder = device.tag == "filesystem" and device.get("type", "mount") == "mount"
        if not folder and (device.tag != "disk" or device.get("device", "disk") != "disk"):
            continue
        source, target, driver = device.find("source"), device.find("target"), device.find("driver")
        if source is None or target is None:
            continue
        path = source.get("file") or source.get("dev") or source.get("dir")
        if path is None and source.get("volume"):
            path = f"{source.get('pool')}:{source.get('volume')}"
        if path:
            form = "dir" if folder else driver.get("type") if driver is not None else None
            found[path] = RecordedDisk(target.get("dev") or "", target.get("bus"), form, device.findtext("serial"), target.get("dir") if folder else None)
    return found
