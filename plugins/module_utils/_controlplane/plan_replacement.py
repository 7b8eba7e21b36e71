# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the replacement of a controller: whether its VM may be created again now, where, and what of the old one must go first."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controlplane
from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_replacement import COMPLETED, RETIRED

#: Nothing to do; take away an old VM whose server is back; replace.
NONE, CLEAN, REPLACE = "none", "clean", "replace"
_PREFIX = "replace_controller"


class Request(t.NamedTuple):
    """The wishes of the operator.

    :arg server: that of the new VM, empty for the one that the VM is on.
    :arg stop: whether a controller that answers may be shut down.
    :arg confirm: the servers that do not answer, separated by commas, as typed by a person who made sure that they are off.
    :arg again: whether a healthy controller that was replaced before is replaced again.
    :arg id: ID of its VM, empty if that is its name.
    """

    name: str
    server: str = ""
    stop: bool = False
    confirm: str = ""
    again: bool = False
    id: str = ""

    @property
    def names(self) -> tuple[str, str]:
        """Return the ID and the name of its VM, which may differ."""
        return self.id or self.name, self.name


class Known(t.NamedTuple):
    """What the inventory contains.

    :arg members: service → its hosts.
    :arg places: controller → its server, empty for one that is a server itself.
    """

    members: plan_controlplane.Members
    places: t.Mapping[str, str]
    servers: t.Sequence[str]
    witnesses: t.Sequence[str]


class Found(t.NamedTuple):
    """What was found.

    :arg looks: host of the control plane → ``controlplane`` as returned by ``controlplane_info``.
    :arg servers: server → ``vms`` and ``replacements``, empty for one that does not answer.
    :arg answering: hosts whose ssh port answers although Ansible cannot use them.
    """

    looks: plan_controlplane.Looks
    servers: t.Mapping[str, t.Mapping[str, t.Any]]
    answering: t.Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Plan:
    """The decision.

    :arg why: the reasons against it.
    :arg retire: servers on which the old VM is taken away, in this order.
    :arg peer: a healthy member of RabbitMQ that forgets the old one, empty if none has to.
    :arg absent: server whose old VM is still to be taken away when it answers.
    """

    action: str
    why: tuple[str, ...] = ()
    source: str = ""
    destination: str = ""
    at: str = ""
    retire: tuple[str, ...] = ()
    peer: str = ""
    absent: str = ""
    lines: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible."""
        found = dataclasses.asdict(self)
        return {**{key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}, "ok": not self.why}


def check_request(request: Request, known: Known) -> None:
    """Check the names of a request, before any host is contacted."""
    controllers = sorted({host for hosts in known.members.values() for host in hosts} - set(known.witnesses))
    path = f"{_PREFIX}_name"
    if not request.name:
        raise model_errors.InputError("is required.", path, f"Use one of {', '.join(controllers)}.")
    if request.name in known.witnesses:
        hint = "Take its vote away with remove_controller, then deploy it with deploy_controllers."
        raise model_errors.InputError(f"{request.name} is a witness.", path, hint)
    if request.name not in controllers:
        raise model_errors.InputError(
            f"{request.name} is not a controller.", path, did_you_mean(request.name, controllers, f"Use one of {', '.join(controllers) or 'none'}.")
        )
    if not known.places.get(request.name):
        raise model_errors.InputError(f"{request.name} is a server, not a VM.", path, "Install it again, then run deploy_controllers.")
    if request.server and request.server not in known.servers:
        raise model_errors.InputError(
            f"{request.server} is not a virt host.",
            f"{_PREFIX}_server",
            did_you_mean(request.server, known.servers, f"Use one of {', '.join(known.servers)}."),
        )


def plan(request: Request, known: Known, found: Found, now: str) -> Plan:
    """Decide about a replacement; see :class:`Plan`."""
    listed = {server: facts.get("replacements") or () for server, facts in found.servers.items() if facts}
    records = {server: record for server, replacements in listed.items() for record in replacements if record["id"] == request.names[0]}
    # the record on the server of the new VM is the one that counts
    own = {server: record for server, record in records.items() if record["to"] == server}
    last = max(own.values(), key=lambda record: str(record["at"]), default=None)
    here = [server for server, facts in found.servers.items() if any(_is_here(vm, request.names) for vm in (facts or {}).get("vms") or ())]
    if last is not None and last["state"] != COMPLETED:
        return _continue(request, known, found, records, last, here)
    source = next(iter(here), "") if len(here) == 1 else ""
    source = source or _noted(request, found) or (str(last["to"]) if last else "") or known.places[request.name]
    destination = request.server or source
    if last is not None and last["to"] == destination and destination in here and not request.again:
        # an old VM that came back with its server may disturb the new one
        back = last["source"] != destination and last["source"] in here
        if back or _healthy(request.name, known, found):
            return _done(request.name, found, records, last)
    why = _alive(request, found) + _server_lost(request, found, destination, _suspects(found, source, here)) + _elsewhere(request, here, source, destination)
    why += _quorum(request.name, known, found, source)
    return _planned(request, known, found, records, Plan(REPLACE, tuple(why), source, destination, now), here)


def _is_it(vm: t.Mapping[str, t.Any], names: tuple[str, str]) -> bool:
    return str(vm.get("id")) == names[0] or vm.get("name") == names[1]


def _is_here(vm: t.Mapping[str, t.Any], names: tuple[str, str]) -> bool:
    return _is_it(vm, names) and not vm.get("moved")


def _noted(request: Request, found: Found) -> str:
    """Return the server that does not answer to which its VM was moved, as another one has noted; empty without."""
    to = [str(vm["moved"]) for facts in found.servers.values() for vm in (facts or {}).get("vms") or () if _is_it(vm, request.names) and vm.get("moved")]
    return next((server for server in to if not found.servers.get(server)), "")


def _continue(
    request: Request, known: Known, found: Found, records: t.Mapping[str, t.Mapping[str, t.Any]], record: t.Mapping[str, t.Any], here: t.Sequence[str]
) -> Plan:
    """Continue an interrupted replacement; whether the old VM was alive does not matter any more, but until the new one runs, its server may be on again."""
    server, source = str(record["to"]), str(record["source"])
    vms = (found.servers[server] or {}).get("vms") or ()
    runs = _retired(records.get(server), str(record["at"])) and any(_is_here(vm, request.names) and vm.get("state") == "running" for vm in vms)
    why = [] if runs else _server_lost(request, found, server, [source])
    why += _quorum(request.name, known, found, source)
    if request.server and request.server != server:
        why.insert(0, f"{_PREFIX}_server: the replacement on {server} is unfinished. Finish it with {_PREFIX}_server={server}")
    return _planned(request, known, found, records, Plan(REPLACE, tuple(why), source, server, str(record["at"])), here)


def _planned(
    request: Request, known: Known, found: Found, records: t.Mapping[str, t.Mapping[str, t.Any]], base: Plan, here: t.Sequence[str]
) -> Plan:
    both = dict.fromkeys((base.destination, base.source))
    retire = tuple(server for server in both if found.servers.get(server) and not _retired(records.get(server), base.at))
    absent = base.source if not found.servers.get(base.source) else ""
    # the new VM may already be a member again
    new = not retire and base.destination in here
    peer = "" if new else _peer(request.name, known, found)
    lines = [f"{request.name} is created again on {base.destination}" + (", which an interrupted run began" if _begun(records, base.at) else "")]
    lines += [f"  its old VM is taken away on {server}" for server in retire if server in here]
    lines += [f"  RabbitMQ forgets it on {peer}"] if peer else []
    lines += ["  it joins the database by a state transfer from its peers"]
    lines += [f"  {absent} does not answer: when it is back, run the same command again before {request.name} starts there"] if absent else []
    silent = [server for server in _suspects(found, base.source, here) if not found.servers.get(server) and server != absent]
    lines += [f"  {server} does not answer: if it has {request.name} as well, take it away there before it starts" for server in silent]
    return dataclasses.replace(base, retire=retire, peer=peer, absent=absent, lines=tuple(lines))


def _done(name: str, found: Found, records: t.Mapping[str, t.Mapping[str, t.Any]], last: t.Mapping[str, t.Any]) -> Plan:
    """The controller was replaced and is healthy: at most an old VM on a server that is back is taken away."""
    source, destination, at = str(last["source"]), str(last["to"]), str(last["at"])
    lines = [f"{name} was replaced on {destination} at {at}"]
    if source == destination or _retired(records.get(source), at):
        return Plan(NONE, (), source, destination, at, lines=tuple(lines))
    if not found.servers.get(source):
        return Plan(NONE, (), source, destination, at, absent=source, lines=(*lines, f"  {source} does not answer; its old VM is still to be taken away"))
    return Plan(CLEAN, (), source, destination, at, (source,), lines=(*lines, f"  {source} is back: its old VM is taken away"))


def _retired(record: t.Mapping[str, t.Any] | None, at: str) -> bool:
    return record is not None and record["at"] == at and record["state"] in (RETIRED, COMPLETED)


def _begun(records: t.Mapping[str, t.Mapping[str, t.Any]], at: str) -> bool:
    return any(record["at"] == at for record in records.values())


def _healthy(name: str, known: Known, found: Found) -> bool:
    reports = plan_controlplane.evaluate(known.members, found.looks)
    states = [member.state for report in reports.values() for member in report.members if member.host == name]
    return bool(states) and all(state == plan_controlplane.OK for state in states)


def _alive(request: Request, found: Found) -> list[str]:
    if request.stop or not (found.looks.get(request.name) or request.name in found.answering):
        return []
    return [f"{_PREFIX}_name: {request.name} is alive, it answers. If it is to be shut down and replaced, set {_PREFIX}_stop=true"]


def _suspects(found: Found, source: str, here: t.Sequence[str]) -> list[str]:
    """Return the servers on which its VM may run: the one that is known, and where no server has it, each that does not answer."""
    return list(dict.fromkeys((source, *(() if here else (server for server, facts in found.servers.items() if not facts)))))


def _server_lost(request: Request, found: Found, destination: str, suspects: t.Sequence[str]) -> list[str]:
    """Return the reasons against a replacement whose servers do not answer."""
    if not found.servers.get(destination):
        hint = "Use another one" if suspects[0] != destination else f"Name another server with {_PREFIX}_server"
        return [f"{_PREFIX}_server: {destination} does not answer. {hint}, or repair it"]
    silent = [server for server in suspects if not found.servers.get(server)]
    named = [name for name in request.confirm.replace(",", " ").split() if name]
    on = [server for server in silent if server in found.answering]
    if on:
        return [f"{_PREFIX}_confirm: {server} is not off: its ssh port answers. Power it off, or make it reachable for Ansible" for server in on]
    other = [name for name in named if name not in silent]
    wrong = f"{', '.join(map(repr, other))} is not the server whose loss must be confirmed. " if other else ""
    return [
        f"{_PREFIX}_confirm: {wrong}{server} does not answer. If it still runs {request.name}, two machines would use the same name and address. "
        f"Make sure that it is off, then set {_PREFIX}_confirm={','.join(silent)}"
        for server in silent
        if server not in named
    ]


def _elsewhere(request: Request, here: t.Sequence[str], source: str, destination: str) -> list[str]:
    others = [server for server in here if server not in (source, destination)]
    if len(here) > 1:
        return [f"{_PREFIX}_name: {request.name} is defined on {' and '.join(here)}. Find out which one is valid, and remove the other one"]
    return [f"{_PREFIX}_name: {request.name} is also defined on {', '.join(others)}. Remove it there first"] if others else []


def _quorum(name: str, known: Known, found: Found, source: str) -> list[str]:
    """Return the reasons of the other members against a replacement: they must serve without this one."""
    why = []
    for service, report in plan_controlplane.evaluate(known.members, {**found.looks, name: None}).items():
        voters = (*report.members, *report.witnesses)
        if name not in [one.host for one in voters]:
            continue
        left = sum(1 for one in voters if one.state == plan_controlplane.OK)
        if left < report.needed:
            # a backup is older than the data of a member that is left
            last = any(found.looks.get(one.host) for one in report.members if one.host != name)
            way = "if they are lost, docs/replace-server.md describes how the cluster starts from the last member" if last else (
                "the database of a last member comes back from a backup with restore_database"
            )
            why.append(
                f"without {name} {service} has {left} of {report.votes} members and needs {report.needed}: {_others(report, name)}. Repair them first; {way}"
            )
            continue
        # other members on a lost server are replaced after this one
        lost_with = source if not found.servers.get(source) else None
        lost = [one for one in report.unhealthy if one.host != name and known.places.get(one.host, one.host) != lost_with]
        why += [f"{service} on {one.text}. Repair it first" for one in lost]
    return why


def _others(report: plan_controlplane.Report, name: str) -> str:
    return ", ".join(one.text for one in report.unhealthy if one.host != name) or "there is no other member"


def _peer(name: str, known: Known, found: Found) -> str:
    report = plan_controlplane.evaluate(known.members, {**found.looks, name: None}).get("rabbitmq")
    if report is None or name not in known.members.get("rabbitmq", ()):
        return ""
    healthy = [one.host for one in report.members if one.state == plan_controlplane.OK]
    return next((host for host in healthy if host not in known.witnesses), "")
