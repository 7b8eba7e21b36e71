# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the removal of a node touches, what the cluster loses by it, and when it is refused."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.model_removal import Guest, Member

# what becomes of a VM
REMOVED, LEFT, PROTECTED, FOREIGN = "removed", "left", "protected", "foreign"


@dataclasses.dataclass(frozen=True)
class QuorumLoss:
    """What a quorum loses: ``members`` go, ``left`` others take part now, ``needed`` have to; ``known`` says whether anybody told the others."""

    quorum: str
    members: tuple[str, ...]
    left: int
    needed: int
    size: int
    known: bool = True

    @property
    def kept(self) -> bool:
        """Whether a majority goes on."""
        return self.known and self.left >= self.needed

    def sentence(self) -> str:
        """The loss in plain words."""
        gone = f"{self.quorum} loses {' and '.join(self.members)}"
        if not self.known:
            return f"{gone}, and nobody told which other members there are"
        end = "the majority is kept" if self.kept else "the majority is lost and its services stop"
        return f"{gone}: {self.left} of {self.size} members go on, {self.needed} are needed: {end}"


@dataclasses.dataclass(frozen=True)
class RemovalPlan:
    """What becomes of each VM, and what the cluster loses; both whether or not it is done."""

    fates: tuple[tuple[Guest, str], ...]
    losses: tuple[QuorumLoss, ...]
    services: tuple[str, ...]

    def with_fate(self, fate: str) -> tuple[Guest, ...]:
        """The VMs that something becomes of."""
        return tuple(guest for guest, each in self.fates if each == fate)

    def quorums_of(self, guest: Guest) -> list[str]:
        """The quorums a VM is a member of."""
        return [loss.quorum for loss in self.losses if guest.name in loss.members]


@dataclasses.dataclass(frozen=True)
class RemovalPolicy:
    """What the operator allows."""

    cluster: str
    remove_vms: bool = False
    break_quorum: bool = False
    quorum_roles: tuple[str, ...] = ("controller",)


def plan_removal(node: str, guests: t.Sequence[Guest], quorums: t.Mapping[str, t.Sequence[Member]], policy: RemovalPolicy) -> RemovalPlan:
    """What becomes of each VM, and what that costs.

    A VM counts for the losses where it is ours and not protected: with or without ``remove_vms``
    the list tells what the cluster would lose, and only ``remove_vms`` makes it lose that.
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
    """The VMs of the node, one line each, and what the cluster loses."""
    lines = []
    for guest, fate in plan.fates:
        marks = [guest.owner, guest.state]
        marks += ["protected"] if guest.protected else []
        marks += [f"roles {', '.join(guest.roles)}"] if guest.roles else []
        marks += [f"member of {', '.join(plan.quorums_of(guest))}"] if plan.quorums_of(guest) else []
        marks += [f"old copy of what runs on {guest.moved_to}"] if guest.moved_to else []
        lines.append(f"{guest.name}: {'; '.join(marks)}; {_FATES[fate]}")
    lines += [loss.sentence() for loss in plan.losses]
    return lines


_FATES = {
    REMOVED: "is shut down and undefined",
    LEFT: "stays and no longer starts with the host",
    PROTECTED: "is left as it is",
    FOREIGN: "is left as it is",
}


def refusal(node: str, plan: RemovalPlan, policy: RemovalPolicy, confirm: str | None, busy: t.Sequence[str]) -> RefusedError | None:
    """Why the removal is refused: not confirmed, or it would cost more than a node; nothing where it may go on.

    :arg busy: what has not ended on the node: migrations, moves, VMs that cannot be removed.
    """
    told = "; ".join(listing(plan)) or "No VM stands on it"
    if confirm is None:
        return RefusedError(f"removing the node {node} is not confirmed. {told}.", "confirm", f"Look at the list, then give confirm: {node}.")
    if confirm != node:
        return RefusedError(f"confirms {confirm!r}, and this is the node {node}. {told}.", "confirm", f"Give confirm: {node} if it is this one.")
    old = [guest for guest, unused in plan.fates if guest.moved_to]
    if old:
        return RefusedError(
            f"{node} holds the only way back of a move: {', '.join(f'{guest.name} (now on {guest.moved_to})' for guest in old)}.",
            "state",
            "Confirm or return the move first (vm_move state: confirmed or returned).",
        )
    if busy:
        return RefusedError(f"something on {node} has not ended: {', '.join(busy)}.", "state", "Let it end, or take it back, then ask again.")
    broken = [loss for loss in plan.losses if not loss.kept]
    if broken and policy.remove_vms and not policy.break_quorum:
        unknown = any(not loss.known for loss in broken)
        return RefusedError(
            f"it would break a quorum: {'; '.join(loss.sentence() for loss in broken)}.",
            "break_quorum",
            f"Move the members to other servers first{', or tell the members in quorums' if unknown else ''}; break_quorum: true does it all the same.",
        )
    return None


def quorums_from_variables(
    hostvars: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Sequence[str]], names: t.Sequence[str]
) -> dict[str, list[dict[str, t.Any]]]:
    """The members of each quorum for the option ``quorums``, from the inventory and what was found.

    :arg hostvars: host name → variables, with ``vm_host`` (the server a VM stands on) and, in ``removal_member``, the result of
        ``galera_info``; a member that does not answer takes no part, one without a database takes part as long as it answers.
    :arg names: groups of the inventory whose hosts form a quorum.
    """
    return {name: [_member(host, hostvars[host]) for host in groups[name]] for name in names if groups.get(name)}


def _member(name: str, variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    found = (variables.get("removal_member") or {}).get("galera") or {}
    return {"name": name, "server": str(variables.get("vm_host") or name), "alive": bool(found.get("ready") or found.get("installed") is False)}
