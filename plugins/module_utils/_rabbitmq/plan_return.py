# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide without I/O which member of a stopped RabbitMQ cluster starts first: one that served last.

With Mnesia the first member that starts gives its queues, bindings, users and policies to all others, also if it was disconnected while the others
changed them. A member without a majority pauses, so what counts is the last group of members that had a majority. Each member keeps the groups that
it was in; a group counts if all of its members that answer were in it. No clock is needed: two groups with a majority have a common member, which knows
their order.

Uses the standard library only, nothing of this collection: the role installs this file on the members, where the guard decides with the same code.
"""

from __future__ import annotations

import typing as t

Group = t.Tuple[str, ...]


class Saved(t.NamedTuple):
    """What a member has saved about its cluster.

    :arg known: nodes of its cluster, itself included.
    :arg seen: nodes that it saw running last, itself included.
    :arg served: groups of nodes with a majority that it was in since all nodes were running, the last one at the end.
    """

    known: Group
    seen: Group
    served: tuple[Group, ...] = ()


class First(t.NamedTuple):
    """The member that starts first, or why there is none.

    :arg node: its node; ``None`` if this cannot be decided.
    :arg missing: nodes that do not answer and may have served last.
    :arg group: the last group with a majority.
    """

    node: str | None
    missing: Group = ()
    group: Group = ()


def has_majority(saved: Saved) -> bool:
    """Return whether the nodes that a member saw running last are a majority."""
    return 2 * len(set(saved.seen) & set(saved.known)) > len(saved.known)


def add_group(saved: Saved) -> Saved:
    """Add the nodes that a member saw running last to its groups."""
    group = tuple(sorted(set(saved.seen) & set(saved.known)))
    if not has_majority(saved):
        return saved
    # when all are running, they have the same state, and what was before does not matter
    before = () if len(group) == len(saved.known) else tuple(one for one in saved.served if one != group)
    return saved._replace(served=(*before, group))


def first_member(members: t.Mapping[str, Saved | None], witnesses: t.Collection[str] = (), undecided: t.Collection[str] = ()) -> First:
    """Return the member that starts first while no member is running.

    :arg members: by node; ``None`` for a node that does not answer.
    :arg witnesses: nodes without clients, which start first only if no other member is as good.
    :arg undecided: nodes that do not know the outcome of a transaction, which another member of the last group may know.
    """
    # one that has lost its data is in no cluster
    there = {node: add_group(saved) for node, saved in members.items() if saved and len(saved.known) > 1}
    there = {node: saved for node, saved in there.items() if saved.served}
    known = {*members, *(node for saved in there.values() for node in saved.known)}
    missing = tuple(sorted(known - set(there)))
    # any later group would have at least one of the members that answer
    if 2 * len(there) <= len(known):
        return First(None, missing)
    groups = {group for saved in there.values() for group in saved.served}
    agreed = {group for group in groups if all(group in there[node].served for node in group if node in there)}
    last = [group for group in agreed if not any(_is_later(other, group, there) for other in agreed)]
    if len(last) != 1:
        return First(None, missing)

    def rank(node: str) -> tuple[bool, int, int, bool, str]:
        # one that was in more of the groups, then one that ran for longer than the others
        return (node in undecided, -len(agreed & set(there[node].served)), len(there[node].seen), node in witnesses, node)

    return First(min((node for node in last[0] if node in there), key=rank), missing, last[0])


def _is_later(one: Group, other: Group, members: t.Mapping[str, Saved]) -> bool:
    orders = [saved.served for saved in members.values() if one in saved.served and other in saved.served]
    return any(order.index(one) > order.index(other) for order in orders)
