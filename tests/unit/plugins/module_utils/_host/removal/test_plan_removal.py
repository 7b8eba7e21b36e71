# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal import plan_removal as plan_of
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.model_removal import Guest, Member, parse_quorums
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.plan_removal import RemovalPolicy, plan_removal, refusal

POLICY = RemovalPolicy("lab", remove_vms=True)


def guest(name, **changes):
    given = {"id": name, "cluster": "lab", "origin": "vm_define", "roles": ("controller",), **changes}
    return Guest(name, f"uuid-{name}", "qemu:///system", given.pop("state", "running"), True, **given)


def members(*entries):
    return {"controller": tuple(Member(name, server, alive) for name, server, alive in entries)}


THREE = members(("c1", "metal1", True), ("c2", "metal2", True), ("c3", "metal3", True))


@pytest.mark.parametrize(
    "one, policy, fate",
    [
        (guest("c1"), POLICY, plan_of.REMOVED),
        (guest("c1"), RemovalPolicy("lab"), plan_of.LEFT),
        (guest("c1", protected=True), POLICY, plan_of.PROTECTED),
        (guest("c1", cluster="other"), POLICY, plan_of.FOREIGN),
        (guest("x", id=None, cluster=None, origin=None), POLICY, plan_of.FOREIGN),
    ],
)
def test_what_becomes_of_a_vm(one, policy, fate):
    assert plan_removal("metal1", [one], {}, policy).fates == ((one, fate),)


@pytest.mark.parametrize(
    "quorums, here, left, needed, kept",
    [
        # one of three goes, two answer
        (THREE, ["c1"], 2, 2, True),
        # one of three goes, and another is down already
        (members(("c1", "metal1", True), ("c2", "metal2", False), ("c3", "metal3", True)), ["c1"], 1, 2, False),
        # two of three members run on the server
        (members(("c1", "metal1", True), ("c2", "metal1", True), ("c3", "metal2", True)), ["c1", "c2"], 1, 2, False),
        (members(("c1", "metal1", True)), ["c1"], 0, 1, False),
        # of an even number one is one too many
        (members(("c1", "metal1", True), ("c2", "metal2", True)), ["c1"], 1, 2, False),
        (members(*((f"c{n}", f"metal{n}", True) for n in range(1, 6))), ["c1"], 4, 3, True),
        # a member directly on the server continues without libvirt
        (members(("c1", "metal1", True), ("metal1", "metal1", True), ("c3", "metal3", True)), ["c1"], 2, 2, True),
        # a copy of the name on another server is another member's affair
        (members(("c1", "metal9", True), ("c2", "metal2", True), ("c3", "metal3", True)), ["c1"], 3, 3, True),
    ],
)
def test_the_quorum(quorums, here, left, needed, kept):
    plan = plan_removal("metal1", [guest(name) for name in here], quorums, POLICY)
    (loss,) = plan.losses
    assert (loss.members, loss.left, loss.needed, loss.kept) == (tuple(here), left, needed, kept)
    error = refusal("metal1", plan, POLICY, "metal1", [])
    assert (error is None) == kept
    if error:
        assert error.path == "break_quorum" and f"{left} of" in error.message
        assert refusal("metal1", plan, RemovalPolicy("lab", True, True), "metal1", []) is None
        # no member stops, so no quorum is lost
        assert refusal("metal1", plan, RemovalPolicy("lab", False), "metal1", []) is None


def test_unlisted_members_are_unknown():
    plan = plan_removal("metal1", [guest("c1")], {}, POLICY)
    assert "its other members are unknown" in refusal("metal1", plan, POLICY, "metal1", []).message
    assert plan_removal("metal1", [guest("w", roles=("web",))], {}, POLICY).losses == ()


def test_protected_and_foreign_vms_cost_nothing():
    plan = plan_removal("metal1", [guest("c1", protected=True), guest("c2", cluster="other")], THREE, POLICY)
    assert plan.losses == () and refusal("metal1", plan, POLICY, "metal1", []) is None


@pytest.mark.parametrize("confirm", [None, "metal2", "", "yes"])
def test_not_confirmed(confirm):
    plan = plan_removal("metal1", [guest("c1"), guest("mine", id=None, cluster=None, roles=())], THREE, POLICY)
    error = refusal("metal1", plan, POLICY, confirm, [])
    assert error.path == "confirm"
    for words in ("c1: cluster lab; running; roles controller; member of controller", "mine: unmanaged", "2 of 3 members remain, 2 are required"):
        assert words in error.message


def test_instances_of_the_cloud_are_refused_unless_they_are_left():
    one = guest("instance-00000001", id=None, cluster=None, origin=None, roles=(), instance="instance web of the project shop")
    plan = plan_removal("metal1", [one], {}, POLICY)
    assert plan.fates == ((one, plan_of.FOREIGN),)
    error = refusal("metal1", plan, POLICY, "metal1", [])
    assert error.path == "leave_instances" and "instance web of the project shop (instance-00000001, running)" in error.message
    assert "compute service set --disable metal1" in error.hint
    assert refusal("metal1", plan, POLICY._replace(leave_instances=True), "metal1", []) is None


@pytest.mark.parametrize(
    "value, path",
    [
        ([], "quorums"),
        ({"controller": "c1"}, "quorums.controller"),
        ({"controller": ["c1"]}, "quorums.controller[0]"),
        ({"controller": [{"name": "c1"}]}, "quorums.controller[0].server"),
        ({"controller": [{"name": "c1", "server": "m", "alive": "maybe"}]}, "quorums.controller[0].alive"),
        ({"controller": [{"name": "c1", "server": "m"}] * 2}, "quorums.controller[1].name"),
    ],
)
def test_bad_quorums(value, path):
    with pytest.raises(InputError) as caught:
        parse_quorums(value)
    assert caught.value.path == path
