# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: the VMs of a host as they are, over all drivers; nothing is changed."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend.domains import DRIVER_URIS, DomainHost, DomainRecord
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._model.size import MIB, parse_size
from ansible_collections.reduced.footprint.plugins.module_utils._xml import domain as domain_xml
from ansible_collections.reduced.footprint.plugins.module_utils._xml import metadata


@dataclasses.dataclass(frozen=True)
class InfoRequest:
    """Which VMs are asked for; ``None`` and empty filters let everything through."""

    cluster: str | None = None
    ids: t.Sequence[str] = ()
    names: t.Sequence[str] = ()
    states: t.Sequence[str] = ()
    owned: bool = True
    uri: str | None = None
    xml: bool = False


def read_vms(request: InfoRequest, *, connect: t.Callable[[str], DomainHost] = DomainHost) -> list[dict[str, t.Any]]:
    """The VMs of a host, sorted by name.

    A driver that is not there has no VMs; only when none answers that is an error.

    :raises BackendError: no driver answers.
    """
    uris = [request.uri] if request.uri else sorted(set(DRIVER_URIS.values()))
    found: list[dict[str, t.Any]] = []
    failures: list[BackendError] = []
    with contextlib.ExitStack() as stack:
        for uri in uris:
            try:
                host = stack.enter_context(connect(uri))
            except BackendError as error:
                failures.append(error)
                continue
            found += [_describe(record, uri, request.xml) for record in host.domains()]
    if len(failures) == len(uris):
        raise failures[0]
    return sorted((vm for vm in found if _asked(vm, request)), key=lambda vm: (vm["name"], vm["uri"]))


def _asked(vm: t.Mapping[str, t.Any], request: InfoRequest) -> bool:
    if (request.owned or request.cluster) and vm["cluster"] is None:
        return False
    if request.cluster and vm["cluster"] != request.cluster:
        return False
    wanted = ((request.ids, "id"), (request.names, "name"), (request.states, "state"))
    return all(not values or vm[key] in values for values, key in wanted)


def _describe(record: DomainRecord, uri: str, with_xml: bool) -> dict[str, t.Any]:
    document = domain_xml.parse(record.config_xml)
    owned = metadata.read(document)
    live = metadata.read(domain_xml.parse(record.live_xml)) if record.live_xml else None
    memory = document.find("memory")
    vm = {
        "name": record.name,
        "id": owned.id if owned else None,
        "cluster": owned.cluster if owned else None,
        "origin": owned.origin if owned else None,
        "protected": owned.protected if owned else False,
        "uuid": record.uuid,
        "state": record.state,
        "autostart": record.autostart,
        "hypervisor": document.get("type"),
        "uri": uri,
        "cpu": int(document.findtext("vcpu") or 0),
        "memory_mib": parse_size(memory.text, memory.get("unit") or "KiB", "memory") // MIB if memory is not None else 0,
        "macs": domain_xml.macs_of(document),
        "disks": domain_xml.disks_of(document),
        "restart_required": bool(record.active and owned and (live is None or live.applied != owned.applied)),
    }
    if with_xml:
        vm.update(xml=record.config_xml, live_xml=record.live_xml)
    return vm
