# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: probe one member of a RabbitMQ cluster, and make it join or start the cluster."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_changes import Changes
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.io_rabbitmq import RabbitMq
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_rabbitmq import MAINTENANCE, alarm_text, offers_khepri, problems
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_schema import contents
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_tls import between_nodes, listens

_PAUSE = 1.0
# Seconds. A paused broker starts by itself when it sees a majority again; one that a killed run has stopped does not.
_PATIENCE = 20.0
_UP = ("active", "activating", "reloading")

# Options that locate the server; documented in doc_fragments/rabbitmq.py.
SERVER_ARGUMENTS: t.Mapping[str, t.Mapping[str, t.Any]] = {
    "node": {"type": "str", "required": True},
    "unit": {"type": "str", "default": "rabbitmq-server.service"},
    "cookie": {"type": "str", "no_log": True},
}


@dataclasses.dataclass(frozen=True)
class MemberRequest:
    """The requested state of a member.

    :arg state: ``started`` only starts the unit, ``present`` waits for a healthy member, ``restarted`` does so after a restart.
    :arg seed: node whose cluster it must be in; ``None`` for the first member.
    :arg forget: nodes that the cluster must forget.
    :arg config_files: a server that was started before one of these was written is restarted.
    :arg force_boot: start without the nodes that it would wait for.
    :arg wait_timeout: seconds until it must be healthy.
    """

    state: str = "present"
    seed: str | None = None
    forget: tuple[str, ...] = ()
    config_files: tuple[str, ...] = ()
    force_boot: bool = False
    wait_timeout: float = 600


def local_broker(node: str, unit: str) -> RabbitMq:
    """Return the node of this host.

    :arg node: Erlang node name.
    :arg unit: systemd unit.
    :raises InputError: invalid node name.
    """
    name, at, host = node.partition("@")
    if not at or not name or not host or any(not (sign.isalnum() or sign in "-_.") for sign in name + host):
        raise InputError(f"{node!r} is not a valid node name.", "node", "Use for example rabbit@host, with letters, digits, -, _ and dots.")
    return RabbitMq(node, unit)


def look(
    broker: RabbitMq,
    cookie: str | None = None,
    expected: t.Sequence[str] = (),
    wait_timeout: float = 0,
    peers: t.Mapping[str, str] | None = None,
    sleep: t.Callable[[float], None] = time.sleep,
) -> dict[str, t.Any]:
    """Return the current state of a member, as documented in ``rabbitmq_info``.

    :arg cookie: expected cookie, to be compared.
    :arg expected: nodes that must be running for it to be ready; empty to check this node only.
    :arg wait_timeout: seconds to wait for it to become ready.
    :arg peers: address that each host name of a member must resolve to.
    """
    until = time.monotonic() + wait_timeout
    while True:
        facts = _probe(broker, cookie, expected)
        if facts["ready"] or not facts["installed"] or facts["unit"] not in _UP or time.monotonic() >= until:
            break
        sleep(_PAUSE)
    found = {name: broker.resolve(name) for name in peers or {}}
    facts["unresolved"] = [f"{name} resolves to {found[name] or 'nothing'}, expected {want}" for name, want in (peers or {}).items() if found[name] != want]
    return facts


def _probe(broker: RabbitMq, cookie: str | None, expected: t.Sequence[str]) -> dict[str, t.Any]:
    installed = broker.installed()
    unit = broker.unit_state().get("ActiveState", "unknown") if installed else "unknown"
    status = broker.status() if installed and unit in _UP else None
    members, last = broker.noted()
    running_nodes = list((status or {}).get("running_nodes") or ())
    # a broker that still runs under another node name is alone under that name
    mine = broker.node if broker.node in running_nodes or not running_nodes else running_nodes[0]
    if status and running_nodes and mine in running_nodes:
        members = tuple((*(status.get("disk_nodes") or ()), *(status.get("ram_nodes") or ())))
    khepri = broker.khepri()
    # with Mnesia, a member without a majority pauses
    majority = not khepri or 2 * len(set(members) & set(running_nodes)) > len(members)
    running = mine in running_nodes and _serves(status, mine) and majority
    has: list[str] | None = []
    if running and len(members) <= 1:
        has = list(contents(broker.definitions()))
    elif members and len(members) <= 1:
        has = None
    configuration, environment = broker.texts()
    current_cookie = broker.cookie() if installed else None
    found_problems = problems(status, broker.node, expected) if installed else (f"{broker.node} is not installed",)
    found_problems += () if majority or not status else (f"{broker.node} sees no majority of the members",)
    return {
        "installed": installed,
        "unit": unit,
        "node": broker.node,
        "alive": status is not None,
        "running": running,
        # a node whose broker is stopped does not return cluster_status, so the unit shows that it waits
        "paused": unit in _UP and not running and len(members) > 1,
        "ready": not found_problems,
        "problems": list(found_problems),
        "members": list(members),
        "running_nodes": running_nodes,
        "last_running": list(last),
        "served": [list(group) for group in broker.served()],
        "khepri": khepri,
        "partitions": dict((status or {}).get("partitions") or {}),
        "alarms": [alarm_text(alarm) for alarm in (status or {}).get("alarms") or ()],
        "maintenance": ((status or {}).get("maintenance_status") or {}).get(broker.node),
        "version": _version(status, mine),
        "tls": listens(configuration, bool(status or members)),
        "internode_tls": between_nodes(environment, bool(status or members)),
        "contents": has,
        "cookie": "none" if not current_cookie else "same" if cookie in (None, "", current_cookie) else "other",
    }


def _serves(status: t.Mapping[str, t.Any] | None, node: str) -> bool:
    return bool(status) and node in (status or {}).get("running_nodes", ())


def _version(status: t.Mapping[str, t.Any] | None, node: str) -> str | None:
    return ((status or {}).get("versions") or {}).get(node, {}).get("rabbitmq_version")


def ensure(
    request: MemberRequest,
    broker: RabbitMq,
    cookie: str | None,
    *,
    check_mode: bool,
    sleep: t.Callable[[float], None] = time.sleep,
) -> Changes:
    """Make a member join its cluster, or start the cluster with it, and wait until it is healthy.

    :raises RefusedError: joining would wipe its contents, or the cookie of a running member differs.
    :raises BackendError: the member is not healthy in time.
    """
    before = _probe(broker, cookie, ())
    actions = _plan(request, before, broker)
    if check_mode:
        return Changes(actions, before, before)
    if not before["installed"]:
        raise BackendError("RabbitMQ is not installed on this host.", hint="Run the role, or install the package.")
    _prepare(request, actions, before, broker, cookie, sleep)
    if request.state == "started":
        return Changes(actions, before, _probe(broker, cookie, ()))
    _await_broker(request, broker, sleep)
    if "use Khepri" in actions:
        broker.enable_khepri()
    if "join" in actions:
        _join(request, broker, sleep)
    elif request.seed is None:
        _forget(request, broker, broker.node)
    if "revive" in actions:
        broker.revive()
    after = _wait(request, broker, cookie, sleep)
    broker.note_members(after["members"])
    return Changes(actions, before, after)


def _plan(request: MemberRequest, facts: t.Mapping[str, t.Any], broker: RabbitMq) -> tuple[str, ...]:
    """Return the actions that lead to the requested state, usually none."""
    actions = []
    up = facts["unit"] in _UP
    clustered = len(facts["members"]) > 1
    aside = _is_outside(request, facts, broker)
    if facts["cookie"] == "other" and facts["running"] and clustered:
        raise RefusedError(
            "the Erlang cookie of this member differs; it cannot be changed while the cluster is running.",
            hint="Set cookie to the cluster's cookie, or stop the service on all members and run again.",
        )
    # a running node gets another cookie only by a restart
    new_cookie = facts["cookie"] != "same" and (not up or request.state != "started")
    started = _number((broker.unit_state().get("ExecMainStartTimestamp") or "").lstrip("@"))
    newer = up and int(broker.newest(request.config_files)) > started
    if new_cookie:
        actions.append("set the cookie")
    if aside:
        actions += ["set its data aside", "restart" if up else "start"]
    elif request.force_boot and not facts["running"]:
        # also one that waits for others
        actions += ["force the start", "restart" if up else "start"]
    elif not up:
        actions.append("start")
    elif (newer or new_cookie or request.state == "restarted") and request.state != "started":
        actions.append("restart")
    if request.state != "started":
        if request.seed and (aside or not clustered):
            actions.append("join")
        elif request.seed is None and not clustered and facts["installed"] and not facts["khepri"] and offers_khepri(broker.version()):
            actions.append("use Khepri")
        elif request.seed is None and set(request.forget) & set(facts["members"]):
            actions.append("forget")
        if facts["maintenance"] in MAINTENANCE and "restart" not in actions:
            actions.append("revive")
    return tuple(actions)


def _is_outside(request: MemberRequest, facts: t.Mapping[str, t.Any], broker: RabbitMq) -> bool:
    """Return whether a member has data that do not belong to the running cluster with Khepri; Mnesia takes such a member in as it is.

    Either the cluster was forced to start without it. Or it lost its disk and was started before the cluster forgot it, which then sent it some data.
    """
    clustered = len(facts["members"]) > 1
    if request.state == "started" or not request.seed or (facts["running"] and clustered):
        return False
    there = broker.status(request.seed) or {}
    flags = {flag.get("name"): flag.get("state") for flag in there.get("feature_flags") or ()}
    if request.seed not in there.get("running_nodes", ()) or flags.get("khepri_db") != "enabled":
        return False
    listed = broker.node in there.get("disk_nodes", ())
    # one that was forced to start alone uses Khepri
    return not listed if clustered else listed and facts["unit"] in _UP and not facts["khepri"]


def _number(value: str | None) -> int:
    try:
        return int(value or -1)
    except ValueError:
        return -1


def _prepare(
    request: MemberRequest,
    actions: t.Sequence[str],
    facts: t.Mapping[str, t.Any],
    broker: RabbitMq,
    cookie: str | None,
    sleep: t.Callable[[float], None],
) -> None:
    """Write the cookie, start or restart."""
    joins = bool("join" in actions and request.seed and {"start", "restart"} & set(actions))
    if joins and "set the cookie" not in actions:
        # nothing is stopped for a cluster that cannot be joined
        _seed_status(str(request.seed), broker)
    if "restart" in actions:
        if facts["running"] and len(facts["members"]) > 1:
            _await_uncritical(request, broker, sleep)
            if facts["maintenance"] is not None:
                broker.drain()
        broker.stop()
    if "set the cookie" in actions and cookie:
        broker.write_cookie(cookie)
    if "set its data aside" in actions:
        broker.set_aside()
    # before it starts: with Khepri the cluster would send its data to a member that has lost its disk
    if joins and broker.node in _seed_status(str(request.seed), broker).get("disk_nodes", ()):
        broker.forget(broker.node, str(request.seed))
    forced = "force the start" in actions
    if forced and not facts["khepri"]:
        broker.force_boot()
    if "start" in actions or "restart" in actions:
        broker.start()
    if forced and facts["khepri"]:
        _stand_alone(request, broker, sleep)


def _stand_alone(request: MemberRequest, broker: RabbitMq, sleep: t.Callable[[float], None]) -> None:
    """Force a member that waits for a majority to be the only one, as soon as it answers."""
    until = time.monotonic() + request.wait_timeout
    while True:
        try:
            return broker.stand_alone()
        except CommandError:
            if time.monotonic() >= until:
                raise
        sleep(_PAUSE)


def _await_uncritical(request: MemberRequest, broker: RabbitMq, sleep: t.Callable[[float], None]) -> None:
    until = time.monotonic() + request.wait_timeout
    while True:
        why = broker.critical()
        if not why:
            return
        if time.monotonic() >= until:
            raise BackendError(f"this member must not be restarted now: {why}", hint="Start the other members first.")
        sleep(_PAUSE)


def _may_start(request: MemberRequest, broker: RabbitMq) -> bool:
    """Return whether starting a stopped broker cannot form a second cluster: it has no peers, or its seed is reachable and running."""
    seed = request.seed
    return len(broker.noted()[0]) <= 1 or (seed is not None and _serves(broker.status(seed), seed))


def _await_broker(request: MemberRequest, broker: RabbitMq, sleep: t.Callable[[float], None]) -> None:
    """Wait until the broker is running, and start it if a killed run has stopped it."""
    started = time.monotonic()
    alone_since = None
    while True:
        status = broker.status()
        if _serves(status, broker.node):
            return
        now = time.monotonic()
        if broker.unit_state().get("ActiveState") == "active" and _may_start(request, broker):
            alone_since = alone_since or now
            if now - alone_since > _PATIENCE:
                broker.start_app()
                alone_since = now
        if now - started >= request.wait_timeout:
            raise BackendError(
                f"the broker is not running after {int(now - started)} s: {'; '.join(problems(status, broker.node))}. "
                f"Last log lines: {broker.last_log_lines()}",
                hint=f"Check `journalctl -u {broker.unit}` and /var/log/rabbitmq on this member and on its peers, then run the play again.",
            )
        sleep(_PAUSE)


def _seed_status(seed: str, broker: RabbitMq) -> dict[str, t.Any]:
    """Return the status of the seed. Its silence does not mean that it does not know this member."""
    there = broker.status(seed)
    if there is None or not _serves(there, seed):
        raise BackendError(f"{seed} cannot be reached from this host, or its broker is not running.", hint="Check its health, host names, firewall and cookie.")
    return there


def _join(request: MemberRequest, broker: RabbitMq, sleep: t.Callable[[float], None]) -> None:
    seed = str(request.seed)
    there = _seed_status(seed, broker)
    filled = contents(broker.definitions())
    if filled:
        raise RefusedError(
            f"this broker is outside the cluster and has contents ({', '.join(filled)}); joining would wipe them.",
            hint="Export and delete them, or remove the host from the group.",
        )
    broker.stop_app()
    for node in dict.fromkeys((broker.node, *request.forget)):
        if node in there.get("disk_nodes", ()) and (node == broker.node or node not in there.get("running_nodes", ())):
            broker.forget(node, seed)
    broker.join(seed)
    broker.start_app()


def _forget(request: MemberRequest, broker: RabbitMq, seed: str) -> None:
    status = broker.status() or {}
    for node in request.forget:
        if node in (status.get("disk_nodes") or ()):
            if node in status.get("running_nodes", ()):
                raise RefusedError(f"{node} must be forgotten, but is running.", hint="Stop it, or remove it from the list.")
            broker.forget(node, seed)


def _wait(request: MemberRequest, broker: RabbitMq, cookie: str | None, sleep: t.Callable[[float], None]) -> dict[str, t.Any]:
    until = time.monotonic() + request.wait_timeout
    while True:
        facts = _probe(broker, cookie, ())
        if facts["ready"] and (not request.seed or len(facts["members"]) > 1):
            return facts
        if time.monotonic() >= until:
            raise BackendError(
                f"the member is not healthy after {int(request.wait_timeout)} s: {'; '.join(facts['problems'])}. Last log lines: {broker.last_log_lines()}",
                hint="Fix these problems, then run the play again.",
            )
        sleep(_PAUSE)
