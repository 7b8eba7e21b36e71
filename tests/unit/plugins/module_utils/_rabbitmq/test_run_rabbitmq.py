# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One member brought into its cluster, on a node that behaves as RabbitMQ's does."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq import run_rabbitmq, run_schema
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.run_rabbitmq import MemberRequest, ensure, local_broker, look

ME, SEED = "rabbit@b", "rabbit@a"
COOKIE = "SECRETCOOKIE"
FRESH = {"rabbitmq_version": "3.10.8", "users": [{"name": "guest"}], "vhosts": [{"name": "/"}], "queues": [], "exchanges": []}
#: The state of a member that serves.
MEMBER: dict[str, t.Any] = {"up": True, "app": True, "known": [SEED, ME], "secret": COOKIE}


class Node:
    """A node and its cluster, in memory."""

    node, unit = ME, "rabbitmq-server.service"

    def __init__(self, **state: t.Any) -> None:
        self.here, self.up, self.app, self.forced = True, False, False, False
        self.release, self.raft, self.there_raft, self.tries = "3.10.8", False, False, 0
        self.known: list[str] = []
        self.theirs = [SEED]
        self.secret: str | None = "PACKAGECOOKIE"
        self.has = dict(FRESH)
        self.started, self.written = 100, 0.0
        self.drained = False
        self.noted_members: list[str] = []
        self.said: list[str] = []
        self.why: str | None = None
        self.queues: list[dict[str, t.Any]] = []
        self.__dict__.update(state)

    def installed(self) -> bool:
        return self.here

    def unit_state(self) -> dict[str, str]:
        return {"ActiveState": "active" if self.up else "inactive", "ExecMainStartTimestamp": f"@{self.started}"}

    def status(self, node: str | None = None) -> dict[str, t.Any] | None:
        if node == SEED:
            flags = [{"name": "khepri_db", "state": "enabled" if self.there_raft else "disabled"}]
            return {"running_nodes": [one for one in self.theirs if one != ME], "disk_nodes": list(self.theirs), "feature_flags": flags}
        if not self.up or not self.app:
            return None
        running = [ME, *(one for one in self.known if one != ME)]
        state = "under maintenance" if self.drained else "not under maintenance"
        return {"running_nodes": running, "disk_nodes": self.known or [ME], "maintenance_status": {ME: state}, "alarms": [], "partitions": {}}

    def noted(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(self.known), tuple(self.known)

    def served(self) -> tuple[tuple[str, ...], ...]:
        return (tuple(self.known),)

    def version(self) -> str:
        return self.release

    def khepri(self) -> bool:
        return self.raft

    def stand_alone(self) -> None:
        self.tries += 1
        if self.tries < 3:
            raise CommandError(["rabbitmqctl"], 69, "")
        self.said.append("alone")

    def set_aside(self) -> None:
        assert not self.up
        self.said.append("aside")
        self.known, self.raft = [], False

    def enable_khepri(self) -> None:
        assert self.app, "a broker that is stopped cannot move its metadata"
        self.said.append("khepri")
        self.raft = True

    def note_members(self, members: t.Sequence[str]) -> None:
        self.noted_members = list(members)

    def definitions(self) -> dict[str, t.Any]:
        return self.has

    def texts(self) -> tuple[str, str]:
        return "listeners.ssl.1 = 192.0.2.1:5671\n", ""

    def cookie(self) -> str | None:
        return self.secret

    def resolve(self, name: str) -> str | None:
        return {"a": "192.0.2.1"}.get(name)

    def newest(self, _paths: t.Any) -> float:
        return self.written

    def last_log_lines(self) -> str:
        return "boom"

    def critical(self) -> str | None:
        return self.why

    def write_cookie(self, value: str) -> None:
        assert not self.up, "a node that runs keeps its cookie"
        self.said.append("cookie")
        self.secret = value

    def start(self) -> None:
        self.said.append("start")
        self.up = self.app = True
        self.known = self.known or [ME]
        self.started, self.drained = 10**10, False

    def stop(self) -> None:
        self.said.append("stop")
        self.up = self.app = False

    def force_boot(self) -> None:
        assert not self.up
        self.said.append("force")

    def drain(self) -> None:
        self.said.append("drain")
        self.drained = True

    def revive(self) -> None:
        self.said.append("revive")
        self.drained = False

    def stop_app(self) -> None:
        self.said.append("stop_app")
        self.app = False

    def start_app(self) -> None:
        self.said.append("start_app")
        self.app = True

    def forget(self, node: str, seed: str) -> None:
        assert node != ME or not self.app, "a node that runs is not forgotten"
        self.said.append(f"forget {node}")
        (self.theirs if seed == SEED else self.known).remove(node)

    def join(self, seed: str) -> None:
        assert seed == SEED
        assert not self.app and ME not in self.theirs and self.secret == COOKIE
        self.said.append("join")
        self.theirs.append(ME)
        self.known = list(self.theirs)

    def quorum_queues(self, _vhosts: t.Any) -> list[dict[str, t.Any]]:
        return [{**queue, "members": list(queue["members"])} for queue in self.queues]

    def add_replica(self, vhost: str, queue: str, node: str) -> None:
        self.said.append(f"replica {vhost} {queue} {node}")

    def import_definitions(self, definitions: t.Any) -> None:
        self.said.append(f"import {sorted(definitions)}")

    def delete_user(self, name: str) -> None:
        self.said.append(f"delete {name}")


@pytest.fixture(autouse=True)
def fixture_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second passes at each reading of the clock."""
    ticks = iter(range(10**6))
    monkeypatch.setattr(run_rabbitmq.time, "monotonic", lambda: float(next(ticks)))


def run(node: Node, check: bool = False, **request: t.Any) -> t.Any:
    return ensure(MemberRequest(**request), t.cast(t.Any, node), COOKIE, check_mode=check, sleep=lambda _seconds: None)


@pytest.mark.parametrize(
    ("state", "request_values", "actions", "said"),
    [
        ({}, {}, ["set the cookie", "start"], ["cookie", "start"]),
        ({}, {"seed": SEED}, ["set the cookie", "start", "join"], ["cookie", "start", "stop_app", "join", "start_app"]),
        # the first member of a new cluster; those that join get its store
        ({"release": "4.0.5"}, {}, ["set the cookie", "start", "use Khepri"], ["cookie", "start", "khepri"]),
        ({"release": "4.0.5"}, {"seed": SEED}, ["set the cookie", "start", "join"], ["cookie", "start", "stop_app", "join", "start_app"]),
        # a run was killed before that
        ({"up": True, "app": True, "known": [ME], "secret": COOKIE, "release": "4.1"}, {}, ["use Khepri"], ["khepri"]),
        ({"up": True, "app": True, "known": [ME], "secret": COOKIE, "release": "4.0.5", "raft": True}, {}, [], []),
        # the cluster was started without this member
        (
            {"app": False, "known": [SEED, ME, "rabbit@c"], "secret": COOKIE, "raft": True, "there_raft": True}, {"seed": SEED},
            ["set its data aside", "start", "join"],
            ["aside", "start", "stop_app", "join", "start_app"],
        ),
        ({"up": True, "app": True, "known": [SEED, ME], "theirs": [SEED, ME], "secret": COOKIE, "raft": True}, {"seed": SEED}, [], []),
        # a member with Khepri is forced once it answers
        (
            {"known": [SEED, ME, "rabbit@c"], "secret": COOKIE, "raft": True}, {"state": "started", "force_boot": True}, ["force the start", "start"],
            ["start", "alone"],
        ),
        # an existing cluster keeps its store
        ({"up": True, "app": True, "known": [ME, SEED], "secret": COOKIE, "release": "4.0.5"}, {}, [], []),
        # its disk is lost, and the cluster knows it
        (
            {"theirs": [SEED, ME]}, {"seed": SEED}, ["set the cookie", "start", "join"],
            ["cookie", "forget rabbit@b", "start", "stop_app", "join", "start_app"],
        ),
        # the same, and it was started before: with Khepri the cluster has sent it some of its data
        (
            {"up": True, "app": True, "secret": COOKIE, "theirs": [SEED, ME], "there_raft": True}, {"seed": SEED}, ["set its data aside", "restart", "join"],
            ["stop", "aside", "forget rabbit@b", "start", "stop_app", "join", "start_app"],
        ),
        (
            {"up": True, "app": True, "secret": COOKIE, "theirs": [SEED, ME]}, {"seed": SEED}, ["join"],
            ["stop_app", "forget rabbit@b", "join", "start_app"],
        ),
        # a run was killed after it stopped the broker to let it join
        (
            {"up": True, "app": False, "known": [ME], "secret": COOKIE}, {"seed": SEED}, ["join"],
            ["start_app", "stop_app", "join", "start_app"],
        ),
        # a run was killed after it joined
        ({"up": True, "app": False, "known": [SEED, ME], "secret": COOKIE}, {"seed": SEED}, [], ["start_app"]),
        # healthy
        ({"up": True, "app": True, "known": [SEED, ME], "secret": COOKIE}, {"seed": SEED}, [], []),
        # it runs alone, with the package's cookie
        ({"up": True, "app": True, "known": [ME]}, {}, ["set the cookie", "restart"], ["stop", "cookie", "start"]),
        # its configuration is newer than it
        (
            {"up": True, "app": True, "known": [SEED, ME], "secret": COOKIE, "written": 200.0}, {"seed": SEED}, ["restart"],
            ["drain", "stop", "start"],
        ),
        ({"up": True, "app": True, "known": [SEED, ME], "secret": COOKIE}, {"state": "restarted"}, ["restart"], ["drain", "stop", "start"]),
        # a run was killed between drain and restart
        ({"up": True, "app": True, "known": [SEED, ME], "secret": COOKIE, "drained": True}, {"seed": SEED}, ["revive"], ["revive"]),
        ({"known": [SEED, ME], "secret": COOKIE}, {"state": "started"}, ["start"], ["start"]),
        ({"known": [SEED, ME], "secret": COOKIE}, {"state": "started", "force_boot": True}, ["force the start", "start"], ["force", "start"]),
        ({"up": True, "app": True, "known": [SEED, ME], "secret": COOKIE}, {"state": "started", "force_boot": True}, [], []),
        # it waits for others
        (
            {"up": True, "app": False, "known": [SEED, ME], "secret": COOKIE}, {"state": "started", "force_boot": True}, ["force the start", "restart"],
            ["stop", "force", "start"],
        ),
        (
            {"up": True, "app": True, "known": [ME, "rabbit@old"], "secret": COOKIE}, {"forget": ("rabbit@old", "rabbit@never")}, ["forget"],
            ["forget rabbit@old"],
        ),
    ],
)
def test_what_is_done(state: t.Any, request_values: t.Any, actions: list[str], said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    checked = Node(**{key: list(value) if isinstance(value, list) else value for key, value in state.items()})
    predicted = run(checked, check=True, **request_values)
    assert not checked.said
    node = Node(**state)
    if request_values.get("forget"):
        # who is to be forgotten does not run
        honest = node.status
        monkeypatch.setattr(node, "status", lambda name=None: {**(honest(name) or {}), "running_nodes": [ME]})
    done = run(node, **request_values)
    assert list(done.actions) == actions == list(predicted.actions)
    assert node.said == said
    assert done.changed == bool(actions) == predicted.changed
    if request_values.get("state") != "started":
        assert done.after["ready"]
    again = run(node, **{**request_values, "state": "started" if request_values.get("state") == "started" else "present"})
    assert not again.changed


def test_a_member_with_khepri_notes_its_cluster() -> None:
    node = Node()
    run(node, seed=SEED)
    assert sorted(node.noted_members) == [SEED, ME]


@pytest.mark.parametrize(
    ("state", "options", "error", "words", "never"),
    [
        # its contents would be wiped
        ({"has": {**FRESH, "queues": [{"name": "orders"}]}}, {"seed": SEED}, RefusedError, "has contents .queue orders.; joining would wipe them", "stop_app"),
        ({**MEMBER, "secret": "ANOTHER"}, {"seed": SEED}, RefusedError, "cookie", ""),
        # queues would lose their quorum
        ({**MEMBER, "why": "it would stop"}, {"state": "restarted", "wait_timeout": 5}, BackendError, "must not be restarted now: it would stop", ""),
        ({"up": True, "app": True, "theirs": []}, {"seed": SEED}, BackendError, "rabbit@a cannot be reached", "stop_app"),
        # it serves on alone
        ({"up": True, "app": True, "theirs": [], "secret": COOKIE}, {"seed": SEED, "state": "restarted"}, BackendError, "rabbit@a cannot be reached", "stop"),
        # it may know this member: with Khepri it would send its data to one that has lost its disk
        ({"theirs": []}, {"seed": SEED}, BackendError, "rabbit@a cannot be reached", "start"),
        # a broker that is paused in a minority: alone it would be a second cluster next to the one that it cannot see
        ({**MEMBER, "app": False, "theirs": []}, {"seed": SEED, "wait_timeout": 40}, BackendError, "is not running after", "start_app"),
    ],
)
def test_what_is_refused(state: dict[str, t.Any], options: dict[str, t.Any], error: type[Exception], words: str, never: str) -> None:
    node = Node(**state)
    with pytest.raises(error, match=words):
        run(node, **options)
    assert never not in node.said if never else not node.said


def test_a_broker_that_never_runs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(known=[SEED, ME], secret=COOKIE)
    monkeypatch.setattr(node, "start", lambda: None)
    with pytest.raises(BackendError, match="the broker is not running .* boom"):
        run(node, seed=SEED, wait_timeout=30)


def test_not_installed() -> None:
    assert run(Node(here=False, secret=None), check=True, seed=SEED).actions == ("set the cookie", "start", "join")
    with pytest.raises(BackendError, match="not installed"):
        run(Node(here=False, secret=None))


def test_looks() -> None:
    peers = {"a": "192.0.2.1", "b": "192.0.2.2"}
    facts = look(t.cast(t.Any, Node(up=True, app=True, known=[SEED, ME], secret=COOKIE)), COOKIE, [SEED, ME, "rabbit@c"], peers=peers)
    assert (facts["running"], facts["ready"], facts["cookie"], facts["contents"]) == (True, False, "same", [])
    assert facts["problems"] == ["rabbit@c is not running"]
    assert facts["unresolved"] == ["b resolves to nothing, expected 192.0.2.2"]
    assert look(t.cast(t.Any, Node(up=True, known=[SEED, ME])), COOKIE)["paused"]
    assert look(t.cast(t.Any, Node(known=[ME])), COOKIE)["contents"] is None
    assert COOKIE not in repr(facts)


@pytest.mark.parametrize("name", ["rabbit", "@a", "rabbit@", "rabbit@a b", "rabbit@$(id)", "rabbit@a;id"])
def test_an_invalid_node_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="is not a valid node name"):
        local_broker(name, "x.service")


def test_replicas_for_those_who_joined_later() -> None:
    node = Node(
        up=True, app=True, known=[SEED, ME], secret=COOKIE,
        has={**FRESH, "queues": [{"name": "q", "vhost": "/", "arguments": {"x-queue-type": "quorum"}}]},
        queues=[{"vhost": "/", "name": "q", "type": "quorum", "members": [SEED]}],
    )
    schema = run_schema.plan_schema.parse([], [], [], [], ["guest"])
    predicted = run_schema.ensure(schema, t.cast(t.Any, node), check_mode=True)
    assert not node.said
    done = run_schema.ensure(schema, t.cast(t.Any, node), check_mode=False)
    assert done.actions == predicted.actions == ("delete user guest", "add a replica of queue q in / on rabbit@b")
    assert node.said == ["delete guest", "replica / q rabbit@b"]


def test_a_server_that_is_not_there_yet_needs_all_of_it() -> None:
    schema = run_schema.plan_schema.parse([{"name": "rpc"}], [], [], [], ["guest"])
    predicted = run_schema.ensure(schema, t.cast(t.Any, Node(here=False)), check_mode=True)
    assert predicted.actions == ("create virtual host rpc", "delete user guest")
