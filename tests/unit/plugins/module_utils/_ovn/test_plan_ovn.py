# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._ovn import plan_ovn
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.plan_ovn import CLUSTERED, NORTHBOUND, SOUTHBOUND, STANDALONE, Look

ADDRESSES = {"a": "192.0.2.1", "b": "192.0.2.2", "c": "192.0.2.3"}
RAFT = {name: f"ssl:{address}:6643" for name, address in ADDRESSES.items()}
ALL = tuple(RAFT.values())
GONE = "ssl:192.0.2.9:6643"
LEADER = """133b
Name: OVN_Northbound
Cluster ID: 5efa (5efa4e92-fd76-4ca4-9ecb-679bb86e0b8f)
Server ID: 133b (133b66c4-4bec-4869-a209-f752538cbea4)
Address: ssl:192.0.2.1:6643
Status: cluster member
Role: leader
Term: 4
Leader: self
Vote: self

Last Election won: 51091 ms ago
Election timer: 1000
Connections: <-edf4 ->edf4 <-7e12 ->7e12
Servers:
    7e12 (7e12 at ssl:192.0.2.3:6643) next_index=7 match_index=6 last msg 66 ms ago
    133b (133b at ssl:192.0.2.1:6643) (self) next_index=2 match_index=6
    edf4 (edf4 at ssl:192.0.2.2:6643) next_index=7 match_index=6 last msg 9081 ms ago
"""


def serving(cluster="one", servers=ALL, leader=RAFT["a"]):
    return Look(CLUSTERED, cluster, True, leader, tuple(servers))


def decide(looks, **options):
    return plan_ovn.decide(looks, ADDRESSES, NORTHBOUND, **options)


def test_the_status_of_a_leader():
    found = plan_ovn.parse_status(LEADER)
    assert found == {
        "status": "cluster member",
        "role": "leader",
        "term": 4,
        "leader": RAFT["a"],
        "servers": sorted(ALL),
        "silent": [RAFT["b"]],
    }


def test_the_status_without_a_majority_and_without_an_answer():
    found = plan_ovn.parse_status(LEADER.replace("Role: leader", "Role: candidate").replace("Leader: self", "Leader: unknown"))
    assert (found["leader"], found["role"], found["silent"]) == ("", "candidate", [])
    assert plan_ovn.parse_status("")["servers"] == []


@pytest.mark.parametrize(
    ("looks", "options", "expected"),
    [
        ({name: Look() for name in ADDRESSES}, {}, {"action": "create", "create": "a", "join": ("b", "c"), "seeds": (RAFT["a"],)}),
        # a database that is not clustered is converted
        ({"a": Look(), "b": Look(STANDALONE), "c": Look()}, {}, {"create": "b", "join": ("a", "c")}),
        # a lost disk; a member that was removed before the run was killed is only joined
        ({"a": serving(), "b": Look(), "c": serving()}, {}, {"action": "join", "join": ("b",), "kick": (RAFT["b"],), "kicker": "a"}),
        ({"a": serving(servers=ALL[::2]), "b": Look(), "c": serving(servers=ALL[::2])}, {}, {"kick": ()}),
        # a new member, while another one is down
        ({"a": serving(servers=ALL[:2]), "b": None, "c": Look()}, {}, {"action": "join", "join": ("c",), "kick": (), "warnings": ("b does not answer.",)}),
        # a member that left
        ({"a": serving(servers=(*ALL, GONE)), "b": serving(), "c": serving()}, {"gone": ["192.0.2.9"]}, {"action": "kick", "kick": (GONE,), "join": ()}),
        # stopped ones start
        ({"a": serving(), "b": Look(CLUSTERED, "one"), "c": serving()}, {}, {"action": "start"}),
        ({name: Look(CLUSTERED, "one") for name in ADDRESSES}, {}, {"action": "start"}),
        ({name: serving() for name in ADDRESSES}, {}, {"action": "none"}),
        # a forced member never overrules a leader
        ({name: serving() for name in ADDRESSES}, {"force": "b"}, {"action": "none"}),
    ],
)
def test_decision(looks, options, expected):
    found = decide(looks, **options)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    "looks, words",
    [
        ({}, "no members"),
        ({"a": Look(), "b": None, "c": Look()}, "b does not answer: it may have it"),
        ({"a": Look(STANDALONE), "b": Look(STANDALONE), "c": Look()}, "a, b each have"),
        ({"a": serving(), "b": Look(STANDALONE), "c": serving()}, "b is not clustered"),
        ({"a": serving(), "b": serving("two"), "c": serving()}, "2 clusters of OVN_Northbound: one on a, c; two on b"),
        ({"a": serving(servers=(*ALL, "ssl:192.0.2.9:6643")), "b": serving(), "c": serving()}, "ssl:192.0.2.9:6643, which is not in the inventory"),
        ({"a": serving(leader=""), "b": None, "c": Look()}, "1 of 3 servers are not a majority (b does not answer; c lost the data)"),
    ],
)
def test_refused(looks, words):
    found = decide(looks)
    assert found.action == "refuse" and words in found.reason and found.hint


@pytest.mark.parametrize("running", [True, False])
def test_a_member_that_was_removed_joins_again(running):
    # a witness that left and returns: its files name the cluster, and members that it had then
    left = (RAFT["a"], RAFT["b"])
    before = (*ALL, "ssl:192.0.2.9:6643") if running else ()
    found = decide({"a": serving(servers=left), "b": serving(servers=left), "c": Look(CLUSTERED, "one", running, "", before)})
    assert (found.action, found.join, found.discard, found.kick, found.seeds) == ("join", ("c",), ("c",), (), left)
    # not one that is joining, one of another cluster, or one that the others have lost
    assert decide({"a": serving(servers=left), "b": serving(servers=left), "c": Look(CLUSTERED, "", True)}).action == "none"
    assert decide({"a": serving(servers=left), "b": serving(servers=left), "c": Look(CLUSTERED, "two", running)}).action == "refuse"
    assert decide({"a": Look(CLUSTERED, "one", True, "", left), "b": None, "c": Look(CLUSTERED, "one", running)}).discard == ()


def test_a_forced_member_starts_a_new_cluster():
    looks = {"a": Look(), "b": serving(leader=""), "c": Look(CLUSTERED, "one")}
    found = decide(looks, force="b")
    assert (found.action, found.force, found.join, found.discard) == ("force", "b", ("a", "c"), ("c",))
    # killed after that: the others still have the old cluster
    later = decide({**looks, "b": serving("two", servers=(RAFT["b"],), leader=RAFT["b"])}, force="b")
    assert (later.action, later.join, later.discard, later.seeds) == ("join", ("a", "c"), ("c",), (RAFT["b"],))
    assert later.force == ""


def test_stopped_members_are_started_before_one_is_forced():
    looks = {"a": None, "b": serving(leader=""), "c": Look(CLUSTERED, "one")}
    found = decide(looks, force="b", started=False)
    assert (found.action, found.force, found.discard) == ("start", "", ()) and "c is stopped, and starts before b may be forced" in found.reason
    # it was started: both have a leader, or it does not run
    assert decide({**looks, "b": serving(), "c": serving()}, force="b").force == ""
    assert decide(looks, force="b").force == "b"
    assert decide({**looks, "c": serving(leader="")}, force="b", started=False).force == "b"


@pytest.mark.parametrize("force, words", [("x", "is not a member that answers"), ("c", "has no data of it")])
def test_a_wrong_forced_member_is_refused(force, words):
    assert words in decide({"a": serving(leader=""), "b": None, "c": Look()}, force=force).reason


def test_decisions_of_both_databases():
    empty = {"file": "none"}
    full = {"file": CLUSTERED, "cluster": "one", "running": True, "leader": RAFT["a"], "servers": list(ALL)}
    facts = {name: {NORTHBOUND: full, SOUTHBOUND: empty} for name in ADDRESSES}
    facts["b"] = {NORTHBOUND: {**full, "running": False, "leader": "", "servers": []}, SOUTHBOUND: empty}
    found = plan_ovn.decide_all(facts, ADDRESSES)
    assert found["refused"] == "" and found["start"] == ["b"]
    assert found["begin"] == {"a": {SOUTHBOUND: {"create": True}}}
    assert found["steps"]["b"] == {NORTHBOUND: {}, SOUTHBOUND: {"join": ["ssl:192.0.2.1:6644"]}}
    assert found["kick"] == {}


def test_the_refusals_of_both_databases_are_shown():
    found = plan_ovn.decide_all({"a": {NORTHBOUND: {}, SOUTHBOUND: {}}, "b": None}, ADDRESSES)
    assert "OVN_Northbound" in found["refused"] and "OVN_Southbound" in found["refused"]


def test_kicks_name_the_member_that_removes():
    full = {"file": CLUSTERED, "cluster": "one", "running": True, "leader": RAFT["a"], "servers": list(ALL)}
    south = {**full, "servers": [one.replace("6643", "6644") for one in ALL], "leader": "ssl:192.0.2.1:6644"}
    facts = {"a": {NORTHBOUND: full, SOUTHBOUND: south}, "b": {NORTHBOUND: full, SOUTHBOUND: {"file": "none"}}, "c": {NORTHBOUND: full, SOUTHBOUND: south}}
    assert plan_ovn.decide_all(facts, ADDRESSES)["kick"] == {SOUTHBOUND: {"host": "a", "addresses": ["ssl:192.0.2.2:6644"]}}


def test_problems():
    ok = {"running": True, "status": "cluster member", "leader": RAFT["a"], "servers": list(ALL)}
    assert plan_ovn.problems({NORTHBOUND: ok}, 3) == ()
    assert plan_ovn.problems({NORTHBOUND: ok}, 2) == ("OVN_Northbound has 3 of 2 servers",)
    assert plan_ovn.problems({NORTHBOUND: {**ok, "leader": ""}}) == ("OVN_Northbound has no leader: a majority is missing",)
    assert plan_ovn.problems({NORTHBOUND: {**ok, "status": "joining cluster"}}) == ("OVN_Northbound is joining cluster",)
    assert plan_ovn.problems({NORTHBOUND: {"running": False}}) == ("OVN_Northbound is not running",)


def test_separate_clusters_and_leaders():
    part = {NORTHBOUND: {"cluster": "one", "leader": RAFT["a"], "term": 3}, SOUTHBOUND: {"cluster": "x", "leader": "", "term": 1}}
    other = {NORTHBOUND: {"cluster": "two", "leader": RAFT["b"], "term": 4}, SOUTHBOUND: {"cluster": "x", "leader": "", "term": 1}}
    assert plan_ovn.separate({"a": part, "b": part}) == []
    assert plan_ovn.separate({"a": part, "b": other}) == ["there are 2 separate clusters of OVN_Northbound: one, two"]
    assert plan_ovn.leaders([part, other]) == "OVN_Northbound is led by 192.0.2.2"


def test_addresses_of_ipv6_members():
    assert plan_ovn.raft_address("2001:db8::1", SOUTHBOUND) == "ssl:[2001:db8::1]:6644"
