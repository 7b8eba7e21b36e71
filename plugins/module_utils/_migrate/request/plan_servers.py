# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan which servers move into VMs of which virt hosts, in which order, and report what became of them."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, Problems, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import ipv4
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import parse_cutover_at
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_text import duration, summary
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails, parse_vms

MIGRATE = "migrate"
_MOVED = ("done", "retired")
_PREFIX = "master_migrate_"
Values = t.Mapping[str, t.Any]
Migrations = t.Mapping[str, t.Optional[t.Sequence[Values]]]


class Server(t.NamedTuple):
    """A server that moves.

    :arg after: servers that move before it.
    :arg standby: the virt host that will have copies of the VM; empty for none.
    :arg options: the variables of the role ``master_migrate`` for it, without their prefix.
    :arg own: the names of those that it sets itself.
    :arg kind: what it is, if that does not move in this way; else empty.
    """

    name: str
    node: str
    after: t.Sequence[str]
    standby: str
    options: Values
    own: t.Sequence[str] = ()
    kind: str = ""

    @property
    def migration(self) -> str:
        """The name of its migration and of its VM."""
        return str(self.options["name"])

    @property
    def address(self) -> str:
        """The address that moves."""
        return str(self.options["admin_address"]).partition("/")[0]

    @property
    def rehearses(self) -> bool:
        """Whether the run ends before the pause."""
        return bool(self.options.get("stop_after"))

    def vm(self) -> VmDetails:
        """Return the VM.

        :raises InputError: an invalid option.
        """
        given = self.options
        details = {"id": self.migration, **{key: given[key] for key in ("cpu", "ram", "hypervisor")}}
        details |= {"nics": [{"bridge": given["bridge"]}], "disks": [{"size": given["disk_size"]}], **(given.get("vm_extra") or {})}
        return parse_vms([details], f"{self.name}.vm", cluster=str(given["cluster"]))[0]


class Site(t.NamedTuple):
    """The virt hosts, and what else is in the inventory.

    :arg nodes: virt host → ``node`` of ``virt_node_info``, empty without an answer.
    :arg migrations: virt host → its migrations, ``None`` without an answer.
    """

    nodes: t.Mapping[str, Values]
    migrations: Migrations
    hosts: t.Container[str]


def plan(servers: t.Sequence[Server], site: Site, confirm: t.Sequence[str] | None) -> Plan:
    """Return the plan: the steps are the servers that have not moved yet, if the operator has confirmed their pauses.

    :arg confirm: the servers that the operator has confirmed; ``None`` if nothing is changed, so that none must be.
    """
    found = Problems()
    order = found.call(ordered, servers) or list(servers)
    known = {server.name: found_migration(server, site.migrations) for server in order}
    left = [server for server in order if _state(known[server.name]) not in _MOVED]
    for server in left:
        found.found += _problems(server, site, known[server.name])
    found.found += _shared(servers)
    times = found.call(_times, left)
    found.found += _untimely(left, times) if times is not None else []
    needs = {server.name: vm for server in left if (vm := found.call(server.vm)) is not None}
    lines = [_line(server, known[server.name], needs.get(server.name)) for server in order]
    for node, text, short in _capacity(left, needs, site, known):
        lines.append(f"{node}: {text}")
        found.found += [RefusedError(f"{node} has too little for the servers that move there: {text}.", hint="Move fewer, or to another virt host.")] * short
    silent = sorted(node for node, migrations in site.migrations.items() if migrations is None and node not in {server.node for server in left})
    lines += [f"{', '.join(silent)} did not answer: whether a server was moved there is unknown"] if silent else []
    pausing = [server.name for server in left if not server.rehearses]
    confirmed = confirm is None or not set(pausing).difference(confirm)
    if confirm and not confirmed:
        found.found.append(InputError(f"{','.join(confirm)} are not all servers that would move.", "migrate_server_confirm", f"Use {','.join(pausing)}."))
    elif not confirmed:
        lines.append(f"nothing is changed without -e migrate_server_confirm={','.join(pausing)}; with -e {_PREFIX}stop_after=rehearse copies are rehearsed")
    return Plan(lines, [_step(number, server, servers) for number, server in enumerate(left if confirmed else [])], found.found)


def _step(number: int, server: Server, servers: t.Sequence[Server]) -> dict[str, t.Any]:
    fixed = {"source": server.name, "name": server.migration, "admin_address": server.address}
    variables = sorted({*(f"{_PREFIX}{key}" for key in fixed), *(name for each in servers for name in each.own)})
    named = {f"{_PREFIX}{key}": value for key, value in fixed.items()}
    return {"action": MIGRATE, "server": server.name, "node": server.node, "number": number, "fixed": named, "variables": variables}


def ordered(servers: t.Sequence[Server]) -> list[Server]:
    """Return the servers in their order: that of the list, except that each comes after those that it names.

    :raises InputError: servers wait for each other.
    """
    left, found = list(servers), []
    while left:
        names = {server.name for server in left}
        ready = next((server for server in left if not names.intersection(server.after)), None)
        if ready is None:
            raise InputError(f"{', '.join(sorted(names))} wait for each other.", "migrate_server_after", "Remove one of the names.")
        found.append(ready)
        left.remove(ready)
    return found


def found_migration(server: Server, migrations: Migrations) -> tuple[str, Values] | None:
    """Return the migration of a server and its virt host; ``None`` if none is known. One that ended is found by the address, whatever its name."""
    all_of_them = [(node, one) for node, known in migrations.items() for one in known or ()]
    mine = [each for each in all_of_them if each[1]["name"] == server.migration and each[0] == server.node]
    moved = [each for each in all_of_them if each[1]["state"] in _MOVED and _source_address(each[1]) == server.address]
    started = [each for each in all_of_them if each[1]["name"] == server.migration and "quiesce" in each[1].get("phases", {})]
    return next(iter([*moved, *(each for each in started if each[1]["state"] != "rolled_back"), *mine]), None)


def _source_address(migration: Values) -> str:
    return str((migration.get("source") or {}).get("address") or "")


def _state(known: tuple[str, Values] | None) -> str:
    return str(known[1]["state"]) if known else "new"


def _problems(server: Server, site: Site, known: tuple[str, Values] | None) -> t.Iterator[FootprintError]:
    """The reasons against the move of one server that are known without it."""
    name, node = server.name, server.node
    if node not in site.nodes:
        hint = f"Use one of {', '.join(site.nodes)}."
        yield InputError(f"{node!r} is not a virt host of this run.", f"{name}.{_PREFIX}destination", hint)
    elif site.migrations.get(node) is None or not site.nodes[node]:
        yield RefusedError(f"{node} did not answer, so {name} cannot move there.", hint="Repair its connection, or set another virt host.")
    if server.kind:
        yield InputError(f"{name} is {server.kind}, which does not move into a VM.", "migrate_server_hosts", "Remove it there.")
    if known and known[0] != node:
        yield RefusedError(f"the migration of {name} has begun on {known[0]}.", hint=f"Set {_PREFIX}destination of {name} to {known[0]}.")
    elif known and _source_address(known[1]) not in ("", server.address):
        what = f"{server.migration} on {node} is the migration of the machine with the address {_source_address(known[1])}."
        yield InputError(what, f"{name}.{_PREFIX}name", "Use another name.")
    for each in (each for each in [*server.after, *filter(None, [server.standby])] if each not in site.hosts):
        option = "after" if each in server.after else "standby"
        yield InputError(f"{each!r} is not a host of the inventory.", f"{name}.migrate_server_{option}", "Correct the name.")
    for option in ("admin_address", "temporary_address"):
        try:
            ipv4(str(server.options.get(option) or "").partition("/")[0], f"{name}.{_PREFIX}{option}")
        except InputError as error:
            yield error


def _shared(servers: t.Sequence[Server]) -> t.Iterator[FootprintError]:
    """Names and addresses that two servers would have."""
    owner: dict[tuple[str, str], str] = {}
    for server in servers:
        temporary = str(server.options.get("temporary_address") or "").partition("/")[0]
        addresses = (("address", "admin_address", server.address), ("address", "temporary_address", temporary))
        for kind, option, value in (("name", "name", server.migration), *addresses):
            other = owner.setdefault((kind, value), f"{server.name}.{_PREFIX}{option}") if value else ""
            if value and other != f"{server.name}.{_PREFIX}{option}":
                hint = "Set it for each server in host_vars, not for all of them."
                yield InputError(f"{value} is also {other}.", f"{server.name}.{_PREFIX}{option}", hint)


def _times(servers: t.Sequence[Server]) -> dict[str, float | None]:
    return {server.name: parse_cutover_at(server.options.get("cutover_at"), f"{server.name}.{_PREFIX}cutover_at") for server in servers}


def _untimely(servers: t.Sequence[Server], times: t.Mapping[str, float | None]) -> t.Iterator[FootprintError]:
    """Pauses that would begin before those of servers that move before."""
    for server in (server for server in servers if not server.rehearses):
        for first in server.after:
            earliest, own = times.get(first), times[server.name]
            if earliest is not None and (own is None or own <= earliest):
                what = f"{server.name} moves after {first}, whose pause begins at {utc(earliest)}."
                yield InputError(what, f"{server.name}.{_PREFIX}cutover_at", "Set a later time.")


def _line(server: Server, known: tuple[str, Values] | None, vm: VmDetails | None) -> str:
    """One line about a server before the run."""
    state, migration = _state(known), known[1] if known else {}
    if state in _MOVED:
        return f"{server.name} has moved: {summary(migration)[0]}"
    if state == "running" or vm is None:
        return f"{server.name} to a VM of {server.node}" + (f": its migration is running, at {migration['phase']}" if known else "")
    pause = migration.get("predicted_downtime_seconds")
    predicted = f"pause predicted {duration(pause)}" if pause is not None else "not rehearsed, pause not predicted"
    failed = f"; last time: {migration['reason']}" if migration.get("reason") else ""
    return f"{server.name} to a VM of {server.node}: {size_text(vm.memory_mib * MIB)} memory, {size_text(_disk(vm))} disk, {predicted}{failed}"


def _disk(vm: VmDetails) -> int:
    return sum(disk.size or 0 for disk in vm.disks)


def _capacity(
    left: t.Sequence[Server], needs: t.Mapping[str, VmDetails], site: Site, known: t.Mapping[str, tuple[str, Values] | None]
) -> t.Iterator[tuple[str, str, bool]]:
    """Yield each virt host that gets VMs, what they need and what is free there, and whether that is too little."""
    for node in dict.fromkeys(server.node for server in left if site.nodes.get(server.node)):
        here = [server for server in left if server.node == node and server.name in needs]
        free_mib = (site.nodes[node].get("capacity") or {}).get("memory_left_mib")
        memory = sum(needs[server.name].memory_mib for server in here)
        parts = [_need("memory", memory * MIB, None if free_mib is None else free_mib * MIB)]
        pools: dict[str, int] = {}
        # the disks of a copy that was made are a part of what is in use
        for server in (server for server in here if "prepare" not in (known[server.name] or ("", {}))[1].get("phases", {})):
            pools[str(server.options["pool"])] = pools.get(str(server.options["pool"]), 0) + _disk(needs[server.name])
        for pool, size in pools.items():
            free = (site.nodes[node].get("pools") or {}).get(pool, {}).get("available_bytes")
            parts.append(_need(f"pool {pool}", size, free))
        yield node, ", ".join(text for text, _short in parts), any(short for _text, short in parts)


def _need(what: str, size: int, free: int | None) -> tuple[str, bool]:
    left = "unknown" if free is None else size_text(max(free, 0))
    return f"{what} {size_text(size)} needed, {left} free", free is not None and free < size


def report(
    servers: t.Sequence[Server], migrations: Migrations, failures: t.Mapping[str, str], checked: t.Collection[str] | None = None
) -> tuple[list[str], list[str]]:
    """Return the lines of the report, and the servers that have not reached what the run was for.

    :arg migrations: virt host → its migrations after the run.
    :arg failures: server → why the run ended with it.
    :arg checked: the servers without a problem, in check mode; ``None`` in others.
    """
    lines, missing = [], []
    for server in ordered(servers):
        known = found_migration(server, migrations)
        state, migration = _state(known), known[1] if known else {}
        good = server.name not in failures and (state in (*_MOVED, "running") or (server.rehearses and state == "stopped"))
        if checked is not None and state not in _MOVED:
            good = server.name in checked
        if server.name in failures:
            lines.append(f"{server.name}: {failures[server.name]}")
        elif checked is not None and state not in _MOVED:
            lines.append(f"{server.name}: {'no problem was found' if good else 'not checked'}")
        elif not good:
            lines.append(f"{server.name}: not begun" if known is None else f"{server.name}: {state}")
        else:
            lines += [f"{server.name}: {line}" for line in summary(migration) if not line.startswith("copied")]
        if not good:
            missing.append(server.name)
        if state in _MOVED and server.standby:
            entry = f"{{id: {server.migration}, disks: [{{size: {size_text(_disk(server.vm()))}}}], standby: {server.standby}}}"
            lines.append(f"{server.name}: add to standby_extra of {known[0] if known else server.node}, then run spawn_vms: {entry}")
    return lines, missing
