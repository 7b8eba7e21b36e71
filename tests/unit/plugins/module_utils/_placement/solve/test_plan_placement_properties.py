# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Against brute force, and what must hold of every plan."""

from hypothesis import assume, example, given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_losses import GRADES, ha_grade, quorums
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import plan_placement
from tests.support.placement import allowed, controllers, every_assignment, question, server, servers, worth

_HYPERVISORS = st.sampled_from([["kvm", "lxc"], ["qemu", "lxc"], ["kvm"], None])
_BRIDGES = st.sampled_from([None, None, ["a"], ["a", "b"]])


@st.composite
def machines(draw, most):
    found = []
    for index in range(draw(st.integers(1, most))):
        more = {"hypervisors": draw(_HYPERVISORS), "bridges": draw(_BRIDGES), "pools": {"default": draw(st.sampled_from([20, 60]))}}
        found.append(server(f"metal{index}", draw(st.integers(2, 8)), draw(st.integers(1, 3)), **more))
    return found


@st.composite
def guests(draw, most, names, pins=True):
    found, current = [], {}
    for index in range(draw(st.integers(1, most))):
        vm = {
            "id": index,
            "ram": draw(st.integers(1, 4)),
            "cpu": draw(st.integers(1, 3)),
            "roles": draw(st.sampled_from([["controller"], ["controller"], ["web"], []])),
            "anti_affinity": draw(st.sampled_from([[], [], ["shard"]])),
            "hypervisor": draw(st.sampled_from(["auto", "auto", "lxc"])),
            "disks": [{"size": 10}],
            "nics": [{"bridge": draw(st.sampled_from(["a", "a", "b"]))}],
        }
        if pins and draw(st.integers(0, 9)) == 0:
            vm["host"] = draw(st.sampled_from(names))
        if draw(st.integers(0, 2)) == 0:
            current[str(index)] = draw(st.sampled_from(names))
        found.append(vm)
    return found, current


@st.composite
def questions(draw, most_servers=4, most_vms=5, **policy):
    hosts = draw(machines(most_servers))
    vms, current = draw(guests(most_vms, [host["name"] for host in hosts]))
    strict = ["shard"] if draw(st.integers(0, 4)) == 0 else []
    return question(hosts, vms, current=current, strict_groups=strict, allow_moves=draw(st.integers(0, 5)) > 0, **policy)


@example(question(servers(8, 8, 8), controllers(5), current={"c1": "metal1", "c2": "metal1", "c3": "metal1"}))
@given(questions())
def test_nothing_beats_the_plan(asked):
    placement = plan_placement(asked)
    where = placement.assignment()
    assert allowed(asked, where)
    assert worth(asked, where) == placement.state.cost(), "the planner and the judge count differently"
    assert worth(asked, where) == min(worth(asked, other) for other in every_assignment(asked))


@given(questions(most_servers=10, most_vms=24))
def test_a_plan_never_breaks_a_rule(asked):
    placement = plan_placement(asked, trials=5000)
    assert allowed(asked, placement.assignment())
    assert worth(asked, placement.assignment()) == placement.state.cost()


@given(questions(most_servers=5, most_vms=8))
def test_the_same_question_has_the_same_answer(asked):
    assert plan_placement(asked, trials=5000).assignment() == plan_placement(asked, trials=5000).assignment()


@given(st.integers(1, 6), st.lists(st.sampled_from(["shard", "other", "third"]), min_size=1, max_size=14))
def test_two_of_a_group_never_meet_when_that_can_be_avoided(number, groups):
    hosts = [server(f"metal{index}", 64, 64) for index in range(number)]
    vms = [{"id": index, "ram": 1, "anti_affinity": group} for index, group in enumerate(groups)]
    where = plan_placement(question(hosts, vms)).assignment()
    for group in set(groups):
        places = [where[str(index)] for index, name in enumerate(groups) if name == group]
        most, rest = divmod(len(places), number)
        assert max(places.count(place) for place in places) == most + bool(rest)


@st.composite
def written(draw, most_servers, most_vms):
    hosts = draw(machines(most_servers))
    vms, current = draw(guests(most_vms, [host["name"] for host in hosts], pins=False))
    return hosts, vms, current


@given(written(4, 7))
def test_planning_again_moves_nothing(asked):
    hosts, vms, current = asked
    first = plan_placement(question(hosts, vms, current=current)).assignment()
    assert plan_placement(question(hosts, vms, current=first)).assignment() == first


@given(written(8, 20))
def test_planning_again_without_the_search_moves_nothing(asked):
    hosts, vms, current = asked
    first = plan_placement(question(hosts, vms, current=current), trials=0).assignment()
    assert plan_placement(question(hosts, vms, current=first), trials=0).assignment() == first


@given(written(3, 6), machines(1))
def test_one_more_server_never_lowers_the_grade(asked, more):
    hosts, vms, current = asked
    before = plan_placement(question(hosts, vms, current=current))
    assume(before.feasible)
    after = plan_placement(question([*hosts, {**more[0], "name": "another"}], vms, current=current))
    assert after.feasible
    assert GRADES.index(ha_grade(quorums(after))) <= GRADES.index(ha_grade(quorums(before)))
