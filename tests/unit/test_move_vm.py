# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a move from a standby: a witness that kept the start would keep the VM off after a restart of its server."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode


@pytest.mark.parametrize(("state", "asked"), [("started", ["metal2", "metal1"]), ("receiving", ["metal1"])])
def test_the_witnesses_forget_the_start_before_the_standby_does(tmp_path: pathlib.Path, state: str, asked: list[str]) -> None:
    control = ControlNode(tmp_path, "vm_standby", "vm_standby_info")
    control.answers = {
        "vm_standby_info metal1": {"standbys": [{"id": "notes", "part": "standby", "state": state}]},
        "vm_standby metal1": {"changed": True},
        "vm_standby metal2": {"changed": True},
    }
    tasks = yaml.safe_load((ROOT / "playbooks/tasks/move_vm.yml").read_text("utf-8"))[-1:]
    # metal2 is destination and witness here
    values = {"move_vm_id": "notes", "move_vm_destination": "metal2", "move_vm_state": "moved", "standby_witnesses": ["metal2"]}
    code, output = control.play(tasks, "metal1", **values)
    assert code == 0, output
    assert [(call["host"], call["arguments"]["state"]) for call in control.calls("vm_standby")] == [(host, "returned") for host in asked]
