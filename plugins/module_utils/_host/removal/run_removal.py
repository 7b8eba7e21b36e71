# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: remove a node, which becomes an ordinary server again.

Everything is read and decided before the first change. The record is removed last, so the next run can complete
an interrupted one: it finds the remaining work in the record, the metadata of the VMs and the UUIDs of pools and
networks.
"""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node import io_facts
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_VIRT, parse_node
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import POOL, FoundNetwork, made_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_parts import FoundPool, network_text, pool_text
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_guests import Guests, Uses, read_guests
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_node import NodeBackend
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal import plan_removal
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.model_removal import Guest, parse_quorums
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.plan_removal import RemovalPlan, RemovalPolicy
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_journal as migrations
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ARRIVING, MOVING

NONE, DISKS = "none", "disks"
_UNFINISHED = ("new", "running", "stopped")


class RemovalBackend(NodeBackend):
    """Access to the host; replaced in tests."""

    define = staticmethod(define_vms)

    @staticmethod
    def migrations() -> dict[str, str]:
        """Return name → state of the migrations to this host."""
        journals = {name: migrations.JournalStore(name).read() for name in migrations.names()}
        return {name: journal.state for name, journal in journals.items() if journal}

    @staticmethod
    def forget(path: str) -> None:
        """Remove the record."""
        os.unlink(path)


class RemovalRequest(t.NamedTuple):
    """The request; see ``virt_node`` for each value."""

    name: str
    cluster: str
    roles: t.Sequence[str] = ()
    vms: t.Any = ()
    confirm: str | None = None
    erase: str = NONE
    remove_vms: bool = False
    break_quorum: bool = False
    leave_instances: bool = False
    quorums: t.Any = None
    quorum_roles: t.Sequence[str] = ("controller",)
    shutdown_timeout: float = 120
    force: bool = False
    keep_shared: bool = False
    uri: str = "qemu:///system"
    container_uri: str = "lxc:///system"
    facts_file: str = io_facts.FACTS_FILE


@dataclasses.dataclass
class RemovalResult:
    """The result of the use case."""

    vms: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    quorums: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    lines: list[str] = dataclasses.field(default_factory=list)
    actions: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    diff: list[dict[str, str]] = dataclasses.field(default_factory=list)
    refusal: RefusedError | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """Return the result of the module, with a :attr:`refusal` its error."""
        result: dict[str, t.Any] = {"removal": {"vms": self.vms, "quorums": self.quorums, "lines": self.lines}, "warnings": self.warnings}
        if self.refusal is not None:
            return {**result, **self.refusal.as_result()}
        return {**result, "changed": bool(self.actions), "actions": self.actions, "diff": self.diff}


def remove_node(request: RemovalRequest, *, check_mode: bool, backend: t.Any = None) -> RemovalResult:
    """Remove the node; with ``remove_vms`` also its VMs, with ``erase: disks`` also their disks.

    A refusal is returned in the result, together with the VMs of the node.
    """
    backend = backend or RemovalBackend()
    node = parse_node(request.name, request.cluster, request.roles, request.vms)
    quorums = parse_quorums(request.quorums)
    policy = RemovalPolicy(
        node.cluster,
        request.remove_vms,
        request.break_quorum,
        tuple(parse_name(role, f"quorum_roles[{i}]") for i, role in enumerate(request.quorum_roles)),
        request.leave_instances,
    )
    if request.erase == DISKS and not request.remove_vms:
        raise InputError("disks requires remove_vms.", "erase", "Set remove_vms: true, or omit erase.")
    text, recorded = backend.read_recorded(request.facts_file)
    _check_name(node, recorded)
    removal = _Removal(request, policy, backend, check_mode)
    there = removal.read(_details(node, recorded, request.cluster))
    if not there and ROLE_VIRT in (_recorded(recorded, "roles") or ()):
        raise BackendError(removal.unreachable, hint="Start libvirt on the host; without it its VMs cannot be listed.")
    plan = plan_removal.plan_removal(node.name, [guest for guest, unused in removal.guests], quorums, policy)
    others = sorted({guest.cluster for guest, unused in removal.guests if guest.cluster} | {str(_recorded(recorded, "cluster") or "")} - {""})
    others = [name for name in others if name != node.cluster] if request.keep_shared else []
    removal.decide(plan, text, others)
    if removal.result.actions:
        removal.result.refusal = plan_removal.refusal(node.name, plan, policy, request.confirm, removal.busy() + removal.refused)
        if removal.result.refusal is not None:
            # the warnings describe actions that are not performed
            removal.result.warnings = []
        if not check_mode and removal.result.refusal is None:
            removal.do(plan, bool(text) and not others)
    return removal.result


def _check_name(node: t.Any, recorded: t.Mapping[str, t.Any]) -> None:
    """Check that the machine is the node, not another one at its address."""
    name = str(_recorded(recorded, "name") or "")
    if name not in ("", node.name) and _recorded(recorded, "cluster") == node.cluster:
        raise RefusedError(
            f"the machine that answers as {node.name} is recorded as the node {name}. Nothing was changed.",
            "name",
            "Correct the address of the node. If the server was renamed, run provision_virt first.",
        )


def _details(node: t.Any, recorded: t.Mapping[str, t.Any], cluster: str) -> dict[tuple[str, str], dict[str, t.Any]]:
    """Return (cluster, id) → roles and protection of each VM, from the recorded and the current details."""
    found: dict[tuple[str, str], dict[str, t.Any]] = {}
    owner = str(_recorded(recorded, "cluster") or cluster)
    for vm in _recorded(recorded, "vms") or ():
        if isinstance(vm, dict) and vm.get("id") is not None:
            roles = vm.get("roles") or ()
            found[owner, str(vm["id"])] = {"roles": [roles] if isinstance(roles, str) else list(roles), "protected": vm.get("protected") is True}
    for vm in node.vms:
        found[cluster, vm.id] = {"roles": list(vm.roles), "protected": vm.protected}
    return found


def _recorded(recorded: t.Mapping[str, t.Any], key: str) -> t.Any:
    attributes = recorded.get("attributes")
    return attributes.get(key) if isinstance(attributes, dict) else None


class _Removal:
    """The state of one call: the VMs, pools and networks of the node, and the result."""

    def __init__(self, request: RemovalRequest, policy: RemovalPolicy, backend: t.Any, check_mode: bool) -> None:
        self.request, self.policy, self.backend, self.check_mode = request, policy, backend, check_mode
        self.guests: Guests = []
        self.pools: list[FoundPool] = []
        self.networks: list[FoundNetwork] = []
        self.quiet: list[Guest] = []
        self.refused: list[str] = []
        self.unreachable = ""
        self.result = RemovalResult()

    def read(self, details: t.Mapping[tuple[str, str], t.Mapping[str, t.Any]]) -> bool:
        """Read the state from libvirt; returns whether it answered."""
        try:
            with self.backend.libvirt(self.request.uri) as host:
                self.pools, self.networks = host.pools(), host.networks()
            self.guests = read_guests(
                (self.request.uri, self.request.container_uri),
                {key: each["roles"] for key, each in details.items()},
                self.backend,
                {key for key, each in details.items() if each["protected"]},
            )
        except BackendError as error:
            self.unreachable = error.message
            return False
        return True

    def busy(self) -> list[str]:
        """Return unfinished migrations and moves to this node."""
        found = [f"{name} ({state})" for name, state in sorted(self.backend.migrations().items()) if state in _UNFINISHED]
        return found + [f"the move of {record.name} ({record.state})" for record in self.backend.moved().values() if record.state in (MOVING, ARRIVING)]

    def decide(self, plan: RemovalPlan, record: str, others: t.Sequence[str]) -> None:
        """Decide all actions in order, with their warnings and diffs.

        :arg others: other clusters that use the server, which remains their node.
        """
        result = self.result
        result.vms = [{**guest.as_dict(), "quorums": plan.quorums_of(guest), "fate": fate} for guest, fate in plan.fates]
        result.quorums = [{**loss._asdict(), "members": list(loss.members), "kept": loss.kept} for loss in plan.losses]
        result.lines = plan_removal.listing(plan)
        # check mode first, so that a refusal comes before any change
        for done in self._define(plan, check_mode=True):
            result.actions += [f"{action} {vm.name}" if " " not in action else f"{action} of {vm.name}" for vm in done.vms for action in vm.actions]
            self.refused += [f"{vm.name}: {vm.error}" for vm in done.vms if vm.error]
            result.warnings += done.warnings
            result.diff += done.diff
        self.quiet = [guest for guest in plan.with_fate(plan_removal.LEFT) if guest.autostart and guest.persistent]
        for guest in self.quiet:
            result.actions.append(f"autostart_off {guest.name}")
            result.diff.append(_change(f"VM {guest.name}", "autostart: true\n", "autostart: false\n"))
        left = [guest.name for guest in plan.with_fate(plan_removal.LEFT) if guest.active]
        if left:
            result.warnings.append(f"still running, because remove_vms is not set: {', '.join(left)}; their autostart is disabled")
        if others:
            result.warnings.append(f"the server remains a virt host with its pools and networks: it is used by {', '.join(others)}")
            self.networks, self.pools = [], []
            return
        gone = {guest.uuid for guest in plan.with_fate(plan_removal.REMOVED)}
        uses = [(guest.name, use) for guest, use in self.guests if guest.uuid not in gone]
        self.networks = [network for network in self.networks if network.ours and not self._held("network", network.name, uses)]
        self.pools = [pool for pool in self.pools if pool[0].uuid == made_uuid(POOL, pool[0].name) and not self._held("pool", pool[0], uses)]
        for network in self.networks:
            result.actions.append(f"remove network {network.name}")
            result.diff.append(_change(f"network {network.name}", network_text(network.bridge, network.active, network.autostart), ""))
        for pool, active, autostart in self.pools:
            result.actions.append(f"remove pool {pool.name}")
            result.diff.append(_change(f"pool {pool.name}", pool_text(pool.type, pool.path, pool.source, active, autostart), ""))
            if pool.volumes and self.request.erase == NONE:
                result.warnings.append(f"the {len(pool.volumes)} volumes of the pool {pool.name} are kept in {pool.path}")
        if record:
            result.actions.append("remove record")
            result.diff.append(_change(self.request.facts_file, record, ""))

    def _held(self, kind: str, what: t.Any, uses: t.Sequence[tuple[str, Uses]]) -> bool:
        """Return whether a pool or network is kept because a remaining VM needs it."""
        users = [name for name, use in uses if (use.pool(what) if kind == "pool" else what in use.networks)]
        if users:
            self.result.warnings.append(f"the {kind} {what.name if kind == 'pool' else what} is kept: it is needed by {', '.join(sorted(users))}")
        return bool(users)

    def _define(self, plan: RemovalPlan, *, check_mode: bool) -> t.Iterator[t.Any]:
        """Remove the VMs of each driver with the use case of ``vm_define``; an interrupted removal is completed by the next run."""
        going = plan.with_fate(plan_removal.REMOVED)
        for uri in sorted({guest.uri for guest in going}):
            yield self.backend.define(
                DefineRequest(
                    cluster=self.policy.cluster,
                    vms=[{"id": guest.id} for guest in going if guest.uri == uri],
                    state="absent",
                    uri=uri,
                    remove_disks=self.request.erase == DISKS,
                    force=self.request.force,
                    shutdown_timeout=self.request.shutdown_timeout,
                ),
                check_mode=check_mode,
            )

    def do(self, plan: RemovalPlan, recorded: bool) -> None:
        """Execute the removal: VMs, networks, pools, and the record last.

        :raises BackendError: a VM cannot be removed; the next run completes the removal.
        """
        for done in self._define(plan, check_mode=False):
            failed = [f"{vm.name}: {vm.error}" for vm in done.vms if vm.error]
            if failed:
                raise BackendError(f"{len(failed)} of {len(done.vms)} VMs could not be removed. {'; '.join(failed)}", hint="Fix the problems, then run again.")
        for uri in sorted({guest.uri for guest in self.quiet}):
            with self.backend.domains(uri) as host:
                for guest in self.quiet:
                    if guest.uri == uri:
                        host.set_autostart(guest.uuid, False)
        if self.networks or self.pools:
            with self.backend.libvirt(self.request.uri) as host:
                for network in self.networks:
                    host.remove_network(network.name, network.uuid)
                for pool, unused, unused_too in self.pools:
                    host.remove_pool(pool.name, pool.uuid)
        if recorded:
            self.backend.forget(self.request.facts_file)


def _change(header: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": header, "after_header": header, "before": before, "after": after}
