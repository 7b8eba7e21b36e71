# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: make a server a trusted node (F1, F2, T1): validate, prove, measure, refuse, record."""

from __future__ import annotations

import dataclasses
import json
import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend import host_facts, hypervisor_probe
from ansible_collections.reduced.footprint.plugins.module_utils._backend.bridge import links
from ansible_collections.reduced.footprint.plugins.module_utils._backend.files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._backend.libvirt_host import LibvirtHost
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError, FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._model.node import (
    ROLE_VIRT,
    CapacityPolicy,
    HostCapacity,
    HostFacts,
    HypervisorProof,
    NodeAttributes,
    PoolCapacity,
    parse_node,
    parse_policy,
    secrets_in,
)
from ansible_collections.reduced.footprint.plugins.module_utils._plan.capacity import refuse_shortage, shortages
from ansible_collections.reduced.footprint.plugins.module_utils._plan.node_roles import check_roles

_FORMAT = 1


class NodeBackend:
    """The host as this use case sees it; tests put another one in its place."""

    measure = staticmethod(host_facts.measure)
    read_recorded = staticmethod(host_facts.read_recorded)
    free_bytes = staticmethod(host_facts.free_bytes)
    has_kvm_device = staticmethod(hypervisor_probe.has_kvm_device)
    prove = staticmethod(hypervisor_probe.prove)
    proof_key = staticmethod(hypervisor_probe.proof_key)
    libvirt = LibvirtHost

    @staticmethod
    def bridges() -> set[str]:
        """The names of the host's bridges."""
        return {name for name, link in links().items() if link.is_bridge}

    @staticmethod
    def record(path: str, text: str) -> None:
        """Write the facts; readable by all, not executable (facts.d would run it)."""
        write_atomic(path, text, mode=0o644)


@dataclasses.dataclass(frozen=True)
class NodeRequest:
    """What the user asks of a node; raw values, checked by the use case."""

    name: str
    cluster: str
    roles: t.Sequence[str]
    vms: t.Any
    pool: str = "default"
    pool_path: str | None = None
    bridges: t.Sequence[str] = ()
    hypervisors: t.Sequence[str] = ("kvm", "qemu", "lxc")
    memory_reserve: t.Any = "1 GiB"
    vcpu_ratio: t.Any = 4
    pool_reserve: t.Any = None
    proof_timeout: float = 15
    reprove: bool = False
    state: str = "present"
    uri: str = "qemu:///system"
    container_uri: str = "lxc:///system"
    facts_file: str = host_facts.FACTS_FILE


@dataclasses.dataclass
class NodeResult:
    """What was found and done; :meth:`as_dict` is the module's result."""

    attributes: dict[str, t.Any]
    hypervisors: dict[str, dict[str, t.Any]]
    capacity: dict[str, t.Any]
    actions: list[str]
    warnings: list[str]
    diff: list[dict[str, str]]

    def as_dict(self) -> dict[str, t.Any]:
        """The result as keyword arguments for ``exit_json``."""
        result = dataclasses.asdict(self)
        # Ansible wants warnings told, not returned
        del result["warnings"]
        return dict(result, changed=bool(self.actions))


def hidden_values(vms: t.Any) -> set[str]:
    """The secrets in raw VM details, so that a module can keep them out of whatever it says."""
    if isinstance(vms, str):
        try:
            vms = json.loads(vms)
        except ValueError:
            return set()
    return secrets_in(vms)


def prepare_node(request: NodeRequest, *, check_mode: bool, backend: t.Any = None) -> NodeResult:
    """Validate the details of a server, prove and measure it, refuse what it cannot carry, record the rest.

    Nothing is changed before everything is checked. In check mode the proofs run all the same:
    their guests leave nothing behind. What is missing only because the host is not prepared yet is
    a warning there, an error otherwise.

    :raises FootprintError: bad input, a host that cannot carry the ask, libvirt out of reach.
    """
    backend = backend or NodeBackend()
    node = parse_node(request.name, request.cluster, request.roles, request.vms)
    policy = parse_policy(request.memory_reserve, request.vcpu_ratio, request.pool_reserve)
    check_roles(node)
    if request.pool_path is not None and not os.path.isabs(request.pool_path):
        raise InputError(f"{request.pool_path!r} is not an absolute path.", "pool_path", "Write the pool's folder from / on.")

    facts = backend.measure()
    before_text, recorded = backend.read_recorded(request.facts_file)
    if request.state == "checked":
        return _check_only(request, node, HostCapacity(facts, policy), backend)
    is_virt = ROLE_VIRT in node.roles
    state = _HostState.read(request, node, facts, policy, backend, check_mode) if is_virt else _HostState(HostCapacity(facts, policy))
    # what a host without libvirt cannot do yet says nothing of what it will do
    proofs, cached = _proofs(request, node, facts, recorded, backend) if is_virt and state.prepared else ({}, set())
    warnings = list(state.warnings)
    if is_virt:
        have = backend.bridges() | (set(request.bridges) if check_mode else set())
        error = _missing_bridges(node, request.bridges, have) or (_missing_hypervisors(node, proofs) if proofs else None)
        if error:
            raise error
    refuse_shortage(node.name, shortages(node.vms, state.capacity, request.pool))
    kvm = proofs.get("kvm")
    if kvm and not kvm.usable and backend.has_kvm_device():
        warnings.append(
            f"/dev/kvm exists on {node.name} and runs no guest ({kvm.reason}). libvirt examines QEMU anew at every define "
            "as long as it sees that device, which takes tens of seconds each time."
        )

    after = {
        "format": _FORMAT,
        "attributes": node.as_dict(),
        "hypervisors": {kind: proof.as_dict() for kind, proof in sorted(proofs.items())},
        "capacity": state.capacity.lasting(),
    }
    after_text = json.dumps(after, indent=2, sort_keys=True, ensure_ascii=False, default=str) + "\n"
    actions, diff = list(state.actions), list(state.diff)
    if state.actions and not check_mode:
        with backend.libvirt(request.uri) as host:
            host.make_pool(request.pool, request.pool_path)
    if after_text != before_text:
        actions.append("record")
        diff.append({"before_header": request.facts_file, "after_header": request.facts_file, "before": before_text, "after": after_text})
        if not check_mode:
            backend.record(request.facts_file, after_text)
    return NodeResult(
        attributes=node.as_dict(),
        hypervisors={kind: dict(proof.as_dict(), cached=kind in cached) for kind, proof in sorted(proofs.items())},
        capacity=state.capacity.as_dict(),
        actions=actions,
        warnings=warnings,
        diff=diff,
    )


def _check_only(request: NodeRequest, node: NodeAttributes, capacity: HostCapacity, backend: t.Any) -> NodeResult:
    """What can be told of a host that is not prepared yet: memory, CPUs, and bridges that are or will be there."""
    error = _missing_bridges(node, (), backend.bridges() | set(request.bridges))
    if error:
        raise error
    refuse_shortage(node.name, shortages(node.vms, capacity, request.pool))
    return NodeResult(node.as_dict(), {}, capacity.as_dict(), [], [], [])


@dataclasses.dataclass(frozen=True)
class _HostState:
    """What libvirt says, and what is to be done about the pool."""

    capacity: HostCapacity
    actions: tuple[str, ...] = ()
    diff: tuple[dict[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    prepared: bool = True

    @classmethod
    def read(cls, request: NodeRequest, node: NodeAttributes, facts: HostFacts, policy: CapacityPolicy, backend: t.Any, check_mode: bool) -> _HostState:
        wanted = {request.pool} | {disk.pool for vm in node.vms for disk in vm.disks if disk.pool}
        known = {vm.uuid for vm in node.vms}
        try:
            with backend.libvirt(request.uri) as host:
                found = {name: host.pool(name) for name in sorted(wanted)}
                memory, vcpus = host.load_of_others(known)
        except BackendError as error:
            if not check_mode:
                raise
            found, memory, vcpus = dict.fromkeys(sorted(wanted)), 0, 0
            prepared, warnings = False, [f"{error.message} Check mode goes on as if the host had been prepared and ran no other guests, and proves nothing."]
        else:
            prepared, warnings = True, []
            try:
                with backend.libvirt(request.container_uri) as host:
                    more = host.load_of_others(known)
                    memory, vcpus = memory + more[0], vcpus + more[1]
            except BackendError:
                pass  # no driver for containers: none run
        pools: dict[str, PoolCapacity] = {}
        actions: list[str] = []
        diff: list[dict[str, str]] = []
        for name, state in found.items():
            path = request.pool_path if name == request.pool else None
            pool = state[0] if state else None
            if pool and path and pool.path and os.path.normpath(pool.path) != os.path.normpath(path):
                raise RefusedError(
                    f"the pool {name} is at {pool.path}, not at {path}.",
                    "pool_path",
                    "Leave pool_path out to use the pool as it is, or give the new pool another name.",
                )
            if pool is None and path is None:
                if prepared and any((disk.pool or request.pool) == name for vm in node.vms for disk in vm.disks):
                    raise InputError(f"libvirt has no storage pool {name}.", "pool", "Set pool_path to have it made, or name an existing pool.")
                continue
            is_active, is_autostart = (state[1], state[2]) if state else (False, False)
            place = path or (pool.path if pool else None)
            if path and not (is_active and is_autostart):
                actions.append("define pool" if pool is None else "start pool")
                before = "" if pool is None else _pool_text(name, place, is_active, is_autostart)
                header = f"pool {name}"
                diff.append({"before_header": header, "after_header": header, "before": before, "after": _pool_text(name, place, True, True)})
            if not is_active and place:
                total, free = backend.free_bytes(place)
                pool = PoolCapacity(name, place, total, free, {})
            if pool:
                pools[name] = pool
        return cls(HostCapacity(facts, policy, memory, vcpus, pools), tuple(actions), tuple(diff), tuple(warnings), prepared)


def _pool_text(name: str, path: str | None, active: bool, autostart: bool) -> str:
    return f"name: {name}\npath: {path}\nactive: {str(active).lower()}\nautostart: {str(autostart).lower()}\n"


def _proofs(
    request: NodeRequest, node: NodeAttributes, facts: HostFacts, recorded: t.Mapping[str, t.Any], backend: t.Any
) -> tuple[dict[str, HypervisorProof], set[str]]:
    """The proof of every type asked for by the caller or by a VM, from the record where it still holds."""
    kinds = set(request.hypervisors)
    for vm in node.vms:
        kinds.update(("kvm", "qemu") if vm.hypervisor == "auto" else (vm.hypervisor,))
    proofs: dict[str, HypervisorProof] = {}
    cached: set[str] = set()
    known = recorded.get("hypervisors")
    for kind in sorted(kinds):
        old = HypervisorProof.from_dict(kind, known.get(kind)) if isinstance(known, dict) else None
        holds = old is not None and old.key == backend.proof_key(kind, facts)
        # that a container did not run may be mended by a service started since; asking again is quick
        if holds and not request.reprove and (old.usable or kind != "lxc"):
            proofs[kind] = old
            cached.add(kind)
            continue
        new = backend.prove(kind, facts, request.proof_timeout, request.container_uri)
        same = holds and (old.usable, old.reason) == (new.usable, new.reason)
        # the same outcome keeps its old figure: the facts must not change by the time a proof takes
        proofs[kind] = old if same else new
    return proofs, cached


def _missing_bridges(node: NodeAttributes, wanted: t.Sequence[str], have: set[str]) -> FootprintError | None:
    asked = [(name, f"bridges[{index}]") for index, name in enumerate(wanted)]
    asked += [(nic.bridge, f"{vm.path}.nics[{index}].bridge") for vm in node.vms for index, nic in enumerate(vm.nics) if nic.bridge]
    for name, path in asked:
        if name not in have:
            mend = "Make it with virt_host_bridges of the role reduced.footprint.virt_host, or name another bridge."
            return RefusedError(f"host {node.name} has no bridge {name} (it has: {', '.join(sorted(have)) or 'none'}).", path, mend)
    return None


def _missing_hypervisors(node: NodeAttributes, proofs: t.Mapping[str, HypervisorProof]) -> FootprintError | None:
    for vm in node.vms:
        able = ("kvm", "qemu") if vm.hypervisor == "auto" else (vm.hypervisor,)
        if not any(proofs[kind].usable for kind in able):
            why = "; ".join(f"{kind}: {proofs[kind].reason}" for kind in able)
            usable = [kind for kind, proof in proofs.items() if proof.usable]
            mend = f"Set hypervisor to one that is usable here ({', '.join(usable)})." if usable else "Mend the host; nothing runs guests here."
            return RefusedError(f"host {node.name} cannot run guests of type {vm.hypervisor}: {why}.", f"{vm.path}.hypervisor", mend)
    return None
