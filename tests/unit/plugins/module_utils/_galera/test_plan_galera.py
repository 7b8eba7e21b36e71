# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who starts a Galera cluster and who joins: the tables."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_galera import (
    NO_UUID,
    Member,
    components,
    decide,
    describe,
    primary_members,
)
from hypothesis import given
from hypothesis import strategies as st

A = "aaaaaaaa-0000-11ef-8000-000000000001"
B = "bbbbbbbb-0000-11ef-8000-000000000002"


def fresh(**more):
    return {"cluster_uuid": None, "seqno": -1, **more}


def stopped(seqno, uuid=A, **more):
    return {"cluster_uuid": uuid, "seqno": seqno, **more}


def primary(seqno=10, uuid=A):
    return {"running": True, "primary": True, "cluster_uuid": uuid, "seqno": seqno}


def alone(seqno=10, uuid=A):
    return {"running": True, "primary": False, "cluster_uuid": uuid, "seqno": seqno}


def on(force=None, **looks):
    return decide({name: Member.from_facts(name, facts) if facts else None for name, facts in looks.items()}, force)


TABLE = [
    # what, members, force, action, who starts, who joins
    ("all fresh", {"a": fresh(), "b": fresh(), "c": fresh()}, None, "bootstrap", "a", ["b", "c"]),
    ("one alone", {"a": fresh()}, None, "bootstrap", "a", []),
    ("all fresh, one forced", {"a": fresh(), "b": fresh()}, "b", "bootstrap", "b", ["a"]),
    ("first has databases", {"a": fresh(), "b": fresh(databases=["shop"]), "c": fresh()}, None, "bootstrap", "b", ["a", "c"]),
    ("data set aside", {"a": fresh(aside=["/d.before-x"]), "b": fresh()}, None, "refuse", None, []),
    ("data set aside, forced", {"a": fresh(aside=["/d.before-x"]), "b": fresh()}, "a", "refuse", None, []),
    ("data set aside, one restored", {"a": fresh(aside=["/d.before-x"]), "b": fresh(databases=["shop"])}, "b", "bootstrap", "b", ["a"]),
    ("data set aside, others have it", {"a": fresh(aside=["/d.before-x"]), "b": stopped(9)}, None, "bootstrap", "b", ["a"]),
    ("data set aside, the others run", {"a": fresh(aside=["/d.before-x"]), "b": primary()}, None, "join", None, ["a"]),
    ("all fine", {"a": primary(), "b": primary(), "c": primary()}, None, "none", None, []),
    ("one fresh, the others run", {"a": fresh(), "b": primary(), "c": primary()}, None, "join", None, ["a"]),
    ("one stopped, the others run", {"a": stopped(10), "b": primary(9), "c": primary(10)}, None, "join", None, ["a"]),
    ("one without quorum, the others run", {"a": alone(), "b": primary(), "c": primary()}, None, "join", None, ["a"]),
    ("one missing, the others run", {"a": None, "b": primary(), "c": fresh()}, None, "join", None, ["c"]),
    ("killed after the first had started", {"a": primary(0), "b": fresh(), "c": fresh()}, None, "join", None, ["b", "c"]),
    ("a force left set does no harm", {"a": stopped(5), "b": primary(), "c": primary()}, "a", "join", None, ["a"]),
    ("highest position", {"a": stopped(5), "b": stopped(9), "c": stopped(7)}, None, "bootstrap", "b", ["a", "c"]),
    ("highest position runs without quorum", {"a": stopped(5), "b": alone(9), "c": alone(7)}, None, "bootstrap", "b", ["a", "c"]),
    ("highest position is stopped", {"a": stopped(10), "b": alone(9), "c": alone(7)}, None, "bootstrap", "a", ["b", "c"]),
    ("tie: the one that runs", {"a": stopped(9), "b": alone(9), "c": stopped(9)}, None, "bootstrap", "b", ["a", "c"]),
    ("tie: the one marked safe", {"a": stopped(9), "b": stopped(9, safe_to_bootstrap=True)}, None, "bootstrap", "b", ["a"]),
    ("tie: the first", {"a": stopped(3), "b": stopped(9), "c": stopped(9)}, None, "bootstrap", "b", ["a", "c"]),
    ("one lost its data", {"a": fresh(), "b": stopped(9), "c": stopped(7)}, None, "bootstrap", "b", ["a", "c"]),
    ("zeros are not a uuid", {"a": stopped(-1, NO_UUID), "b": stopped(9)}, None, "bootstrap", "b", ["a"]),
    ("zeros, but databases: the operator chooses", {n: fresh(databases=["keystone"]) for n in "abc"}, "b", "bootstrap", "b", ["a", "c"]),
    ("databases of a cluster on all", {"a": stopped(5, databases=["shop"]), "b": stopped(9, databases=["shop", "wiki"])}, None, "bootstrap", "b", ["a"]),
    ("a database was dropped meanwhile, the operator chooses", {"a": stopped(5, databases=["shop"]), "b": stopped(9)}, "b", "bootstrap", "b", ["a"]),
    ("a database that the cluster lacks, the operator chooses", {"a": stopped(5, databases=["shop"]), "b": primary()}, "b", "join", None, ["a"]),
    ("forced though one is missing", {"a": stopped(5), "b": None, "c": stopped(7)}, "a", "bootstrap", "a", ["c"]),
    ("forced though unreadable", {"a": stopped(-1), "b": stopped(-1)}, "b", "bootstrap", "b", ["a"]),
]


@pytest.mark.parametrize(("looks", "force", "action", "start", "join"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_decision(looks, force, action, start, join):
    decision = on(force, **looks)
    assert (decision.action, decision.bootstrap, list(decision.join)) == (action, start, join), decision.reason


@pytest.mark.parametrize(
    ("looks", "force", "discard"),
    [
        ({n: fresh(databases=["keystone"]) for n in "abc"}, "b", ("a", "c")),
        ({"a": stopped(5, databases=["shop"]), "b": stopped(9), "c": stopped(9)}, "b", ("a",)),
        ({"a": fresh(databases=["shop"]), "b": stopped(9, databases=["shop"]), "c": fresh()}, "b", ("a",)),
        ({"a": stopped(5, databases=["shop"]), "b": primary()}, "b", ("a",)),
    ],
)
def test_databases_that_the_operator_decided_against_are_set_aside(looks, force, discard):
    decision = on(force, **looks)
    assert decision.discard == discard
    assert all(f"{name}: " in decision.reason for name in discard) and "set aside" in decision.reason


def test_a_member_ahead_of_the_forced_one_is_named_and_discarded():
    decision = on("a", a=stopped(5), b=stopped(9), c=stopped(5), d=fresh())
    assert (decision.bootstrap, decision.join, decision.discard) == ("a", ("b", "c", "d"), ("b",))
    assert decision.reason == "a (position 5) was forced by the operator; newer rows of b are lost."
    assert on(None, a=stopped(5), b=stopped(9)).discard == ()


@pytest.mark.parametrize(
    ("what", "looks", "force", "named"),
    [
        ("marked, but behind", {"a": stopped(5, safe_to_bootstrap=True), "b": stopped(9), "c": stopped(9)}, None, ["a"]),
        ("marked, but behind one that runs without quorum", {"a": stopped(5, safe_to_bootstrap=True), "b": alone(9)}, None, ["a"]),
        ("two are marked", {"a": stopped(9, safe_to_bootstrap=True), "b": stopped(9, safe_to_bootstrap=True)}, None, ["b"]),
        ("marked, but behind the forced one", {"a": stopped(5, safe_to_bootstrap=True), "b": stopped(9), "c": None}, "b", ["a"]),
        ("the marked one starts", {"a": stopped(5), "b": stopped(9, safe_to_bootstrap=True)}, None, []),
        ("none is marked", {"a": stopped(5), "b": stopped(9)}, None, []),
        ("one that runs wins a tie", {"a": stopped(9, safe_to_bootstrap=True), "b": alone(9)}, None, []),
    ],
)
def test_a_mark_that_contradicts_the_positions_is_a_warning(what, looks, force, named):
    decision = on(force, **looks)
    assert decision.action == "bootstrap"
    found = [warning for warning in decision.warnings if "safe_to_bootstrap" in warning]
    assert [warning.split()[0] for warning in found] == list(decision.discard) == named, what
    for warning in found:
        assert warning in decision.reason
        assert f"{decision.bootstrap} is" in warning


def in_view(node, view, configuration, seqno=10, **more):
    """A member of a Primary Component as ``galera_info`` returns it."""
    return {**primary(seqno), "node": f"id-{node}", "view": [f"id-{one}" for one in view], "size": len(view), "configuration": configuration, **more}


def test_two_primary_components_of_one_cluster_are_refused():
    decision = on(None, a=in_view("a", "a", 5, 40), b=in_view("b", "bc", 4, 31), c=in_view("c", "bc", 4, 30))
    assert decision.action == "refuse" and not decision.join
    assert decision.reason == (
        f"there are 2 Primary Components of the cluster {A} at once: a (size 1, configuration 5, position 40) and "
        "b, c (size 2, configuration 4, position 31); that of a has committed more."
    )
    assert "move their data directories away" in decision.hint
    # a force never overrules a Primary Component
    assert on("a", a=in_view("a", "a", 5), b=in_view("b", "b", 4)).action == "refuse"


@pytest.mark.parametrize(
    ("what", "looks", "apart"),
    [
        ("one whole", {"a": in_view("a", "abc", 4), "b": in_view("b", "abc", 4), "c": in_view("c", "abc", 4)}, 1),
        # the members are probed one after the other
        ("c joined while they were probed", {"a": in_view("a", "ab", 4), "b": in_view("b", "abc", 5), "c": in_view("c", "abc", 5)}, 1),
        ("c left while they were probed", {"c": in_view("c", "abc", 4), "a": in_view("a", "ab", 5), "b": in_view("b", "ab", 5)}, 1),
        ("seen together through a third", {"a": in_view("a", "ab", 4), "c": in_view("c", "bc", 6), "b": in_view("b", "abc", 5)}, 1),
        ("equal numbers, other members", {"a": in_view("a", "a", 4), "b": in_view("b", "b", 4)}, 2),
        ("three", {"a": in_view("a", "a", 4), "b": in_view("b", "b", 4), "c": in_view("c", "c", 4)}, 3),
        ("without ids: the configuration", {"a": {**primary(), "size": 1, "configuration": 5}, "b": {**primary(), "size": 2, "configuration": 4}}, 2),
        ("without ids: equal numbers", {"a": {**primary(), "size": 1, "configuration": 4}, "b": {**primary(), "size": 2, "configuration": 4}}, 2),
        ("without ids: the same one", {"a": {**primary(), "size": 2, "configuration": 4}, "b": {**primary(), "size": 2, "configuration": 4}}, 1),
    ],
)
def test_components(what, looks, apart):
    assert len(components(primary_members(looks))) == apart, what
    assert on(None, **looks).action == ("none" if apart == 1 else "refuse")


def seen_last(seqno, names, caught_up=True, **more):
    """A stopped member whose last Primary Component had these members."""
    saved = {"id": f"3 {names} 7", "members": {f"id-{name}": "garb" if name == "g" else name for name in names}}
    return stopped(seqno, saved_view=saved, caught_up=caught_up, **more)


LAST = [
    ("the third one was not in the last component", {"a": seen_last(8, "ab"), "b": seen_last(9, "ab"), "c": None}, "bootstrap", "b"),
    ("two and a witness, the other one was not in it", {"a": None, "b": seen_last(9, "bg")}, "bootstrap", "b"),
    ("one of it is silent", {"a": seen_last(8, "ab"), "b": None, "c": stopped(3)}, "refuse", None),
    ("not seen with all changes applied", {"a": seen_last(8, "ab", False), "b": seen_last(9, "ab", False), "c": None}, "refuse", None),
    ("one of them was in another one since", {"a": seen_last(8, "ab"), "b": seen_last(9, "bc"), "c": None}, "refuse", None),
    ("a member without a name", {"a": stopped(8, saved_view={"id": "v", "members": {"x": None}}, caught_up=True), "b": None}, "refuse", None),
    ("views differ, all answer", {"a": seen_last(8, "ab"), "b": seen_last(9, "bc"), "c": seen_last(7, "bc", False)}, "bootstrap", "b"),
    ("another one is ahead", {"a": seen_last(8, "ab"), "b": seen_last(9, "ab"), "c": stopped(12)}, "refuse", None),
    ("two of them", {"a": seen_last(8, "a"), "b": seen_last(9, "b")}, "refuse", None),
    ("the position of another one is unknown", {"a": seen_last(8, "ab"), "b": seen_last(9, "ab"), "c": stopped(-1)}, "bootstrap", "b"),
]  # fmt: skip


@pytest.mark.parametrize(("looks", "action", "starts"), [row[1:] for row in LAST], ids=[row[0] for row in LAST])
def test_only_members_of_the_last_component_are_waited_for(looks, action, starts):
    decision = on(**looks)
    assert (decision.action, decision.bootstrap) == (action, starts), decision
    # an operator may still choose
    assert on("a" if looks["a"] else "b", **looks).action == "bootstrap"


def test_equal_positions_do_not_mean_equal_rows():
    assert "does not mean that their rows are" in on(None, a=in_view("a", "a", 4), b=in_view("b", "b", 4)).reason


def test_every_member_is_described():
    looks = {"a": stopped(5), "b": stopped(9, safe_to_bootstrap=True), "c": None, "d": alone(-1), "e": fresh(databases=["shop"])}
    members = {name: Member.from_facts(name, facts) if facts else None for name, facts in looks.items()}
    assert describe(members, decide(members)) == [
        f"a: stopped, position 5 of cluster {A}; no change",
        f"b: stopped, position 9 of cluster {A}, was the last member to leave; no change",
        "c: does not answer; no change",
        f"d: running without quorum, position unknown of cluster {A}; no change",
        "e: stopped, no data of a cluster, databases shop; no change",
    ]
    members = {name: Member.from_facts(name, facts) for name, facts in {"a": stopped(5), "b": stopped(9), "c": stopped(4)}.items()}
    assert [line.rpartition("; ")[2] for line in describe(members, decide(members, "a"))] == [
        "starts the cluster", "joins after its own data is set aside", "joins"
    ]  # fmt: skip
    members = {name: Member.from_facts(name, facts) for name, facts in {"a": primary(), "b": stopped(4)}.items()}
    assert describe(members, decide(members)) == [
        f"a: in a Primary Component, position 10 of cluster {A}; no change",
        f"b: stopped, position 4 of cluster {A}; joins",
    ]


REFUSED = [
    ("no members", {}, None, "no members"),
    ("one missing, no Primary Component", {"a": stopped(5), "b": None, "c": stopped(7)}, None, "b does not answer"),
    ("one missing, all fresh", {"a": fresh(), "b": None}, None, "b does not answer"),
    ("all missing", {"a": None, "b": None}, None, "a, b does not answer"),
    ("one position cannot be read", {"a": stopped(5), "b": stopped(-1)}, None, "position of b cannot be read"),
    ("no position can be read", {"a": stopped(-1), "b": stopped(-1)}, None, "position of a, b cannot be read"),
    ("two clusters alive", {"a": primary(), "b": primary(uuid=B)}, None, "2 clusters at once"),
    ("two clusters stopped", {"a": stopped(5), "b": stopped(9, B)}, None, "different clusters"),
    ("foreign, the others run", {"a": stopped(5, B), "b": primary(), "c": primary()}, None, f"a ({B})"),
    ("foreign, forced", {"a": stopped(5), "b": stopped(9, B)}, "a", f"b ({B})"),
    ("ahead of the running cluster", {"a": stopped(11), "b": primary(9), "c": primary(10)}, None, "a (position 11) is ahead of the running cluster (c"),
    ("without quorum and ahead of the running cluster", {"a": alone(12), "b": primary()}, "a", "that the cluster has lost"),
    ("last member to leave, the other runs", {"a": stopped(4, safe_to_bootstrap=True), "b": primary(9)}, None, "a (position 4) was the last member to leave"),
    ("databases would be wiped", {"a": fresh(databases=["shop"]), "b": primary()}, None, "a: shop"),
    ("databases on two", {"a": fresh(databases=["shop"]), "b": fresh(databases=["wiki"])}, None, "b: wiki"),
    ("the same database on all, zeros", {n: fresh(databases=["keystone"]) for n in "abc"}, None, "a: keystone; b: keystone; c: keystone"),
    ("one of them runs, another one is named", {"a": primary(), "b": fresh(databases=["shop"])}, "b", "b: shop"),
    ("missing on the newest", {"a": stopped(5, databases=["shop", "wiki"]), "b": stopped(9, databases=["shop"])}, None, "a: wiki"),
    ("missing on the running cluster", {"a": stopped(5, databases=["wiki"]), "b": {**primary(), "databases": ["shop"]}}, None, "a: wiki"),
    ("newest is empty", {"a": stopped(5, databases=["shop"]), "b": stopped(9)}, None, "a: shop"),
    ("databases beside data of a cluster", {"a": fresh(databases=["shop"]), "b": stopped(4)}, None, "a: shop"),
    ("forced one is missing", {"a": None, "b": stopped(4)}, "a", "a is forced to start the cluster, but does not answer"),
    ("forced one is unknown", {"a": stopped(4)}, "z", "z is forced to start the cluster, but is not among the members"),
    ("forced one has no data", {"a": fresh(), "b": stopped(4)}, "a", "has no data"),
]


@pytest.mark.parametrize(("looks", "force", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused(looks, force, words):
    decision = on(force, **looks)
    assert decision.action == "refuse"
    assert words in decision.reason
    assert decision.hint and decision.bootstrap is None and not decision.join


@pytest.mark.parametrize(("size", "words"), [(1, None), (2, "even"), (3, None), (4, "even"), (5, None), (6, "slow"), (7, "slow")])
def test_sizes(size, words):
    warnings = on(**{f"m{number}": fresh() for number in range(size)}).warnings
    assert bool(warnings) == bool(words)
    assert not words or words in warnings[0]


LOOKS = st.one_of(
    st.none(),
    st.builds(
        dict,
        running=st.booleans(),
        primary=st.booleans(),
        cluster_uuid=st.sampled_from([None, NO_UUID, A, B]),
        seqno=st.integers(-1, 5),
        safe_to_bootstrap=st.booleans(),
        databases=st.sampled_from([[], ["shop"]]),
    ),
)


@given(st.dictionaries(st.sampled_from("abcde"), LOOKS, min_size=1), st.sampled_from([None, "a", "b"]))
def test_no_decision_loses_data_silently(looks, force):
    decision = on(force, **looks)
    alive = [name for name, facts in looks.items() if facts and facts["primary"]]
    if decision.action == "bootstrap":
        chosen = looks[decision.bootstrap]
        # never while a Primary Component exists
        assert not alive
        others = [facts for name, facts in looks.items() if name != decision.bootstrap]
        # never with older data than another has, never without one that may have newer, unless the operator forces it
        if not force:
            assert None not in others
            with_data = [facts for facts in others if facts["cluster_uuid"] in (A, B)]
            assert all(facts["seqno"] <= chosen["seqno"] and facts["cluster_uuid"] == chosen["cluster_uuid"] for facts in with_data)
    if decision.action in ("bootstrap", "join"):
        for name in decision.join:
            facts = looks[name]
            # a member that joins has no data of another cluster and no databases
            assert facts["cluster_uuid"] in (None, NO_UUID, decision.uuid)
            keeper = [decision.bootstrap] if decision.bootstrap else alive
            kept = set().union(*(looks[one]["databases"] for one in keeper))
            if name not in decision.discard:
                assert not facts["databases"] or (facts["cluster_uuid"] == decision.uuid and set(facts["databases"]) <= kept)
