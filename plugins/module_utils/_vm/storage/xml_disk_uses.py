# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files, folders and devices that a parsed domain document uses, with its access to them."""

from __future__ import annotations

import typing as t


class DiskUse(t.NamedTuple):
    """One source of a disk or file system.

    ``device`` is its target (``vda``, or the mount point in a container). A source is a ``path`` of the
    host, a volume of a pool (``pool``, ``volume``), or a network source (``remote``). ``form`` is
    the format of its driver. A ``folder`` that is not the ``root`` of a container can be shared by
    design. ``layers`` are the paths of its backing files, as far as the document names them.
    """

    device: str
    path: str | None
    pool: str | None = None
    volume: str | None = None
    remote: str | None = None
    form: str | None = None
    writes: bool = True
    shareable: bool = False
    folder: bool = False
    root: bool = False
    layers: tuple[str, ...] = ()


def disk_uses(document: t.Any) -> list[DiskUse]:
    """All sources of the disks and file systems of a domain; empty drives have none."""
    found = []
    for device in document.iterfind("devices/*"):
        if device.tag not in ("disk", "filesystem"):
            continue
        # iterate the children once: every lookup in the document costs more than the rest of this function
        parts = {part.tag: part for part in device}
        if device.tag == "disk":
            found += _disk(device, parts)
        elif "source" in parts:
            source, mount = parts["source"], _target(parts, "dir")
            path = source.get("dir") or source.get("file") or source.get("dev")
            found.append(DiskUse(mount, path, writes="readonly" not in parts, folder=bool(source.get("dir")), root=mount == "/"))
    return [use for use in found if use.path or use.volume or use.remote]


def _disk(device: t.Any, parts: t.Mapping[t.Any, t.Any]) -> t.Iterator[DiskUse]:
    name = _target(parts, "dev")
    for copy in parts["mirror"].iterfind("source") if "mirror" in parts else ():
        yield DiskUse(name, copy.get("file") or copy.get("dev"))
    source, driver = parts.get("source"), parts.get("driver")
    if source is None:
        return
    layers = [each.get("file") or each.get("dev") for each in device.iterfind(".//backingStore/source")] if "backingStore" in parts else []
    yield DiskUse(
        name,
        source.get("file") or source.get("dev") or source.get("dir"),
        source.get("pool"),
        source.get("volume"),
        _remote(source) if device.get("type") == "network" else None,
        driver.get("type") if driver is not None else None,
        # writes to a transient disk are discarded when the guest stops
        writes=device.get("device") != "cdrom" and "readonly" not in parts and "transient" not in parts,
        shareable="shareable" in parts,
        layers=tuple(path for path in layers if path),
    )


def _target(parts: t.Mapping[t.Any, t.Any], key: str) -> str:
    return parts["target"].get(key, "") if "target" in parts else ""


def _remote(source: t.Any) -> str:
    hosts = sorted(f"{host.get('name') or host.get('socket') or ''}:{host.get('port') or ''}" for host in source.iterfind("host"))
    return f"{source.get('protocol')}:{source.get('name') or ''}@{','.join(hosts)}"
