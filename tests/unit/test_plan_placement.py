# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What plan_placement passes to the plan."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.support.control_node import ControlNode

UNMEASURED = ("-e", "plan_placement_measure=false", "-e", "footprint_cluster=lab")


@pytest.mark.parametrize(
    "variables, pool",
    [
        ({}, None),
        ({"virt_host_pool": "fast"}, "fast"),
        ({"virt_host_pool": "fast", "virt_guests_pool": "slow"}, "slow"),
        ({"virt_host_pool": "fast", "virt_guests_pool": "slow", "plan_placement_pool": "other"}, "other"),
        ({"virt_host_pool": "fast", "plan_placement_pool": ""}, "fast"),
    ],
)
def test_disks_without_a_pool_are_planned_where_spawn_vms_creates_them(tmp_path: pathlib.Path, variables: dict[str, t.Any], pool: str | None) -> None:
    control = ControlNode(tmp_path, "footprint_plan")
    control.answers = {"footprint_plan localhost": {"text": ["the plan"]}}
    control.more = {"metal1": {"ansible_host": "192.0.2.11", **variables}}
    code, output = control.run("reduced.footprint.plan_placement", *UNMEASURED, **variables)
    assert code == 0, output
    (call,) = control.calls("footprint_plan")
    assert call["arguments"].get("pool") == pool


def test_a_server_that_is_not_provisioned_yet_is_planned_with_the_settings_it_will_have(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "footprint_plan")
    control.answers = {"footprint_plan localhost": {"text": ["the plan"]}}
    variables = {"virt_host_memory_reserve": "8 GiB", "virt_host_vcpu_ratio": 2, "virt_host_pool_reserve": "50 GiB"}
    control.more = {"metal1": {"ansible_host": "192.0.2.11", **variables}}

    def planned(*options: str) -> tuple[t.Any, ...]:
        code, output = control.run("reduced.footprint.plan_placement", *UNMEASURED, *options, **variables)
        assert code == 0, output
        (call,) = control.calls("footprint_plan")
        return tuple(call["arguments"][key] for key in ("memory_reserve", "vcpu_ratio", "pool_reserve"))

    assert planned() == ("8 GiB", 2, "50 GiB")
    assert planned("-e", '{"plan_placement_memory_reserve": 0, "plan_placement_vcpu_ratio": 1}') == (0, 1, "50 GiB")
