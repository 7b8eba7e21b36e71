# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: list the VMs of a host, over all drivers; nothing is changed.

Bulk queries are used where possible; per domain only its documents are read.
"""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t
import urllib.parse

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, parse_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domain_lists
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, DomainRecord
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.run_look import Seen
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_metadata import SEED_NAMESPACE, Ownership
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import OWNER


OURS, FOREIGN, ALL = "ours", "foreign", "all"
STATES = ["running", "paused", "suspended", "shutdown", "crashed"]


@dataclasses.dataclass(frozen=True)
class InfoRequest:
    """Filters for VMs and the requested details; ``None`` and empty filters match everything."""

    cluster: str | None = None
    owner: str = OURS
    origins: t.Sequence[str] = ()
    ids: t.Sequence[str] = ()
    names: t.Sequence[str] = ()
    states: t.Sequence[str] = ()
    uri: str | None = None
    drift: bool = False
    volumes: bool = False
    xml: bool = False
    addresses: bool = False
    snapshots: bool = False
    records_path: str = str(io_owner.HOME)


def read_vms(request: InfoRequest, *, connect: t.Callable[[str], DomainHost] = DomainHost) -> list[dict[str, t.Any]]:
    """The VMs of a host, sorted by name.

    A missing driver has no VMs; one that does not answer is an error, because its VMs are unknown.
    """
    found: list[dict[str, t.Any]] = []
    for host in io_domain_lists.drivers([request.uri] if request.uri else (), connect=connect):
        with host:
            found += _Driver(host, request).vms()
    return sorted(found, key=lambda vm: (vm["name"], vm["uri"]))


class _Driver:
    """One driver of the host with the data of all its domains."""

    def __init__(self, host: DomainHost, request: InfoRequest) -> None:
        self._host = host
        self._uri = uri = host.uri
        self._request = request
        self._records = [record for record in host.domains() if _matches_name(record, request)]
        self._kept = io_domain_lists.kept(host)
        self._local = urllib.parse.urlsplit(uri).netloc == ""
        away = io_owner.read_all(pathlib.Path(request.records_path)) if self._local else {}
        # one that is being moved is a VM of this host until another one owns it
        self._moved = {uuid: each.to for uuid, each in away.items() if each.role != OWNER}
        self._capacities = io_domain_lists.capacities(host) if request.volumes else {}
        self._folders = io_domain_lists.pool_folders(host) if request.volumes else {}

    def vms(self) -> list[dict[str, t.Any]]:
        """The VMs that match the request."""
        seen = [Seen(record) for record in self._records]
        return [self._describe(one) for one in seen if _matches_ownership(one.owned, self._request)]

    def _describe(self, seen: Seen) -> dict[str, t.Any]:
        record, document, owned = seen.record, seen.config, seen.owned
        memory = document.find("memory")
        vm = {
            "name": record.name,
            "id": owned.id if owned else None,
            "cluster": owned.cluster if owned else None,
            "origin": owned.origin if owned else None,
            "protected": owned.protected if owned else False,
            "adopted": owned.adopted if owned else False,
            "instance": seen.instance._asdict() if seen.instance else None,
            "uuid": record.uuid,
            "state": record.state,
            "persistent": record.persistent,
            "autostart": record.autostart,
            "hypervisor": document.get("type"),
            "uri": self._uri,
            "cpu": int(document.findtext("vcpu") or 0),
            "memory_mib": parse_size(memory.text, memory.get("unit") or "KiB", "memory") // MIB if memory is not None else 0,
            "macs": xml_domain.macs_of(document),
            "disks": xml_domain.disks_of(document),
            "has_previous": bool(owned and owned.previous is not None),
            "has_snapshots": record.uuid in self._kept.snapshots,
            "has_managed_save": record.uuid in self._kept.managed_saves,
            "moved": self._moved.get(record.uuid),
        }
        vm.update(_drift_state(seen, self._request.drift))
        if owned and SEED_NAMESPACE in (record.live_xml or ""):
            # the guest has not read its seed since that was changed
            vm["restart_required"] = True
            if self._request.drift:
                vm["pending"] = [*vm["pending"], "seed"]
        if self._request.volumes:
            vm["volumes"] = [self._volume(record.uuid, target, path) for target, path in _targets(document)]
        if self._request.addresses:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_addresses

            vm["addresses"] = run_addresses.read(self._host, record.uuid, vm["macs"]) if record.active else []
        if self._request.snapshots:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_snapshots

            vm["snapshots"] = io_snapshots.listed(self._host, record.uuid) if vm["has_snapshots"] else []
        if self._request.xml:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import hidden

            vm.update(xml=hidden(record.config_xml), live_xml=record.live_xml and hidden(record.live_xml))
        return vm

    def _volume(self, uuid: str, target: str, path: str) -> dict[str, t.Any]:
        capacity = self._capacities.get(uuid, {}).get(target)
        folder, unused, name = path.rpartition("/")
        return {
            "target": target,
            "path": path,
            "pool": self._folders.get(folder),
            "name": name,
            "capacity_bytes": capacity,
            "allocation_bytes": io_domain_lists.allocation(path, capacity) if self._local else None,
        }


def _drift_state(seen: Seen, drift: bool) -> dict[str, t.Any]:
    """How a managed VM differs from the document applied to it: differences are drift or wait for a restart.

    Without ``drift`` the documents are compared only where a restart can be required.
    """
    result: dict[str, t.Any] = {"restart_required": False}
    if drift:
        result.update(drift=[], pending=[], kept=[])
    started_differently = seen.live is not None and (seen.live_applied is not seen.applied or bool(seen.noted))
    if seen.applied is None or not (drift or started_differently):
        return result
    # imported only where documents are compared
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.plan_apply_class import classify
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.run_facts import facts_of
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import shown

    comparison = seen.compare(seen.applied)
    facts = facts_of(seen, seen.applied, comparison.differences)
    changes = [(difference, classify(difference, facts)) for difference in comparison.differences]
    pending = [change.path for unused, change in changes if change.waits]
    result["restart_required"] = bool(pending)
    if drift:
        result["pending"] = pending
        result["kept"] = list(comparison.kept)
        result["drift"] = [
            shown({"path": change.path, "class": change.cls, "applied": found.applied, "config": found.config, "live": found.live})
            for found, change in changes
            if found.outside or found.config_differs
        ]
    return result


def _matches_name(record: DomainRecord, request: InfoRequest) -> bool:
    return (not request.names or record.name in request.names) and (not request.states or record.state in request.states)


def _matches_ownership(owned: Ownership | None, request: InfoRequest) -> bool:
    if owned is None:
        return request.owner != OURS and not (request.cluster or request.origins or request.ids)
    if request.owner == FOREIGN:
        return False
    wanted = (((request.cluster,) if request.cluster else (), owned.cluster), (request.origins, owned.origin), (request.ids, owned.id))
    return all(not values or value in values for values, value in wanted)


def _targets(document: t.Any) -> list[tuple[str, str]]:
    """Target and path of each disk and file system; empty drives are omitted."""
    found = []
    for device in document.iterfind("devices/*"):
        source, target = device.find("source"), device.find("target")
        if device.tag in ("disk", "filesystem") and source is not None and target is not None:
            path = source.get("file") or source.get("dev") or source.get("dir")
            if path:
                found.append((target.get("dev") or target.get("dir") or "", path))
    return found
