# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's documents for copies: the disks of a domain, checkpoints and backup jobs."""

from __future__ import annotations

import typing as t

try:
    from lxml import etree
except ImportError:
    # the missing library is reported by the parser (_vm.compare.xml_domain)
    etree = None


class Disk(t.NamedTuple):
    """A writable disk of a VM with its image file; ``format`` as in the definition."""

    target: str
    path: str
    format: str


def disks_of(document: t.Any) -> tuple[list[Disk], list[str]]:
    """Return the disks to copy, and the targets of all others, which have media that the VM cannot write."""
    found, others = [], []
    for device in document.iterfind("devices/disk"):
        target, source, driver = device.find("target"), device.find("source"), device.find("driver")
        name = target.get("dev") if target is not None else ""
        if device.get("device", "disk") != "disk" or device.find("readonly") is not None or source is None or not source.get("file"):
            others.append(name)
            continue
        found.append(Disk(name, source.get("file"), (driver.get("type") if driver is not None else None) or "raw"))
    return found, others


def small_files(document: t.Any) -> list[str]:
    """Return the files of a VM beside its disks: the firmware's variables, and the cloud-init seed."""
    name = document.findtext("name")
    media = [device.find("source") for device in document.iterfind("devices/disk") if device.get("device") == "cdrom"]
    seeds = [source.get("file") for source in media if source is not None and (source.get("file") or "").endswith(f"/{name}-seed.iso")]
    return [path for path in (document.findtext("os/nvram"), *seeds) if path]


def eject(document: t.Any, exists: t.Callable[[str], bool]) -> list[str]:
    """Remove media that do not exist on this server from the drives; returns their paths."""
    gone = []
    for device in document.iterfind("devices/disk"):
        source = device.find("source")
        path = source.get("file") if source is not None else None
        if device.get("device") in ("cdrom", "floppy") and path and not exists(path):
            device.remove(source)
            gone.append(path)
    return gone


def checkpoint(name: str, disks: t.Sequence[Disk], others: t.Sequence[str]) -> str:
    """Return a checkpoint with a dirty bitmap in each qcow2 disk."""
    root = etree.Element("domaincheckpoint")
    etree.SubElement(root, "name").text = name
    listed = etree.SubElement(root, "disks")
    for disk in disks:
        etree.SubElement(listed, "disk", name=disk.target, checkpoint="bitmap" if disk.format == "qcow2" else "no")
    for target in others:
        etree.SubElement(listed, "disk", name=target, checkpoint="no")
    return etree.tostring(root, encoding="unicode")


def backup(disks: t.Sequence[Disk], others: t.Sequence[str], socket: str, scratch: t.Callable[[Disk], str], since: str | None) -> str:
    """Return a backup job that exports all disks at one point in time on a UNIX socket.

    :arg scratch: returns the file for blocks that the guest overwrites meanwhile.
    :arg since: the checkpoint since which changed blocks of qcow2 disks are marked, ``None`` for none.
    """
    root = etree.Element("domainbackup", mode="pull")
    etree.SubElement(root, "server", transport="unix", socket=socket)
    listed = etree.SubElement(root, "disks")
    for disk in disks:
        marked = since is not None and disk.format == "qcow2"
        how = {"backupmode": "incremental", "incremental": since or ""} if marked else {"backupmode": "full"}
        entry = etree.SubElement(listed, "disk", name=disk.target, backup="yes", type="file", **how)
        etree.SubElement(entry, "scratch", file=scratch(disk))
    for target in others:
        etree.SubElement(listed, "disk", name=target, backup="no")
    return etree.tostring(root, encoding="unicode")
