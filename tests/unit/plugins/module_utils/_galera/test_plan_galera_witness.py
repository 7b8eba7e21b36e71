# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two members with data and a witness: every combination of their states."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import choose_member
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_galera import Decision, Member, decide, describe

A = "aaaaaaaa-0000-11ef-8000-000000000001"
#: What a member with data may look like.
STATES = {
    "primary": {"running": True, "primary": True, "cluster_uuid": A, "seqno": 10},
    "alone": {"running": True, "primary": False, "cluster_uuid": A, "seqno": 10},
    "behind": {"cluster_uuid": A, "seqno": 5},
    "last": {"cluster_uuid": A, "seqno": 10, "safe_to_bootstrap": True},
    "unread": {"cluster_uuid": A, "seqno": -1},
    "fresh": {"cluster_uuid": None, "seqno": -1},
    "missing": None,
}
WITNESS = {"running": True, "stopped": False, "missing": None}


def decided(a: str, b: str, witness: str | None, force: str | None = None) -> Decision:
    members = {name: Member.from_facts(name, STATES[state]) if STATES[state] else None for name, state in (("a", a), ("b", b))}
    return decide(members, force, {"w": WITNESS[witness]} if witness else {})


@pytest.mark.parametrize("witness", WITNESS)
@pytest.mark.parametrize("force", [None, "a", "b"])
@pytest.mark.parametrize("a, b", itertools.product(STATES, repeat=2))
def test_a_witness_changes_no_decision_about_data(a: str, b: str, force: str | None, witness: str) -> None:
    found, without = decided(a, b, witness, force), decided(a, b, None, force)
    assert (found.action, found.bootstrap, found.join, found.discard, found.uuid) == (
        without.action, without.bootstrap, without.join, without.discard, without.uuid,
    )  # fmt: skip
    # it starts nothing, joins nothing and has no data to set aside
    assert "w" not in (found.bootstrap, *found.join, *found.discard)


@pytest.mark.parametrize("witness", WITNESS)
@pytest.mark.parametrize("a, b", itertools.product(STATES, repeat=2))
def test_it_is_stopped_exactly_before_a_member_starts_the_cluster(a: str, b: str, witness: str) -> None:
    found = decided(a, b, witness)
    assert found.silence == (("w",) if found.action == "bootstrap" and witness == "running" else ())
    warned = any("w does not answer" in text for text in found.warnings)
    assert warned == (found.action == "bootstrap" and witness == "missing")


@pytest.mark.parametrize(
    "a, b, action, starts",
    [
        ("primary", "primary", "none", None),
        ("primary", "missing", "none", None),
        ("primary", "behind", "join", None),
        ("primary", "last", "refuse", None),
        ("alone", "alone", "bootstrap", "a"),
        ("alone", "missing", "refuse", None),
        ("behind", "last", "bootstrap", "b"),
        ("behind", "missing", "refuse", None),
        ("last", "missing", "refuse", None),
        ("unread", "last", "refuse", None),
        ("fresh", "fresh", "bootstrap", "a"),
        ("fresh", "missing", "refuse", None),
        ("missing", "missing", "refuse", None),
    ],
)
def test_the_decisions_of_two_members(a: str, b: str, action: str, starts: str | None) -> None:
    for witness in WITNESS:
        found = decided(a, b, witness)
        assert (found.action, found.bootstrap) == (action, starts)


def test_two_members_and_a_witness_are_an_odd_number() -> None:
    assert decided("primary", "primary", "running").warnings == ()
    assert "2 members: an even number" in decided("primary", "primary", None).warnings[0]


def test_the_list_names_the_witness_and_what_happens_to_it() -> None:
    members = {name: Member.from_facts(name, STATES["alone"]) for name in "ab"}
    lines = describe(members, decide(members, None, {"w": True}), {"w": True, "x": None, "y": False})
    assert lines[:3] == [
        "w: witness, running, a vote without data; is stopped until the cluster is started",
        "x: witness, does not answer, a vote without data; no change",
        "y: witness, stopped, a vote without data; no change",
    ]


def test_a_backup_is_made_of_a_member_with_data() -> None:
    ready = {"ready": True, "primary": True, "clients": 4, "seqno": 1, "cluster_uuid": A}
    assert choose_member({"a": ready, "b": {**ready, "clients": 9}}) == "a"
