# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who starts a RabbitMQ cluster, who joins, who is refused, who is healthy."""

from __future__ import annotations

import itertools
import re
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_rabbitmq import Decision, Member, decide, differences, lacking_replicas, problems
from hypothesis import given
from hypothesis import strategies as st

NODES = {name: f"rabbit@{name}" for name in "abc"}
ALL = tuple(NODES.values())


def fresh(name: str, **given_values: t.Any) -> Member:
    """Nothing there yet, the package's own cookie at most."""
    return Member(name, NODES[name], **{"cookie": "none", **given_values})


def alone(name: str, **given_values: t.Any) -> Member:
    return Member(name, NODES[name], **{"running": True, "known": (NODES[name],), "last": (NODES[name],), **given_values})


def member(name: str, running: bool = True, last: t.Sequence[str] = ALL, known: t.Sequence[str] = ALL, **given_values: t.Any) -> Member:
    return Member(name, NODES[name], running=running, known=tuple(known), last=tuple(last), **given_values)


def stopped(name: str, last: t.Sequence[str] = ALL, **given_values: t.Any) -> Member:
    """One that saw a and then b stop, if they are not in ``last``."""
    return member(name, False, last, served=(ALL, *([ALL[1:]] if ALL[0] not in last else [])), **given_values)


def decided(*members: Member | None, force: str | None = None, gone: t.Sequence[str] = ()) -> Decision:
    return decide(dict(zip("abc", members)), dict(list(NODES.items())[: len(members)]), force, gone)


@pytest.mark.parametrize(
    ("members", "options", "action", "first", "start", "join"),
    [
        # a new cluster
        ([fresh("a"), fresh("b"), fresh("c")], {}, "bootstrap", "a", (), ("b", "c")),
        ([fresh("a")], {}, "bootstrap", "a", (), ()),
        ([alone("a")], {}, "none", "a", (), ()),
        # a run that was killed after the first start
        ([fresh("a"), alone("b"), fresh("c")], {}, "join", "b", (), ("a", "c")),
        ([alone("a"), alone("b"), fresh("c")], {}, "join", "a", (), ("b", "c")),
        # one that is in use grows, whatever its place; also one whose contents are unknown because it is stopped
        ([fresh("a"), alone("b"), alone("c", contents=("queue orders",))], {}, "join", "c", (), ("a", "b")),
        ([fresh("a"), alone("b", running=False, contents=None), fresh("c")], {}, "bootstrap", "b", (), ("a", "c")),
        # a cluster that runs
        ([member("a"), member("b"), member("c")], {}, "none", "a", (), ()),
        ([member("a"), None, member("c")], {}, "none", "a", (), ()),
        ([member("a", running=False), member("b"), member("c")], {}, "start", "b", ("a",), ()),
        ([member("a", known=ALL[:2]), member("b", known=ALL[:2]), fresh("c")], {}, "join", "a", (), ("c",)),
        ([None, member("b"), fresh("c")], {}, "join", "b", (), ("c",)),
        # all stopped: the last one first
        ([stopped("a"), stopped("b", ALL[1:]), stopped("c", ALL[2:])], {}, "start", "c", ("c", "a", "b"), ()),
        ([member("a", False), member("b", False), member("c", False)], {}, "start", "a", ("a", "b", "c"), ()),
        ([None, stopped("b", ALL[1:]), stopped("c", ALL[2:])], {}, "start", "c", ("c", "b"), ()),
        # a was disconnected, the others served: it waits, also in a group of its own with one that does not answer
        ([stopped("a"), stopped("b", ALL[1:]), None], {}, "start", "b", ("b", "a"), ()),
        ([member("a", False, ALL[:1], served=(ALL,)), stopped("b", ALL[1:]), stopped("c", ALL[1:])], {}, "start", "b", ("b", "a", "c"), ()),
        # a majority is enough, because one alone has not served; also while they wait for each other
        ([member("a", False), member("b", False), None], {}, "start", "a", ("a", "b"), ()),
        ([member("a", False, paused=True), None, member("c", False, paused=True)], {}, "start", "a", ("a", "c"), ()),
        ([member("a", False), member("b", False), fresh("c")], {}, "start", "a", ("a", "b"), ("c",)),
        # with Khepri any majority
        ([member("a", False, ALL[:1], khepri=True), member("b", False, khepri=True), None], {}, "start", "a", ("a", "b"), ()),
        ([member("a", False, ALL[:2]), member("b", False, ALL[:2]), None], {}, "start", "a", ("a", "b"), ()),
        # one was forced to start alone, and does not know the others any more
        ([alone("a", contents=("queue x",), khepri=True), member("b", False, khepri=True), fresh("c")], {}, "join", "a", (), ("b", "c")),
        ([alone("a", khepri=True), member("b", khepri=True), member("c", khepri=True)], {}, "join", "b", (), ("a",)),
        # the operator forces a member
        ([member("a", False), member("b", False), None], {"force": "b"}, "start", "b", ("b", "a"), ()),
        ([fresh("a"), None, fresh("c")], {"force": "c"}, "bootstrap", "c", (), ("a",)),
        ([member("a"), None, member("c")], {"force": "c"}, "none", "a", (), ()),
        # one with another cookie gets the right one with its start
        ([member("a"), member("b", False, cookie="other"), member("c")], {}, "start", "a", ("b",), ()),
    ],
)
def test_who_starts_and_who_joins(members: t.Any, options: t.Any, action: str, first: str, start: t.Any, join: t.Any) -> None:
    found = decided(*members, **options)
    assert (found.action, found.first, found.start, found.join) == (action, first, start, join), found


@pytest.mark.parametrize(
    ("members", "options", "reason", "hint"),
    [
        ([fresh("a"), None, fresh("c")], {}, "b does not answer: it may be in one", "rabbitmq_force_boot"),
        ([alone("a", contents=("user x",)), alone("b", contents=("queue y",))], {}, r"has contents \(b: queue y\)", "Export"),
        ([member("a", known=ALL[:2]), member("b", known=ALL[:2]), alone("c", contents=("user x",))], {}, r"\(c: user x\)", "Export"),
        ([member("a", known=(*ALL, "rabbit@x")), member("b"), member("c")], {}, "a is in a cluster with rabbit@x", "rabbitmq_gone_nodes"),
        ([fresh("a"), member("b", known=("rabbit@b", "rabbit@x")), fresh("c")], {}, "b is in a cluster with rabbit@x", "group"),
        ([member("a", known=ALL[1:]), member("b"), member("c")], {}, "a is a member under another name", "rabbitmq_node_host"),
        ([member("a", cookie="other"), member("b", cookie="other"), member("c")], {}, "cookie of a, b", "rabbitmq_erlang_cookie|cookie"),
        # the others may have served without it
        ([member("a", False), None, None], {}, "no member is running, and b, c may have served last", "rabbitmq_force_boot"),
        ([member("a", False, khepri=True), None, None], {}, "b, c may have served last", "rabbitmq_force_boot"),
        # only b knows the order
        ([member("a", False, ALL[:2]), None, member("c", False, ALL[1:])], {}, "b may have served last", "rabbitmq_force_boot"),
        # no record
        (
            [member("a", False, ALL[:1]), member("b", False, ALL[1:2]), member("c", False, ALL[2:])],
            {}, "a, b, c may have served|do not agree", "rabbitmq_force_boot",
        ),  # fmt: skip
        ([member("a", False), None, None], {"force": "b"}, "b is forced to start the cluster, but does not answer", "Force"),
        ([member("a", False), member("b", False), fresh("c")], {"force": "c"}, "c is forced to start the cluster, but has no data", "Force"),
        ([fresh("a")], {"force": "z"}, "z is forced to start the cluster, but is not among", "Force"),
        ([], {}, "no members", "hosts"),
    ],
)
def test_what_is_refused(members: t.Any, options: t.Any, reason: str, hint: str) -> None:
    found = decided(*members, **options)
    assert found.action == "refuse"
    assert re.search(reason, found.reason), found.reason
    assert re.search(hint, found.hint or ""), found.hint


def test_data_that_a_cluster_with_khepri_sent_to_a_member_without_disk_do_not_count() -> None:
    lost = alone("a", contents=("queue x",))
    found = decided(lost, member("b", khepri=True), member("c", khepri=True))
    assert (found.action, found.first, found.join, found.forget) == ("join", "b", ("a",), ("rabbit@a",))
    # Mnesia does not do so, one that was forced to start alone has its own, and so has one that the others do not know
    for members in (
        (lost, member("b"), member("c")),
        (alone("a", contents=("queue x",), khepri=True), member("b", khepri=True), member("c", khepri=True)),
        (lost, member("b", khepri=True, known=ALL[1:]), member("c", khepri=True, known=ALL[1:])),
    ):
        assert decided(*members).action == "refuse"


def test_two_clusters_at_once() -> None:
    names = {name: f"rabbit@{name}" for name in "abcd"}
    one, two = tuple(names.values())[:2], tuple(names.values())[2:]
    members = {name: Member(name, node, running=True, known=one if node in one else two) for name, node in names.items()}
    found = decide(members, names)
    assert (found.action, found.reason) == ("refuse", "there are two clusters: rabbit@a, rabbit@b and rabbit@c, rabbit@d.")
    assert found.warnings


def test_a_majority_that_lost_its_disks_is_not_waited_for() -> None:
    left = [member("a", False, paused=True), fresh("b"), alone("c")]
    found = decided(*left)
    assert found.action == "refuse" and found.reason.startswith("b, c lost their data")
    assert "set rabbitmq_force_boot to one of a" in (found.hint or "")
    # also while its service waits
    forced = decided(*left, force="a")
    assert (forced.action, forced.first, forced.join, forced.forced) == ("start", "a", ("b", "c"), True)
    # a minority that lost them is no reason to refuse, and one that serves is none either
    assert decided(member("a", False, ALL[:2], paused=True), member("b", False, ALL[:2], paused=True), fresh("c")).action == "start"
    assert decided(member("a"), fresh("b"), fresh("c")).action == "join"


def test_a_member_that_lost_its_disk_is_forgotten_and_joins() -> None:
    for lost in (fresh("b"), alone("b")):
        found = decided(member("a"), lost, member("c"))
        assert (found.action, found.join, found.forget) == ("join", ("b",), ("rabbit@b",))


def test_stopped_members_with_khepri_are_not_taken_for_new_ones() -> None:
    """Their files do not name the cluster until their guards have noted it."""
    without = Member("b", NODES["b"], khepri=True, contents=None)
    found = decided(member("a", khepri=True), without, member("c", khepri=True))
    assert (found.action, found.start, found.join, found.forget) == ("start", ("b",), (), ())
    found = decided(member("a", False, khepri=True), without, None)
    assert (found.action, found.first, found.start, found.join) == ("start", "a", ("a", "b"), ())
    # it runs alone, or the others have forgotten it
    assert decided(member("a", khepri=True), alone("b", khepri=True), member("c", khepri=True)).join == ("b",)


def test_who_left_for_good_is_forgotten() -> None:
    known = (*ALL, "rabbit@x")
    found = decided(member("a", known=known), member("b", known=known), member("c", known=known), gone=["rabbit@x", "rabbit@never"])
    assert (found.action, found.forget) == ("start", ("rabbit@x",))


def test_sizes() -> None:
    assert not decided(fresh("a")).warnings
    assert "halves, both pause" in decided(fresh("a"), fresh("b")).warnings[0]
    assert not decided(fresh("a"), fresh("b"), fresh("c")).warnings


STATES: tuple[t.Callable[[str], Member | None], ...] = (
    lambda _name: None,
    fresh,
    alone,
    lambda name: alone(name, contents=("queue x",)),
    member,
    lambda name: member(name, running=False),
    lambda name: member(name, running=False, last=(NODES[name],)),
)


def test_decide_never_starts_a_second_cluster_and_never_wipes_contents() -> None:
    """Over all combinations of what three members can be."""
    for makers in itertools.product(STATES, repeat=3):
        members = {name: make(name) for name, make in zip(NODES, makers)}
        found = decide(members, NODES)
        running = [one for one in members.values() if one and one.clustered and one.running]
        if found.action == "refuse":
            assert found.hint
            continue
        assert found.first in members and members[str(found.first)] is not None
        if running:
            assert found.action != "bootstrap" and not found.forced
            assert members[str(found.first)] in running
        joiners = [members[name] for name in found.join]
        assert all(one and not one.contents and not one.clustered for one in joiners)
        assert not set(found.join) & set(found.start)
        if found.action == "bootstrap":
            assert None not in members.values()


@given(st.lists(st.sampled_from(STATES), min_size=3, max_size=3), st.sampled_from("abc"))
def test_force_never_starts_a_second_cluster(makers: list[t.Callable[[str], Member | None]], force: str) -> None:
    members = {name: make(name) for name, make in zip(NODES, makers)}
    found = decide(members, NODES, force)
    if any(one and one.clustered and one.running for one in members.values()):
        assert not found.forced and found.action != "bootstrap"


HEALTHY = {
    "running_nodes": list(ALL), "disk_nodes": list(ALL), "partitions": {}, "alarms": [],
    "maintenance_status": {node: "not under maintenance" for node in ALL},
}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, ()),
        (None, ("rabbit@a does not answer",)),
        ({"running_nodes": ["rabbit@b"]}, ("the broker of rabbit@a is not running: it is starting, stopped, or paused without a majority",)),
        ({"running_nodes": ["rabbit@a", "rabbit@b"]}, ("rabbit@c is not running",)),
        ({"partitions": {"rabbit@a": ["rabbit@b"]}}, ("rabbit@a is partitioned from rabbit@b",)),
        ({"alarms": [{"node": "rabbit@b", "reason": "disk"}]}, ("alarm: rabbit@b disk",)),
        ({"alarms": ["memory"]}, ("alarm: memory",)),
        ({"maintenance_status": {"rabbit@a": "under maintenance"}}, ("rabbit@a is under maintenance",)),
        ({"disk_nodes": [*ALL, "rabbit@x"]}, ("rabbit@x is an unexpected member",)),
    ],
)
def test_problems(change: t.Any, wanted: tuple[str, ...]) -> None:
    assert problems(None if change is None else {**HEALTHY, **change}, "rabbit@a", ALL) == wanted


def test_only_this_member_is_asked_for() -> None:
    assert not problems({**HEALTHY, "running_nodes": ["rabbit@a"]}, "rabbit@a")


def queue(name: str, *members: str, kind: str = "quorum") -> dict[str, t.Any]:
    return {"vhost": "/", "name": name, "type": kind, "members": list(members)}


def test_replicas_that_are_lacking() -> None:
    queues = [queue("full", *ALL), queue("short", *ALL[:2]), queue("classic", *ALL[:1], kind="classic")]
    assert lacking_replicas(queues, "rabbit@c", 3) == (("/", "short"),)
    assert lacking_replicas(queues, "rabbit@a", 3) == ()
    assert lacking_replicas(queues, "rabbit@d", 4) == (("/", "short"),)
    assert lacking_replicas([queue("two", *ALL[:2])], "rabbit@c", 2) == ()


def voting(*members: Member | None, force: str | None = None) -> Decision:
    """a and b have clients, c is a witness."""
    return decide(dict(zip("abc", members)), NODES, force, (), ["c"])


@pytest.mark.parametrize(
    ("members", "action", "first", "start", "join", "forced"),
    [
        # a new cluster is never started by the witness, also if that is running, and does not wait for it
        ([fresh("a"), fresh("b"), fresh("c")], "bootstrap", "a", (), ("b", "c"), False),
        ([fresh("a"), fresh("b"), alone("c")], "bootstrap", "a", (), ("b", "c"), False),
        ([fresh("a"), fresh("b"), None], "bootstrap", "a", (), ("b",), False),
        ([fresh("a"), None, fresh("c")], "refuse", None, (), (), False),
        ([None, None, fresh("c")], "refuse", None, (), (), False),
        # a running cluster
        ([member("a"), member("b"), None], "none", "a", (), (), False),
        ([member("a"), None, member("c")], "none", "a", (), (), False),
        ([member("a", False), None, member("c")], "start", "c", ("a",), (), False),
        # all stopped
        ([stopped("a"), stopped("b", ALL[1:]), stopped("c", ALL[2:])], "start", "c", ("c", "a", "b"), (), False),
        # without the witness a and b are a majority
        ([stopped("a"), stopped("b", ALL[1:]), None], "start", "b", ("b", "a"), (), False),
        ([stopped("a"), stopped("b"), None], "start", "a", ("a", "b"), (), False),
        # waiting for a member with clients
        ([member("a", False), None, None], "refuse", None, (), (), False),
        # with the witness there is a majority
        ([stopped("a"), None, stopped("c")], "start", "a", ("a", "c"), (), False),
        # the witness stopped last and has all that the missing one had confirmed
        ([stopped("a"), None, stopped("c", ALL[2:])], "start", "c", ("c", "a"), (), False),
    ],
)
def test_a_witness(members: list[Member | None], action: str, first: str | None, start: t.Any, join: t.Any, forced: bool) -> None:
    found = voting(*members)
    assert (found.action, found.first, found.start, found.join, found.forced) == (action, first, start, join, forced)


@pytest.mark.parametrize("states", itertools.product([None, "fresh", "running", "stopped"], repeat=3))
def test_a_witness_never_starts_a_new_cluster(states: tuple[str | None, ...]) -> None:
    made = {"fresh": fresh, "running": member, "stopped": lambda name: member(name, False)}
    found = voting(*[made[state](name) if state else None for name, state in zip("abc", states)])
    assert not (found.action == "bootstrap" and found.first == "c")
    assert not (found.forced and found.first == "c")


def test_a_witness_cannot_be_forced() -> None:
    found = voting(member("a", False), None, member("c", False), force="c")
    assert found.action == "refuse" and "c is forced to start the cluster, but is a witness" in found.reason


def look(name: str, **more: t.Any) -> dict[str, t.Any]:
    """A healthy member, as ``rabbitmq_info`` returns it."""
    return {"running": True, "members": list(ALL), "cookie": "same", "problems": [], "unresolved": [], **more}


@pytest.mark.parametrize(
    ("more", "options", "expected"),
    [
        ({}, {}, ""),
        ({"problems": ["rabbit@b is not running"]}, {}, "b: rabbit@b is not running"),
        ({"unresolved": ["a resolves to nothing"]}, {}, "b: a resolves to nothing"),
        ({"cookie": "none"}, {}, "b has another cookie"),
        ({"cookie": "other"}, {}, "the Erlang cookie of b differs"),
        ({"members": [NODES["b"]]}, {}, "b is not in the cluster of all members"),
        ({"members": [*ALL, "rabbit@d"]}, {"gone": ["rabbit@d"]}, "is in a running cluster"),
        ({"running": False}, {}, "is in a running cluster"),
        (None, {}, "b: rabbit@b does not answer"),
    ],
)
def test_differences(more: dict[str, t.Any] | None, options: dict[str, t.Any], expected: str) -> None:
    looks = {"a": look("a"), "b": None if more is None else look("b", **more), "c": look("c")}
    found = differences(looks, NODES, **options)
    assert expected in " ".join(found) and bool(found) == bool(expected), found


def test_a_warning_is_a_difference() -> None:
    two = dict(list(NODES.items())[:2])
    found = differences({name: look(name, members=list(two.values())) for name in two}, two)
    assert len(found) == 1 and "an even number" in found[0]


@pytest.mark.parametrize(
    ("version", "khepri", "expected"), [("4.0.5", False, ["a has its metadata in Mnesia."]), ("4.0.5", True, []), ("3.12.1", False, []), (None, False, [])]
)
def test_a_single_member_is_moved_to_khepri(version: str | None, khepri: bool, expected: list[str]) -> None:
    nodes = {"a": NODES["a"]}
    assert differences({"a": look("a", members=[NODES["a"]], version=version, khepri=khepri)}, nodes) == expected
