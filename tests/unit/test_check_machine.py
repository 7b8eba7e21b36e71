# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a machine is taken for the server whose name it answers to."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

TASKS = yaml.safe_load((ROOT / "playbooks/tasks/check_machine.yml").read_text("utf-8"))


@pytest.mark.parametrize(
    "recorded, good",
    [
        (None, True),
        ({}, True),
        ({"reduced_footprint": "error loading facts"}, True),
        ({"reduced_footprint": {"attributes": {"name": "metal2", "cluster": "lab"}}}, True),
        # metal1 is in the inventory, so the addresses of both are exchanged
        ({"reduced_footprint": {"attributes": {"name": "metal1", "cluster": "lab"}}}, False),
        # renamed; a server of another cluster as well
        ({"reduced_footprint": {"attributes": {"name": "metal7", "cluster": "lab"}}}, True),
        ({"reduced_footprint": {"attributes": {"name": "metal1", "cluster": "other"}}}, True),
    ],
)
def test_a_machine_of_another_server_is_refused(tmp_path: pathlib.Path, recorded: dict[str, t.Any] | None, good: bool) -> None:
    given = {"footprint_cluster": "lab", **({} if recorded is None else {"ansible_local": recorded})}
    code, output = ControlNode(tmp_path).play(TASKS, **given)
    assert (code == 0) is good, output
    assert good or "metal2 (192.0.2.12) answers as the machine that was provisioned as metal1" in " ".join(output.split())
