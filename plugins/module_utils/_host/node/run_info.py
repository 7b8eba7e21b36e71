# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: read the recorded facts and the current state of a node. Read-only."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import masked
from ansible_collections.reduced.footprint.plugins.module_utils._host.node import io_facts
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import PROVABLE, HypervisorProof, PoolCapacity
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import POOL, FoundNetwork, made_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_left import left, share
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_guests import read_guests
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_node import NodeBackend
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.model_removal import Guest
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import CPU_KEYS, RAM_KEYS, parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import FILE_POOLS


def read_node(
    uri: str = "qemu:///system", container_uri: str = "lxc:///system", facts_file: str = io_facts.FACTS_FILE, *, backend: t.Any = None
) -> tuple[dict[str, t.Any], list[str]]:
    """Return the node and warnings about missing values.

    Without libvirt only the record and the facts of the machine are returned.
    """
    backend = backend or NodeBackend()
    facts = backend.measure()
    unused, record = backend.read_recorded(facts_file)
    attributes = masked(_mapping(record.get("attributes")))
    details = {
        (str(attributes.get("cluster")), str(vm.get("id"))): vm.get("roles") or () for vm in attributes.get("vms") or () if isinstance(vm, dict)
    }
    warnings: list[str] = []
    pools: list[tuple[PoolCapacity, bool, bool]] = []
    networks: list[FoundNetwork] = []
    guests: t.Any = []
    answers = True
    try:
        with backend.libvirt(uri) as host:
            pools, networks = host.pools(), host.networks()
        guests = read_guests((uri, container_uri), details, backend)
    except BackendError as error:
        answers = False
        warnings.append(f"{error.message} The values from libvirt are missing.")
    proofs = _mapping(record.get("hypervisors"))
    reserves = {name: _mapping(pool).get("reserve_bytes") for name, pool in _mapping(_mapping(record.get("capacity")).get("pools")).items()}
    node = {
        "recorded": bool(record),
        "name": attributes.get("name"),
        "cluster": attributes.get("cluster"),
        "roles": attributes.get("roles") or [],
        "attributes": attributes,
        "libvirt": answers,
        "hypervisors": {kind: _proof(kind, proofs[kind], facts, backend) for kind in PROVABLE if kind in proofs},
        "bridges": sorted(backend.bridges()),
        "networks": [network.as_dict() for network in networks],
        "pools": {pool.name: _pool(pool, active, autostart, reserves.get(pool.name), backend.mounts) for pool, active, autostart in pools},
        "vms": [
            {
                **guest.as_dict(),
                "autostart": guest.autostart,
                "memory_mib": guest.memory_mib,
                "cpu": guest.cpu,
                "moved_to": guest.moved_to,
                "pools": sorted(pool.name for pool, unused, unused_too in pools if uses.pool(pool)),
                "networks": sorted(uses.networks),
            }
            for guest, uses in sorted(guests, key=lambda one: (one[0].name, one[0].uri))
        ],
        "capacity": left(facts, _mapping(record.get("capacity")), [guest for guest, unused_uses in guests]),
    }
    node["tenants"] = _tenants(facts, node["capacity"], attributes, [guest for guest, unused_uses in guests])
    return node, warnings


def _tenants(facts: t.Any, capacity: t.Mapping[str, t.Any], attributes: t.Mapping[str, t.Any], guests: t.Sequence[Guest]) -> dict[str, t.Any]:
    """Return what the VMs of the footprint leave to those of tenants: the listed ones, and others of the footprint such as a migrated master."""
    sizes = [{key: vm[key] for key in ("id", *CPU_KEYS, *RAM_KEYS) if key in vm} for vm in attributes.get("vms") or () if isinstance(vm, dict)]
    listed = {vm.id: (vm.memory_mib, vm.cpu) for vm in parse_vms(sizes, "vms", cluster=str(attributes.get("cluster") or "default"))}
    others = [(guest.memory_mib, guest.cpu) for guest in guests if guest.cluster is not None and guest.id not in listed]
    reserve, ratio = int(capacity["memory_reserve_mib"] or 0), float(capacity["vcpu_ratio"] or 1)
    return share(facts.memory_mib, facts.cpus, reserve, ratio, [*listed.values(), *others])._asdict()


def _proof(kind: str, recorded: t.Any, facts: t.Any, backend: t.Any) -> dict[str, t.Any]:
    proof = HypervisorProof.from_dict(kind, recorded) or HypervisorProof(kind, False, "the record is not valid", 0.0)
    return dict(proof.as_dict(), holds=proof.key == backend.proof_key(kind, facts))


def _pool(pool: PoolCapacity, active: bool, autostart: bool, reserve: int | None, mounts: t.Any) -> dict[str, t.Any]:
    values = {**pool.lasting(), "active": active, "autostart": autostart, "ours": pool.uuid == made_uuid(POOL, pool.name), "volumes": len(pool.volumes)}
    sizes = pool.measured() if active else dict.fromkeys(pool.measured())
    files = pool.path if pool.type in FILE_POOLS else None
    lost = mounts.missing(files) if files else None
    point = lost or (mounts.point(files) if files else None)
    return {**values, "source": pool.source, "reserve_bytes": reserve, "mount": point, "mounted": lost is None, **sizes}


def _mapping(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}
