# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the VMs of a node with their owners and roles, and the pools and networks they use."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, parse_size
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import PoolCapacity
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.model_removal import Guest
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainRecord, DriverMissing
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_instance, xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ARRIVING, MOVED, Record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.xml_devices import needed_files, pool_disks


class Uses(t.NamedTuple):
    """The resources of the host that a VM uses, by its persistent and live definition."""

    files: frozenset[str]
    pools: frozenset[str]
    networks: frozenset[str]

    def pool(self, pool: PoolCapacity) -> bool:
        """Whether it uses a pool."""
        folder = os.path.normpath(pool.path) + os.sep if pool.path else None
        return pool.name in self.pools or any(folder is not None and os.path.normpath(path).startswith(folder) for path in self.files)


Guests = t.List[t.Tuple[Guest, Uses]]


def read_guests(
    uris: t.Sequence[str], roles: t.Mapping[tuple[str, str], t.Sequence[str]], backend: t.Any, protected: t.Container[tuple[str, str]] = ()
) -> Guests:
    """Return every VM of the node. The first driver must be there; one for containers may be missing.

    :arg roles: (cluster, id) → roles, from the VM details; ``protected`` are the VMs that the details protect.
    :arg backend: provides ``domains`` (a connection) and ``moved``.
    :raises BackendError: libvirt does not answer.
    """
    moved = backend.moved()
    found: Guests = []
    for index, uri in enumerate(dict.fromkeys(uris)):
        try:
            with backend.domains(uri) as host:
                records = host.domains()
        except DriverMissing:
            if index == 0:
                raise
            continue
        found += [_guest(record, uri, roles, moved, protected) for record in records]
    return found


def _guest(
    record: DomainRecord,
    uri: str,
    roles: t.Mapping[tuple[str, str], t.Sequence[str]],
    moved: t.Mapping[str, Record],
    protected: t.Container[tuple[str, str]],
) -> tuple[Guest, Uses]:
    documents = [parse(text) for text in (record.config_xml, record.live_xml) if text is not None]
    owned = xml_metadata.read(documents[0])
    memory = documents[0].find("memory")
    key = (owned.cluster, owned.id) if owned else ("", "")
    left = moved.get(record.uuid)
    instance = xml_instance.read(documents[0])
    guest = Guest(
        name=record.name,
        uuid=record.uuid,
        uri=uri,
        state=record.state,
        autostart=record.autostart,
        persistent=record.persistent,
        id=owned.id if owned else None,
        cluster=owned.cluster if owned else None,
        origin=owned.origin if owned else None,
        protected=bool(owned and (owned.protected or key in protected)),
        roles=tuple(roles.get(key, ())),
        moved_to=left.to if left is not None and left.state in (MOVED, ARRIVING) else None,
        memory_mib=0 if memory is None else parse_size(memory.text, memory.get("unit") or "KiB", "memory") // MIB,
        cpu=int(documents[0].findtext("vcpu") or 0),
        instance=instance.text if instance else "",
    )
    return guest, Uses(
        frozenset(path for document in documents for path in needed_files(document)),
        frozenset(pool for document in documents for pool, unused in pool_disks(document)),
        frozenset(source.get("network") for document in documents for source in document.iterfind("devices/interface/source") if source.get("network")),
    )
