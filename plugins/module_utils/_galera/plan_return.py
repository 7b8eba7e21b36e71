# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide without I/O what the guard of a Galera member does when the Primary Component is lost.

Uses the standard library only, nothing of this collection: the role installs this file on the members.
"""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class View:
    """Galera's saved view of the last Primary Component that a member was in (``gvwstate.dat`` in the data directory).

    :arg id: ``view_id`` of the file, equal for all members of that component.
    :arg seq: its number, which grows with each view.
    :arg members: node ids; that of a witness is among them.
    """

    id: str
    seq: int
    members: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Report:
    """What the guard of one member reports about its own server at one moment.

    :arg state: ``running`` answers SQL; ``starting`` a process exists that does not answer SQL yet; ``stopped``.
    :arg primary: in a Primary Component.
    :arg ready: serves clients (Synced).
    :arg alone: Primary, and no other member with data is in the component.
    :arg uuid: cluster that the data belongs to, ``None`` if it has no data of a cluster.
    :arg position: last transaction of this server, ``None`` if it is unknown or still changing.
    :arg joined: was in a Primary Component since its process was started, so its state is in memory.
    :arg isolated: ``gmcast.isolate`` is set.
    :arg caught_up: id of the last view in which the guard saw it Synced with an empty receive queue; a durable record of the guard.
    :arg node: its own node id in ``view``.
    :arg names: node id → name, as last seen in ``mysql.wsrep_cluster_members``; a durable record of the guard.
    :arg failed: why its guard gave up.
    """

    name: str
    state: str
    primary: bool = False
    ready: bool = False
    alone: bool = False
    uuid: str | None = None
    position: int | None = None
    joined: bool = False
    isolated: bool = False
    view: View | None = None
    caught_up: str | None = None
    node: str | None = None
    names: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    failed: str | None = None


@dataclasses.dataclass(frozen=True)
class Step:
    """The next action of a guard.

    :arg action: ``none``, ``isolate``, ``connect`` (stop isolating, or start), ``restart`` (drops what is in memory), ``form`` (a Primary Component
        alone, with the own data), ``wait`` or ``refuse``.
    :arg waits_for: members without which nothing can be decided.
    """

    action: str
    reason: str
    waits_for: tuple[str, ...] = ()


def step(me: str, reports: t.Mapping[str, Report | None], witnesses: int, addresses: int | None = None) -> Step:
    """Return the next action of the guard of ``me``.

    :arg reports: every configured member with data, ``me`` among them; ``None`` for one that is silent or whose answer is too old.
    :arg witnesses: number of configured witnesses.
    :arg addresses: members and witnesses in the running server's ``wsrep_cluster_address``; if it differs, the cluster is being resized.
    """
    raise NotImplementedError
