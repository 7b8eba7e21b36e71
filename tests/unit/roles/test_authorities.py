# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A missing authority of the virtual address is an error, before a service is configured to verify with a file that is not there."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

COMPUTE = {"compute_ca": "{{ playbook_dir }}/ca.txt", "compute_auth_url": "https://192.0.2.20:5000/v3"}
CHASSIS = {"ovn_chassis_ca": "{{ playbook_dir }}/ca.txt", "ovn_chassis_metadata_url": "https://192.0.2.20:8775", "ovn_chassis_metadata": True}


@pytest.mark.parametrize(
    "role, given, there, good",
    [
        ("compute", COMPUTE, False, False),
        ("compute", COMPUTE, True, True),
        ("compute", {**COMPUTE, "compute_ca": ""}, False, True),
        ("compute", {**COMPUTE, "compute_auth_url": "http://192.0.2.20:5000/v3"}, False, True),
        ("ovn_chassis", CHASSIS, False, False),
        ("ovn_chassis", {**CHASSIS, "ovn_chassis_metadata": False}, False, True),
    ],
)
def test_missing_authority(role: str, given: dict[str, t.Any], there: bool, good: bool, tmp_path: pathlib.Path) -> None:
    tasks = yaml.safe_load((ROOT / "roles" / role / "tasks" / "check.yml").read_text("utf-8"))
    if there:
        (tmp_path / "ca.txt").write_text("x", "utf-8")
    check = [task for task in tasks if task["name"] == "Check the authority of the virtual address"]
    code, output = ControlNode(tmp_path).play(check, **given)
    assert check and (code == 0) == good and (good or "does not exist on the control node" in output), output
