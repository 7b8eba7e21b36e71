# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of retire_source that only a run shows."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode


@pytest.mark.parametrize(
    ("before", "state", "address", "refused"),
    [
        ("done", "retired", {"ansible_host": "192.0.2.3"}, True),
        ("done", "retired", {"ansible_host": "192.0.2.8", "galera_address": "192.0.2.3"}, True),
        ("done", "retired", {"ansible_host": "192.0.2.8"}, False),
        # another machine has its address now
        ("retired", "retired", {"ansible_host": "192.0.2.3"}, False),
        # the master is needed more than the vote
        ("done", "rolled_back", {"ansible_host": "192.0.2.3"}, False),
    ],
)
def test_a_source_that_is_a_witness_is_not_shut_down(before: str, state: str, address: dict[str, t.Any], refused: bool, tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "master_migrate_info", "master_migrate")
    migration = {"phase": "copy", "state": before, "source": {"temporary_address": "192.0.2.3"}}
    control.answers = {"master_migrate_info metal2": {"migrations": [migration]}, "master_migrate metal2": {"changed": True}}
    control.more = {"witness1": address}
    tasks = yaml.safe_load((ROOT / "roles/master_migrate/tasks/backward.yml").read_text("utf-8"))
    values = {"__master_migrate_backward_state": state, "master_migrate_name": "master", "master_migrate_wait_timeout": 9, "witness_group": "voting"}
    values["master_migrate_source"] = "metal1"
    group = {"ansible.builtin.add_host": {"name": "witness1", "groups": "voting"}}
    code, output = control.play([group, *tasks], **values)
    assert (code != 0) == refused == (not control.calls("master_migrate")), output
    if refused:
        assert "witness1 is a witness at 192.0.2.3, the address at which the source of master waits. Nothing was changed." in " ".join(output.split())
