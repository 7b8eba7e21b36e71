# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a guard does when the Primary Component is lost: the tables. ``tests/model`` explores what several guards do together."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_return import Report, View, newest, read_kept, read_view, step, unconfirmed

A = "aaaaaaaa-0000-11ef-8000-000000000001"
B = "bbbbbbbb-0000-11ef-8000-000000000002"
NAMES = {"1": "a", "2": "b", "3": "c", "9": "garb"}


def view(members, seq=7):
    """The saved view of members by their names, ``g`` for the witness."""
    nodes = {**{name: node for node, name in NAMES.items()}, "g": "9"}
    return View(f"3 {members} {seq}", seq, tuple(nodes.get(name, name) for name in members))


def member(name, last="abc", position=10, caught_up=True, **more):
    """A member that runs isolated, in its saved view caught up."""
    saved = view(last) if last else None
    facts = {"state": "running", "isolated": True, "joined": True, "uuid": A, **more}
    return Report(name, position=position, view=saved, caught_up=saved.id if saved and caught_up else None, names=NAMES, **facts)


def stopped(name, last="abc", position=10, **more):
    return member(name, last, position, **{"state": "stopped", "isolated": False, "joined": False, **more})


def waiting(name, last="abc", position=10, **more):
    return stopped(name, last, position, **{"state": "starting", **more})


def serving(name, **more):
    return member(name, **{"primary": True, "ready": True, "isolated": False, **more})


def lost(name, **more):
    return member(name, isolated=False, **more)


STEPS = [
    # what, reports in the order a, b, c, witnesses, action of a, who is waited for
    ("all serve", [serving("a"), serving("b"), serving("c")], 0, "none", ()),
    ("it formed the component", [serving("a", isolated=True), member("b"), member("c")], 0, "connect", ()),
    ("just lost", [lost("a"), None, None], 0, "isolate", ()),
    ("just lost, others serve", [lost("a"), serving("b"), None], 0, "none", ()),
    ("isolated, others serve", [member("a"), serving("b"), None], 0, "connect", ()),
    ("waiting, others serve", [waiting("a"), serving("b"), None], 0, "none", ()),
    ("isolated, the one that formed the component is isolated too", [member("a"), serving("b", isolated=True), None], 0, "wait", ("c",)),
    ("the same, all answer", [member("a"), serving("b", isolated=True), member("c")], 0, "wait", ("b",)),
    ("stopped for forming, others serve", [stopped("a"), serving("b"), None], 0, "connect", ()),
    ("the other cluster serves", [member("a"), serving("b", uuid=B), None], 0, "refuse", ()),
    ("it has no data, others serve", [waiting("a", uuid=None, position=None), serving("b"), None], 0, "none", ()),
    # a plain cut: the first name of equal ones
    ("all isolated", [member("a"), member("b"), member("c")], 0, "form", ()),
    ("another one is first", [member("a"), member("b", position=11), member("c")], 0, "wait", ("b",)),
    ("another one is not isolated yet", [member("a"), lost("b"), member("c")], 0, "wait", ("b",)),
    ("another one is isolated, and believes that it is Primary", [member("a"), member("b", primary=True), member("c")], 0, "wait", ("b",)),
    ("one is silent", [member("a"), member("b"), None], 0, "wait", ("c",)),
    # the older member in memory and newer ones on disk
    ("cut off, the others were restarted", [member("a"), waiting("b", "bc", 20), waiting("c", "bc", 19)], 0, "wait", ("b",)),
    ("cut off, one of the others is silent", [member("a"), waiting("b", "bc", 20), None], 0, "wait", ("c",)),
    ("restarted, without the one that was cut off", [waiting("a", "ab", 20), waiting("b", "ab", 19), None], 0, "form", ()),
    ("the same, with it", [waiting("a", "ab", 20), waiting("b", "ab", 19), member("c")], 0, "form", ()),
    ("the same, not caught up", [waiting("a", "ab", 20, caught_up=False), waiting("b", "ab", 19, caught_up=False), None], 0, "wait", ("c",)),
    ("stopped for forming, still the first", [stopped("a", "ab", 20), waiting("b", "ab", 19), member("c")], 0, "form", ()),
    # saved views that differ
    ("views differ", [waiting("a", "ab", 20), waiting("b", "bc", 19), waiting("c", "abc", 5)], 0, "form", ()),
    ("views differ, one is silent", [waiting("a", "ab", 20), waiting("b", "bc", 19), None], 0, "wait", ("c",)),
    ("no view after an orderly stop", [waiting("a", None, 20), waiting("b", "bc", 19), waiting("c", "bc", 19)], 0, "wait", ("b",)),
    ("no view at all", [waiting("a", None, 20), waiting("b", None, 19), waiting("c", None, 19)], 0, "form", ()),
    ("a node without a name", [waiting("a", "axy", 20), None, None], 0, "wait", ("b", "c")),
    ("two last components", [waiting("a", "a"), waiting("b", "b"), member("c")], 0, "refuse", ()),
    # nonsense and the unknown
    ("a position is unknown", [member("a"), member("b", position=None), member("c")], 0, "wait", ("b",)),
    ("the own position is still changing", [member("a", position=None), member("b"), member("c")], 0, "wait", ("a",)),
    ("one has lost its data", [member("a"), waiting("b", uuid=None, position=None), member("c")], 0, "form", ()),
    ("no member has data", [waiting(n, uuid=None, position=None) for n in "abc"], 0, "refuse", ()),
    ("data of another cluster", [member("a"), waiting("b", uuid=B), member("c")], 0, "refuse", ()),
    ("the guard of another one gave up", [member("a", position=9), member("b", failed="stopped"), member("c", position=9)], 0, "wait", ("b",)),
    ("the own guard gave up", [member("a", failed="tries"), member("b"), member("c")], 0, "none", ()),
    ("the own server hangs", [None, member("b"), member("c")], 0, "wait", ("a",)),
    # a witness
    ("two and a witness, both are here", [waiting("a", "abg"), waiting("b", "abg")], 1, "form", ()),
    ("the last one with data", [waiting("a", "ag"), None], 1, "form", ()),
    ("the other one was the last", [member("a", "abg"), None], 1, "wait", ("b",)),
    ("with the witness, without the data", [waiting("a", "ag", 5, caught_up=False, joined=True), None], 1, "wait", ("b",)),
    ("the same, the data is back", [waiting("a", "ag", 5, caught_up=False, joined=True), member("b", "abg")], 1, "restart", ()),
    ("the same, its server answers", [serving("a", last="ag", position=5, caught_up=False, ready=False), member("b", "abg")], 1, "isolate", ()),
    ("the same, isolated", [member("a", "ag", 5, caught_up=False, primary=True), member("b", "abg")], 1, "wait", ("b",)),
    ("the data is here, another one is with the witness", [member("a", "abg"), waiting("b", "bg", 5, caught_up=False, joined=True)], 1, "wait", ("b",)),
    ("it has the data, and is with the witness alone", [waiting("a", "ag", 20, caught_up=False, joined=True), member("b", "abg")], 1, "form", ()),
]  # fmt: skip


@pytest.mark.parametrize(("reports", "witnesses", "action", "waits_for"), [row[1:] for row in STEPS], ids=[row[0] for row in STEPS])
def test_step(reports, witnesses, action, waits_for):
    found = step("a", dict(zip("abc", reports)), witnesses)
    assert (found.action, found.waits_for) == (action, waits_for), found
    assert found.reason


@pytest.mark.parametrize(
    ("reports", "witnesses", "hold"),
    [
        ({"a": member("a", "abg"), "b": member("b", "abg")}, 1, False),
        ({"a": member("a", "abg", caught_up=False), "b": member("b", "abg", caught_up=False)}, 1, True),
        ({"a": waiting("a", None), "b": waiting("b", None)}, 1, True),
        ({"a": member("a", "abg", caught_up=False), "b": waiting("b", "bg", uuid=None)}, 1, True),
        ({"a": waiting("a", None), "b": waiting("b", None)}, 0, False),
    ],
    ids=["crashed together", "not seen caught up", "stopped in an orderly way", "a copying member ended", "no witness"],
)
def test_a_witness_may_be_primary_alone(reports, witnesses, hold):
    found = step("a", reports, witnesses)
    assert (found.action, found.hold) == ("form", hold)


@pytest.mark.parametrize(("addresses", "action"), [(3, "form"), (2, "wait"), (4, "wait"), (None, "form")])
def test_no_component_is_formed_while_the_cluster_is_resized(addresses, action):
    found = step("a", {name: member(name) for name in "abc"}, 0, addresses)
    assert found.action == action
    assert action == "form" or "resized" in found.reason
    # it is isolated and returns meanwhile
    assert step("a", {"a": lost("a"), "b": None, "c": None}, 0, addresses).action == "isolate"
    assert step("a", {"a": member("a"), "b": serving("b"), "c": None}, 0, addresses).action == "connect"


def test_the_only_member_is_left_alone():
    assert step("a", {"a": lost("a")}, 0).action == "none"


def test_a_removed_member_that_was_in_the_last_component_keeps_the_others_waiting_for_all():
    reports = {"a": waiting("a", "abc", 20), "b": None}
    assert newest(reports).waits_for == ("b",)
    assert newest({**reports, "b": waiting("b", "abc", 19)}).name == "a"


def test_the_reason_names_all_that_have_equal_data():
    found = newest({"a": member("a", position=3), "b": member("b"), "c": member("c")})
    assert (found.name, found.equal) == ("b", ("b", "c"))
    assert found.reason == "b has the newest data (position 10) of a, b, c"


VIEW = f"""my_uuid: {A}
#vwbeg
view_id: 3 {B} 12
bootstrap: 0
member: {B} 0
member: {A} 0
#vwend
"""


def test_saved_view():
    assert read_view(VIEW) == (View(f"3 {B} 12", 12, (A, B)), A)
    for text in ("", "my_uuid: x", VIEW.replace("#vwend\n", ""), VIEW.replace("view_id: 3", "view_id: x"), VIEW.replace(" 12", " 1" * 30)):
        assert read_view(text)[0] is None


def test_record_of_the_guard():
    assert read_kept(json.dumps({"names": {A: "a"}, "caught_up": "3 x 1"})) == ({A: "a"}, "3 x 1")
    for value in ([], {}, {"names": []}, {"names": {A: "a"}}, None, 7):
        assert read_kept(json.dumps(value)) == ({}, None)
    assert read_kept("{") == ({}, None)
    assert read_kept(json.dumps({"names": {}, "caught_up": 7})) == ({}, None)


def test_a_report_is_a_plain_value():
    assert json.loads(json.dumps(dataclasses.asdict(member("a"))))["view"]["members"] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("reports", "forced", "why"),
    [
        ([stopped("a"), member("b"), member("c")], False, None),
        ([stopped("a", position=9), member("b"), member("c")], False, "b has the newest data (position 10) of a, b, c"),
        ([stopped("a", position=9), member("b"), member("c")], True, None),
        ([stopped("a"), None, member("c")], False, "b may have newer data and does not answer"),
        ([stopped("a"), None, member("c")], True, None),
        # formed since it was decided
        ([stopped("a"), serving("b"), member("c")], False, "others are in a Primary Component, or may form one: b"),
        ([stopped("a"), serving("b"), None], True, "others are in a Primary Component, or may form one: b"),
        ([stopped("a"), lost("b"), lost("c")], True, "others are in a Primary Component, or may form one: b, c"),
        ([stopped("a"), waiting("b", joined=True), member("c")], False, "others are in a Primary Component, or may form one: b"),
    ],
)
def test_a_start_is_confirmed(reports, forced, why):
    found = dict(zip("abc", reports))
    assert unconfirmed("a", found, forced) == why
