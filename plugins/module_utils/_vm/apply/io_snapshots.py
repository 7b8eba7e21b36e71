# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's snapshots of a domain: list, create, revert, remove."""

from __future__ import annotations

import datetime
import typing as t
import xml.etree.ElementTree as ET

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, libvirt, libvirt_errors

_STATES = {"shutoff": "shutdown", "disk-snapshot": "shutdown"}


def listed(host: DomainHost, uuid: str) -> list[dict[str, t.Any]]:
    """Return the snapshots of a domain, the oldest first; a driver without snapshots has none."""
    with libvirt_errors("cannot list the snapshots"):
        try:
            found = host.connection.lookupByUUIDString(uuid).listAllSnapshots(0)
            entries = [_entry(snapshot) for snapshot in found]
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT:
                return []
            raise
    return sorted(entries, key=lambda each: (each["created_at"], each["name"]))


def _entry(snapshot: t.Any) -> dict[str, t.Any]:
    document = ET.fromstring(snapshot.getXMLDesc(0))
    state = document.findtext("state") or ""
    created = datetime.datetime.fromtimestamp(int(document.findtext("creationTime") or 0), datetime.timezone.utc)
    return {
        "name": snapshot.getName(),
        "description": document.findtext("description") or "",
        "state": _STATES.get(state, state),
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "current": bool(snapshot.isCurrent(0)),
        "parent": document.findtext("parent/name"),
    }


def create(host: DomainHost, uuid: str, name: str, description: str) -> None:
    """Create an internal snapshot of all disks, of a running guest with its memory."""
    document = ET.Element("domainsnapshot")
    ET.SubElement(document, "name").text = name
    ET.SubElement(document, "description").text = description
    with libvirt_errors("cannot create the snapshot"):
        host.connection.lookupByUUIDString(uuid).snapshotCreateXML(ET.tostring(document, encoding="unicode"), 0)


def revert(host: DomainHost, uuid: str, name: str) -> None:
    """Revert disks, memory and definition to a snapshot."""
    with libvirt_errors("cannot revert to the snapshot", "Shut the VM down, and run again."):
        domain = host.connection.lookupByUUIDString(uuid)
        domain.revertToSnapshot(domain.snapshotLookupByName(name, 0), 0)


def remove(host: DomainHost, uuid: str, name: str) -> None:
    """Remove a snapshot; those that were taken after it remain."""
    with libvirt_errors("cannot remove the snapshot"):
        host.connection.lookupByUUIDString(uuid).snapshotLookupByName(name, 0).delete(0)
