# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the removal of a node: what happens to its VMs, the impact on the cluster, and reasons for a refusal."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.model_removal import Guest, Member

# what happens to a VM
REMOVED, LEFT, PROTECTED, FOREIGN = "removed", "left", "protected", "foreign"


class QuorumLoss(t.NamedTuple):
    """The impact on a quorum: ``members`` are lost, ``left`` others are healthy, ``needed`` are required; ``known``: the members were given."""

    quorum: str
    members: tuple[str, ...]
    left: int
    needed: int
    size: int
    known: bool = True

    @property
    def kept(self) -> bool:
        """Whether a majority remains."""
        return self.known and self.left >= self.needed

    def sentence(self) -> str:
        """Return the impact as text."""
        gone = f"{self.quorum} loses {' and '.join(self.members)}"
        if not self.known:
            return f"{gone}, and its other members are unknown"
        end = "the majority is kept" if self.kept else "the majority is lost and its services stop"
        return f"{gone}: {self.left} of {self.size} members remain, {self.needed} are required: {end}"


class RemovalPlan(t.NamedTuple):
    """What happens to each VM, and the impact on the cluster, whether or not the plan is executed."""

    fates: tuple[tuple[Guest, str], ...]
    losses: tuple[QuorumLoss, ...]
    services: tuple[str, ...]

    def with_fate(self, fate: str) -> tuple[Guest, ...]:
        """Return the VMs with this fate."""
        return tuple(guest for guest, each in self.fates if each == fate)

    def quorums_of(self, guest: Guest) -> list[str]:
        """Return the quorums of which a VM is a member."""
        return [loss.quorum for loss in self.losses if guest.name in loss.members]


class RemovalPolicy(t.NamedTuple):
    """The options of the removal."""

    cluster: str
    remove_vms: bool = False
    break_quorum: bool = False
    quorum_roles: tuple[str, ...] = ("controller",)
    leave_instances: bool = False


def plan_removal(node: str, guests: t.Sequence[Guest], quorums: t.Mapping[str, t.Sequence[Member]], policy: RemovalPolicy) -> RemovalPlan:
    """Plan what happens to each VM, and the impact on the cluster.

    All unprotected VMs of the cluster count for the impact: the list shows the possible loss
    with and without ``remove_vms``, but only ``remove_vms`` causes it.
    """
    fates = tuple((guest, _fate(guest, policy)) for guest in sorted(guests, key=lambda one: (one.name, one.uri)))
    going = [guest for guest, fate in fates if fate in (REMOVED, LEFT)]
    losses = []
    for name in sorted({*quorums, *(role for guest in going for role in guest.roles if role in policy.quorum_roles)}):
        members = quorums.get(name)
        here = {guest.name for guest in going if name in guest.roles}
        if members is not None:
            here |= {guest.name for guest in going for member in members if member.server == node and member.name in (guest.name, guest.id)}
        if not here:
            continue
        if members is None:
            losses.append(QuorumLoss(name, tuple(sorted(here)), 0, 0, len(here), False))
            continue
        gone = {guest.name for guest in going} | {guest.id for guest in going}
        stays = [member for member in members if not (member.server == node and member.name in gone)]
        size = max(len(members), len(stays) + len(here))
        losses.append(QuorumLoss(name, tuple(sorted(here)), sum(1 for member in stays if member.alive), size // 2 + 1, size))
    services = {role for guest in going if guest.active for role in guest.roles}
    return RemovalPlan(fates, tuple(losses), tuple(sorted(services)))


def _fate(guest: Guest, policy: RemovalPolicy) -> str:
    if guest.cluster != policy.cluster:
        return FOREIGN
    if guest.protected:
        return PROTECTED
    return REMOVED if policy.remove_vms else LEFT


def listing(plan: RemovalPlan) -> list[str]:
    """Return one line for each VM of the node, and for the impact on each quorum."""
    lines = []
    for guest, fate in plan.fates:
        marks = [guest.owner, guest.state]
        marks += ["protected"] if guest.protected else []
        marks += [f"roles {', '.join(guest.roles)}"] if guest.roles else []
        marks += [f"member of {', '.join(plan.quorums_of(guest))}"] if plan.quorums_of(guest) else []
        marks += [f"old copy of the VM on {guest.moved_to}"] if guest.moved_to else []
        lines.append(f"{guest.name}: {'; '.join(marks)}; {_FATES[fate]}")
    lines += [loss.sentence() for loss in plan.losses]
    return lines


_FATES = {
    REMOVED: "is shut down and undefined",
    LEFT: "stays defined, its autostart is disabled",
    PROTECTED: "is not changed",
    FOREIGN: "is not changed",
}


def refusal(node: str, plan: RemovalPlan, policy: RemovalPolicy, confirm: str | None, busy: t.Sequence[str]) -> RefusedError | None:
    """Return why the removal is refused, ``None`` if it is allowed.

    :arg busy: unfinished migrations and moves, and VMs that cannot be removed.
    """
    listed = "; ".join(listing(plan)) or "It has no VMs"
    if confirm is None:
        return RefusedError(f"the removal of the node {node} is not confirmed. {listed}.", "confirm", f"Check the list, then set confirm: {node}.")
    if confirm != node:
        return RefusedError(f"expected {node}, got {confirm!r}. {listed}.", "confirm", f"Set confirm: {node} to remove this node.")
    old = [guest for guest, unused in plan.fates if guest.moved_to]
    if old:
        return RefusedError(
            f"{node} has the old copy of an unconfirmed move: {', '.join(f'{guest.name} (now on {guest.moved_to})' for guest in old)}.",
            "state",
            "Confirm or return the move first (vm_move state: confirmed or returned).",
        )
    if busy:
        return RefusedError(f"unfinished operations on {node}: {', '.join(busy)}.", "state", "Complete or roll them back, then run again.")
    instances = [f"{guest.instance} ({guest.name}, {guest.state})" for guest, unused in plan.fates if guest.instance]
    if instances and not policy.leave_instances:
        return RefusedError(
            f"{node} has instances of the cloud: {'; '.join(instances)}.",
            "leave_instances",
            f"Disable its compute service (openstack compute service set --disable {node} nova-compute) and migrate or delete them, or set "
            "leave_instances: true to leave them as they are.",
        )
    broken = [loss for loss in plan.losses if not loss.kept]
    if broken and policy.remove_vms and not policy.break_quorum:
        unknown = any(not loss.known for loss in broken)
        return RefusedError(
            f"the removal would break a quorum: {'; '.join(loss.sentence() for loss in broken)}.",
            "break_quorum",
            f"Move the members to other servers first{', list all members in quorums' if unknown else ''}, or set break_quorum: true.",
        )
    return None
