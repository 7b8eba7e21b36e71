# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: prepare a node: validate, prove, measure, check the capacity, record."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import HOST_FACTS
from ansible_collections.reduced.footprint.plugins.module_utils._host.node import io_facts, model_node
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.io_libvirt_host import LibvirtHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_pool_mounts import PoolMounts
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import parse_networks, parse_pools
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_capacity import refuse_shortage, shortages
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_parts import missing_bridges
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_roles import check_roles
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_state import HostState, Wanted, read_state

# the part of the record with the current usage
MEASURED = "measured"


class NodeBackend:
    """Access to the host; replaced in tests."""

    measure = staticmethod(io_facts.measure)
    read_recorded = staticmethod(io_facts.read_recorded)
    free_bytes = staticmethod(io_facts.free_bytes)
    volume_group = staticmethod(io_facts.volume_group)
    bridges = staticmethod(io_facts.bridges)
    kvm_seen = staticmethod(io_facts.kvm_seen_by)
    proof_key = staticmethod(io_facts.proof_key)
    libvirt = LibvirtHost
    domains = DomainHost
    mounts = PoolMounts()
    moved = staticmethod(io_owner.read_all)

    @staticmethod
    def prove(kind: str, facts: model_node.HostFacts, timeout: float, container_uri: str) -> model_node.HypervisorProof:
        """Run a test guest; most runs use the recorded proofs instead, so the code is imported on demand."""
        from ansible_collections.reduced.footprint.plugins.module_utils._host.node import io_hypervisor_probe

        return io_hypervisor_probe.prove(kind, facts, timeout, container_uri)

    @staticmethod
    def record(path: str, text: str) -> None:
        """Write the facts, world-readable and not executable (facts.d would run it)."""
        write_atomic(path, text, mode=0o644)


class NodeRequest(t.NamedTuple):
    """The request of the user, not validated."""

    name: str
    cluster: str
    roles: t.Sequence[str]
    vms: t.Any
    pool: str = "default"
    pool_path: str | None = None
    pools: t.Any = ()
    networks: t.Any = ()
    bridges: t.Sequence[str] = ()
    hypervisors: t.Sequence[str] = ("kvm", "qemu", "lxc")
    memory_reserve: t.Any = "1 GiB"
    vcpu_ratio: t.Any = 4
    pool_reserve: t.Any = None
    proof_timeout: float = 15
    reprove: bool = False
    uri: str = "qemu:///system"
    container_uri: str = "lxc:///system"
    facts_file: str = io_facts.FACTS_FILE


def prepare_node(request: NodeRequest, *, check_mode: bool, backend: t.Any = None) -> dict[str, t.Any]:
    """Validate the details of a server, prove its hypervisors, check its capacity, and record the result; returns that of the module.

    All checks run before the first change. The proofs also run in check mode, because their guests
    leave nothing behind. What is missing only because the host is not prepared yet is
    a warning in check mode, an error otherwise.
    """
    backend = backend or NodeBackend()
    node, policy, wanted = _parse(request)
    facts = backend.measure()
    before_text, recorded = backend.read_recorded(request.facts_file)
    is_virt = model_node.ROLE_VIRT in node.roles
    state = HostState(model_node.HostCapacity(facts, policy))
    if is_virt:
        state = read_state((request.uri, request.container_uri), wanted, node, facts, policy, backend, check_mode)
    # proofs on a host without libvirt are not meaningful
    proofs, cached = _proofs(request, node, facts, recorded, backend) if is_virt and state.prepared else ({}, set())
    warnings = list(state.warnings)
    if is_virt:
        have = backend.bridges() | (set(request.bridges) if check_mode else set())
        error = missing_bridges(node.name, node.vms, request.bridges, wanted.networks, have) or (_missing_hypervisors(node, proofs) if proofs else None)
        if error:
            raise error
    refuse_shortage(node.name, shortages(node.vms, state.capacity, request.pool))
    kvm = proofs.get("kvm")
    if kvm and not kvm.usable and backend.kvm_seen():
        warnings.append(
            f"/dev/kvm exists on {node.name} but cannot run guests ({kvm.reason}). As long as libvirt sees this device it probes "
            "QEMU again at every define, which takes tens of seconds each time. Hide it from libvirt with virt_host_mask_broken_kvm "
            "of the role reduced.footprint.virt_host."
        )

    after = HOST_FACTS.mark({
        "attributes": node.as_dict(),
        "hypervisors": {kind: proof.as_dict() for kind, proof in sorted(proofs.items())},
        "capacity": state.capacity.lasting(),
    })
    actions, diff = [step.action for step in state.steps], [step.diff for step in state.steps]
    for name in state.forgotten:
        actions.append(f"remove mount record of pool {name}")
        diff.append({"before_header": f"pool {name}", "after_header": f"pool {name}", "before": "mounted: true\n", "after": "mounted: false\n"})
    if state.steps and not check_mode:
        with backend.libvirt(request.uri) as host:
            state.make(host)
    if not check_mode:
        state.note_mounts(backend.mounts)
    measured = {name: pool.measured() for name, pool in sorted(state.capacity.pools.items())}
    known = {key: value for key, value in recorded.items() if key != MEASURED}
    # the current usage does not count as a change, but an edited or damaged file does
    if _text(after) != _text(known) or before_text != _text(recorded):
        actions.append("record")
        lasting = _text(known) if recorded else before_text
        diff.append({"before_header": request.facts_file, "after_header": request.facts_file, "before": lasting, "after": _text(after)})
    if not check_mode and (actions or recorded.get(MEASURED) != {"pools": measured}):
        backend.record(request.facts_file, _text({**after, MEASURED: {"pools": measured}}))
    return {
        "attributes": node.as_dict(),
        "hypervisors": {kind: dict(proof.as_dict(), cached=kind in cached) for kind, proof in sorted(proofs.items())},
        "capacity": state.capacity.as_dict(),
        "changed": bool(actions),
        "actions": actions,
        "warnings": warnings,
        "diff": diff,
    }


def check_node(request: NodeRequest, *, backend: t.Any = None) -> dict[str, t.Any]:
    """Validate the details of a server that may not be prepared yet, with its memory, CPUs, and existing or planned bridges.

    :returns: the validated ``attributes`` and the ``capacity``.
    """
    backend = backend or NodeBackend()
    node, policy, wanted = _parse(request)
    capacity = model_node.HostCapacity(backend.measure(), policy)
    error = missing_bridges(node.name, node.vms, (), wanted.networks, backend.bridges() | set(request.bridges))
    if error:
        raise error
    refuse_shortage(node.name, shortages(node.vms, capacity, request.pool))
    return {"attributes": node.as_dict(), "capacity": capacity.as_dict()}


def _parse(request: NodeRequest) -> tuple[model_node.NodeAttributes, model_node.CapacityPolicy, Wanted]:
    node = model_node.parse_node(request.name, request.cluster, request.roles, request.vms)
    policy = model_node.parse_policy(request.memory_reserve, request.vcpu_ratio, request.pool_reserve)
    check_roles(node)
    return node, policy, Wanted(parse_pools(request.pools, request.pool, request.pool_path), parse_networks(request.networks))


def _text(record: t.Mapping[str, t.Any]) -> str:
    return json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False, default=str) + "\n"


def _proofs(
    request: NodeRequest, node: model_node.NodeAttributes, facts: model_node.HostFacts, recorded: t.Mapping[str, t.Any], backend: t.Any
) -> tuple[dict[str, model_node.HypervisorProof], set[str]]:
    """Return the proof of every requested type, from the record if it is still valid, and the types of the latter."""
    kinds = set(request.hypervisors)
    for vm in node.vms:
        kinds.update(("kvm", "qemu") if vm.hypervisor == "auto" else (vm.hypervisor,))
    proofs: dict[str, model_node.HypervisorProof] = {}
    cached: set[str] = set()
    known = recorded.get("hypervisors")
    for kind in sorted(kinds):
        old = model_node.HypervisorProof.from_dict(kind, known.get(kind)) if isinstance(known, dict) else None
        holds = old is not None and old.key == backend.proof_key(kind, facts)
        # a failed container proof may succeed after a service was started, and is quick to repeat
        if holds and not request.reprove and (old.usable or kind != "lxc"):
            proofs[kind] = old
            cached.add(kind)
            continue
        new = backend.prove(kind, facts, request.proof_timeout, request.container_uri)
        same = holds and (old.usable, old.reason) == (new.usable, new.reason)
        # keep the old proof if the outcome is the same, so that a different duration does not count as a change
        proofs[kind] = old if same else new
    return proofs, cached


def _missing_hypervisors(node: model_node.NodeAttributes, proofs: t.Mapping[str, model_node.HypervisorProof]) -> FootprintError | None:
    for vm in node.vms:
        able = ("kvm", "qemu") if vm.hypervisor == "auto" else (vm.hypervisor,)
        if not any(proofs[kind].usable for kind in able):
            why = "; ".join(f"{kind}: {proofs[kind].reason}" for kind in able)
            usable = [kind for kind, proof in proofs.items() if proof.usable]
            hint = f"Set hypervisor to one that is usable here ({', '.join(usable)})." if usable else "Fix the host; no hypervisor type is usable."
            return RefusedError(f"host {node.name} cannot run guests of type {vm.hypervisor}: {why}.", f"{vm.path}.hypervisor", hint)
    return None
