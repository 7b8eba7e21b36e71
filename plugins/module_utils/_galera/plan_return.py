# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide without I/O what the guard of a Galera member does when the Primary Component is lost.

Uses the standard library only, nothing of this collection: the role installs this file on the members.

The one question is whose data counts, and Galera does not ask it: it prefers a member whose server was never restarted to one with newer data on
its disk. So a member that loses the Primary Component isolates itself, and the member with the newest data forms the next one, alone; the others
connect afterwards. Each guard decides for itself from reports that may be seconds old, so it uses only what cannot change while no member is Primary:
saved views, positions that are no longer changing, and names.

Two conditions outside this file belong to it: a restarted server must not restore its saved view (``gvwstate.dat`` is renamed before it is started), otherwise
Galera forms a component before the guards were asked; and a guard connects its server after it has formed a component, never before.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

#: Name of an arbitrator in ``mysql.wsrep_cluster_members``.
WITNESS = "garb"
UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@dataclasses.dataclass(frozen=True)
class View:
    """Galera's saved view of the last Primary Component that a member was in (``gvwstate.dat`` in the data directory).

    :arg id: ``view_id`` of the file, equal for all members of that component.
    :arg seq: its number. It starts again when a cluster is bootstrapped, so it does not show which of two views is newer.
    :arg members: node ids; that of a witness is among them.
    """

    id: str
    seq: int
    members: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Report:
    """What the guard of one member reports about its own server at one moment.

    :arg state: ``running`` answers SQL; ``starting`` a process exists that does not answer SQL yet; ``stopped``.
    :arg primary: in a Primary Component, as far as the server answers SQL.
    :arg ready: serves clients (Synced, or the donor of another member).
    :arg uuid: cluster that the data belongs to, ``None`` if it has no data of a cluster.
    :arg position: last transaction of this server, ``None`` if it is unknown or still changing.
    :arg joined: was in a Primary Component since its process was started. Of a starting server: ``gvwstate.dat`` exists again.
    :arg isolated: ``gmcast.isolate`` is set.
    :arg view: the saved view; the renamed one if this process has not been in a Primary Component yet, ``None`` after an orderly stop.
    :arg caught_up: id of the last view in which the guard saw it Synced with an empty receive queue; a durable record of the guard.
    :arg node: its own node id in ``view``.
    :arg names: node id → name, as last seen in ``mysql.wsrep_cluster_members``; a durable record of the guard.
    :arg failed: why its guard does nothing, for example because an operator stopped the server or its tries are exhausted.
    """

    name: str
    state: str
    primary: bool = False
    ready: bool = False
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
class Newest:
    """Whose data counts while no member serves.

    :arg name: member with the newest data, ``None`` if that cannot be decided.
    :arg equal: all members with the same data as that one, by name.
    :arg waits_for: members without which it cannot be decided.
    :arg refused: a person must decide.
    :arg proved: the last component is known, so that a witness cannot be in a later one.
    """

    name: str | None
    reason: str
    equal: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    refused: bool = False
    proved: bool = False


@dataclasses.dataclass(frozen=True)
class Step:
    """The next action of a guard.

    :arg action:
        ``none``;
        ``isolate``: set ``gmcast.isolate``;
        ``connect``: unset it, or start a stopped server;
        ``restart``: kill the server, drop what is in memory, start it again;
        ``form``: a Primary Component alone with the own data. A server that runs isolated declares its component Primary (``pc.bootstrap``) and stays
        isolated until the next step. Any other is killed first, because it could join a component meanwhile; then the others are asked again, and it
        bootstraps the cluster if its step, now as ``stopped``, is still ``form``, otherwise it is started;
        ``wait``;
        ``refuse``: a person must decide.
    :arg waits_for: members without which nothing can be done.
    :arg hold: a witness may be Primary alone. Its program restarts it within seconds, and the guard waits that long before it forms a component: if both
        met, Galera would end one of them, and not always that of the witness.
    """

    action: str
    reason: str
    waits_for: tuple[str, ...] = ()
    hold: bool = False


def step(me: str, reports: t.Mapping[str, Report | None], witnesses: int, addresses: int | None = None) -> Step:
    """Return the next action of the guard of ``me``.

    The guard reads its own server, then asks the others, and carries out the action at once.

    :arg reports: every configured member with data, ``me`` among them; ``None`` for one that is silent or whose report is too old: older than some
        seconds, or made before ``me`` was last in a Primary Component or its process was started or ended.
    :arg witnesses: number of configured witnesses.
    :arg addresses: members and witnesses in the running server's ``wsrep_cluster_address``, if known.
    """
    own = reports.get(me)
    if own is None:
        return Step("wait", "the own server cannot be read", (me,))
    if own.failed:
        return Step("none", own.failed)
    if len(reports) == 1:
        return Step("none", "the only member")
    if own.primary and own.ready:
        return Step("connect", "formed the Primary Component") if own.isolated else Step("none", "in the Primary Component")
    others = [report for name, report in reports.items() if report and name != me]
    # one that has formed a component connects first: otherwise some of the others could form their old one again without it
    serving = next((report for report in others if report.primary and report.ready and not report.isolated), None)
    if serving:
        return _follow(own, serving)
    if own.state == "running" and not own.primary and not own.isolated:
        return Step("isolate", "lost the Primary Component")
    if addresses is not None and addresses != len(reports) + witnesses:
        return Step("wait", f"the cluster is being resized: the server knows {addresses} addresses, {len(reports) + witnesses} are configured")
    found = newest(reports)
    if found.name is None:
        return Step("refuse" if found.refused else "wait", found.reason, found.waits_for)
    if found.name == me:
        busy = tuple(report.name for report in others if may_be_primary(report))
        if busy:
            return Step("wait", f"others may still form a component, or are in one without data: {', '.join(busy)}", busy)
        return Step("form", found.reason, hold=witnesses > 0 and not found.proved)
    if may_be_primary(own) and not own.isolated:
        return Step("isolate" if own.state == "running" else "restart", f"in a component without data; {found.reason}")
    return Step("wait", found.reason, (found.name,))


def may_be_primary(report: Report) -> bool:
    """Return whether a member is in a component that is Primary, for example with a witness, or becomes so without its guard."""
    return report.primary or (report.state == "running" and not report.isolated) or (report.state == "starting" and report.joined)


def _follow(own: Report, serving: Report) -> Step:
    """Return the step of a member while another one serves."""
    if own.uuid and serving.uuid and own.uuid != serving.uuid:
        return Step("refuse", f"{serving.name} serves the cluster {serving.uuid}, the own data belongs to {own.uuid}")
    if own.isolated or own.state == "stopped":
        return Step("connect", f"{serving.name} is in the Primary Component")
    return Step("none", f"joins {serving.name}")


def newest(reports: t.Mapping[str, Report | None]) -> Newest:
    """Decide whose data counts while no member serves.

    A component whose members all answer and all have its view as their saved one is the last one: a later one would need one of them, who would
    know it. One of them must have caught up in it, otherwise its members may lack what an earlier component acknowledged. Without such a
    component, every member is needed.

    :arg reports: as for :func:`step`.
    """
    known = {name: report for name, report in reports.items() if report}
    uuids = sorted({report.uuid for report in known.values() if report.uuid})
    if len(uuids) > 1:
        return Newest(None, f"the members have data of different clusters ({', '.join(uuids)})", refused=True)
    last = _last_components(known, reports)
    if len(last) > 1:
        return Newest(None, f"{' and '.join('/'.join(names) for names in last)} were the last component", refused=True)
    needed = last[0] if last else tuple(reports)
    silent = tuple(name for name in needed if name not in known)
    if silent:
        return Newest(None, f"{', '.join(silent)} may have newer data and does not answer", waits_for=silent)
    with_data = [known[name] for name in needed if known[name].uuid]
    unread = tuple(report.name for report in with_data if report.position is None)
    if unread:
        return Newest(None, f"the position of {', '.join(unread)} is unknown or still changing", waits_for=unread)
    if not with_data:
        return Newest(None, "no member has data of a cluster", refused=True)
    highest = max(t.cast(int, report.position) for report in with_data)
    equal = tuple(sorted(report.name for report in with_data if report.position == highest))
    return Newest(equal[0], f"{equal[0]} has the newest data (position {highest}) of {', '.join(needed)}", equal, proved=bool(last))


def unconfirmed(me: str, reports: t.Mapping[str, Report | None], forced: bool) -> str | None:
    """Return why ``me`` must not start the cluster although a run of the role has decided so: the guards may have formed a component since.

    :arg reports: as for :func:`step`, without members that have no data; as they are right before the start.
    :arg forced: a person has chosen the member. Then only a component that is Primary, or may become so, is a reason.
    """
    busy = [report.name for name, report in reports.items() if report and name != me and may_be_primary(report)]
    if busy:
        return f"others are in a Primary Component, or may form one: {', '.join(busy)}"
    found = newest(reports)
    return None if forced or me in found.equal else found.reason


def _last_components(known: t.Mapping[str, Report], configured: t.Container[str]) -> list[tuple[str, ...]]:
    """Return the members with data of each saved view that is proved to be the last one."""
    found = {}
    for report in known.values():
        view = report.view
        if view is None or report.caught_up != view.id or report.uuid is None:
            continue
        names = [report.names.get(node) for node in view.members]
        data = tuple(sorted(name for name in names if name and name != WITNESS))
        all_known = all(name == WITNESS or name in configured for name in names)
        if all_known and all(_has_view(known.get(name), view) for name in data):
            found[view.id] = data
    return list(found.values())


def _has_view(report: Report | None, view: View) -> bool:
    return report is not None and report.view is not None and report.view.id == view.id


def read_view(text: str) -> tuple[View | None, str | None]:
    """Return the saved view and the id of the own node from the content of ``gvwstate.dat``; ``None`` for what is missing or invalid."""
    own = re.search(rf"(?m)^my_uuid: ({UUID})$", text)
    found = re.search(rf"(?ms)^#vwbeg$.^view_id: ([0-9]+) ({UUID}) ([0-9]{{1,18}})$.*^#vwend$", text)
    members = tuple(sorted(re.findall(rf"(?m)^member: ({UUID}) ", text)))
    view = View(" ".join(found.groups()), int(found.group(3)), members) if found else None
    return view, own.group(1) if own else None


def read_kept(text: str) -> tuple[dict[str, str], str | None]:
    """Return ``names`` and ``caught_up`` of a report from the durable record of its guard, empty if it is missing or invalid."""
    try:
        kept = json.loads(text)
        names, caught_up = {str(node): str(name) for node, name in kept["names"].items()}, kept["caught_up"]
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}, None
    return names, caught_up if isinstance(caught_up, str) else None
