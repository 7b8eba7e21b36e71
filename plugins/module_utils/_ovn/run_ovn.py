# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: probe one member of the databases of OVN, and bring it into their clusters."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_changes import Changes
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.io_ovn import OvnDatabase, newest
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.plan_ovn import CLUSTERED, DATABASES, NONE, parse_status, problems, raft_address

_PAUSE = 1.0


@dataclasses.dataclass(frozen=True)
class Step:
    """What a member has to do for one database; what is done already is skipped.

    :arg create: create the cluster.
    :arg join: addresses of members at which to join.
    :arg force: make its data a new cluster.
    :arg discard: move old data away before it joins.
    :arg kick: addresses of servers that the cluster removes.
    :arg restart: restart its server.
    :arg upgrade: convert the cluster to the installed schema.
    """

    create: bool = False
    join: tuple[str, ...] = ()
    force: bool = False
    discard: bool = False
    kick: tuple[str, ...] = ()
    restart: bool = False
    upgrade: bool = False


def parse_steps(value: t.Mapping[str, t.Any], path: str = "steps") -> dict[str, Step]:
    """Parse steps by database from a module parameter.

    :raises InputError: an unknown database.
    """
    found = {}
    for name, entry in value.items():
        if name not in DATABASES:
            raise InputError(f"unknown database {name!r}.", f"{path}.{name}", f"Use {' or '.join(DATABASES)}.")
        found[name] = Step(
            bool(entry.get("create")),
            tuple(entry.get("join") or ()),
            bool(entry.get("force")),
            bool(entry.get("discard")),
            tuple(entry.get("kick") or ()),
            bool(entry.get("restart")),
            bool(entry.get("upgrade")),
        )
    return found


def local_databases() -> dict[str, OvnDatabase]:
    """Return the databases of this host."""
    return {name: OvnDatabase(name) for name in DATABASES}


def look(
    databases: t.Mapping[str, OvnDatabase], size: int | None = None, wait_timeout: float = 0, sleep: t.Callable[[float], None] = time.sleep
) -> dict[str, t.Any]:
    """Return the current state of a member, as documented in ``ovn_database_info``.

    :arg size: expected number of servers.
    :arg wait_timeout: seconds to wait for its running servers to become healthy.
    """
    until = time.monotonic() + wait_timeout
    while True:
        found = {name: _probe(database) for name, database in databases.items()}
        why = problems({name: facts for name, facts in found.items() if facts["running"]}, size)
        if not why or time.monotonic() >= until:
            break
        sleep(_PAUSE)
    installed = all(database.installed() for database in databases.values())
    return {"installed": installed, "databases": found, "problems": list(problems(found, size)) if installed else ["the databases are not installed"]}


def _probe(database: OvnDatabase) -> dict[str, t.Any]:
    installed = database.installed()
    kind = database.kind() if installed else NONE
    running = installed and kind == CLUSTERED and database.running()
    return {"file": kind, "cluster": database.cluster() if kind == CLUSTERED else "", "running": running, **parse_status(database.status() if running else "")}


def ensure(
    databases: t.Mapping[str, OvnDatabase],
    address: str,
    steps: t.Mapping[str, Step],
    *,
    check_mode: bool,
    config_files: t.Sequence[str] = (),
    wait_timeout: float = 60,
    sleep: t.Callable[[float], None] = time.sleep,
) -> Changes:
    """Take the steps of a member, start its servers and wait until they follow a leader.

    :arg address: its address for peers.
    :arg config_files: a server that was started before one of these was written is restarted.
    :raises BackendError: it does not follow a leader in time.
    """
    before = {name: _probe(database) for name, database in databases.items()}
    actions: list[str] = []
    for name, step in steps.items():
        if before[name]["running"] and newest(config_files) > databases[name].started():
            step = dataclasses.replace(step, restart=True)
        todo = _plan(step, before[name], databases[name], raft_address(address, name))
        actions += [f"{word} {name}" for word in todo]
        if not check_mode:
            for word in todo:
                _act(word, step, databases[name], raft_address(address, name), wait_timeout, sleep)
            _wait(databases[name], wait_timeout, sleep)
            if "create" in todo or "force" in todo:
                databases[name].initialize()
    if check_mode or not actions:
        return Changes(tuple(actions), before, before)
    return Changes(tuple(actions), before, {name: _probe(database) for name, database in databases.items()})


def _plan(step: Step, facts: t.Mapping[str, t.Any], database: OvnDatabase, local: str) -> list[str]:
    found = []
    filled = facts["file"] == CLUSTERED
    if step.force:
        return ["force"]
    if step.discard and facts["file"] != NONE:
        filled = False
        found.append("discard")
    if step.create and not filled:
        found.append("create")
    elif step.join and not filled:
        found.append("join")
    if found or not facts["running"]:
        found.append("start")
    elif step.restart:
        found.append("restart")
    if step.kick and set(step.kick) & set(facts["servers"]) - {local}:
        found.append("kick")
    if step.upgrade and facts["leader"] and facts["running"] and database.outdated():
        found.append("upgrade")
    return found


def _act(word: str, step: Step, database: OvnDatabase, local: str, wait_timeout: float, sleep: t.Callable[[float], None]) -> None:
    if word == "force":
        _force(database, local)
    elif word == "discard":
        database.stop()
        database.put_away(_stamp())
    elif word == "create":
        database.stop()
        database.create(local, _stamp())
    elif word == "join":
        database.join(local, step.join)
    elif word == "kick":
        _kick(step.kick, database, local, wait_timeout, sleep)
    elif word == "upgrade":
        database.convert()
    else:
        getattr(database, word)()


def _stamp() -> str:
    return utc(int(time.time())).replace(":", "")


def _force(database: OvnDatabase, local: str) -> None:
    """Make the data of this server a new cluster; the old file is kept."""
    database.stop()
    standalone = database.to_standalone()
    database.create(local, _stamp(), standalone)
    standalone.unlink()
    database.start()


def _kick(addresses: t.Sequence[str], database: OvnDatabase, local: str, wait_timeout: float, sleep: t.Callable[[float], None]) -> None:
    until = time.monotonic() + wait_timeout
    while True:
        left = [one for one in parse_status(database.status())["servers"] if one in addresses and one != local]
        if not left:
            return
        if time.monotonic() >= until:
            raise BackendError(f"{database.name} still has the server {', '.join(left)} after {int(wait_timeout)} s.", hint="Check its leader, then run again.")
        for one in left:
            database.kick(one)
        sleep(_PAUSE)


def _wait(database: OvnDatabase, wait_timeout: float, sleep: t.Callable[[float], None]) -> None:
    until = time.monotonic() + wait_timeout
    while True:
        why = problems({database.name: _probe(database)})
        if not why:
            return
        if time.monotonic() >= until:
            raise BackendError(
                f"{'; '.join(why)} after {int(wait_timeout)} s.",
                hint=f"Check `journalctl -u {database.unit}` and /var/log/ovn on this member and its peers, then run again.",
            )
        sleep(_PAUSE)
