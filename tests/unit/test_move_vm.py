# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies to a standby and moves: a witness that kept a start would keep the VM off, and the copies of a VM elsewhere must stay."""

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


@pytest.mark.parametrize(("part", "ended"), [("source", ["absent"]), ("standby", [])])
def test_copies_are_ended_where_they_are_made_only(tmp_path: pathlib.Path, part: str, ended: list[str]) -> None:
    # a repeated command, or one with another source, runs on the standby
    control = ControlNode(tmp_path, "vm_standby", "vm_standby_info")
    control.answers = {
        "vm_standby_info metal1": {"standbys": [{"id": "notes", "part": part, "state": "receiving"}]},
        "vm_standby metal1": {"changed": True},
    }
    tasks = yaml.safe_load((ROOT / "playbooks/tasks/move_vm.yml").read_text("utf-8"))
    tasks = [task for task in tasks if task["name"] in ("Read whether the VM is copied from this host", "End the copies to the standby")]
    code, output = control.play(tasks, "metal1", move_vm_id="notes", move_vm_state="moved", footprint_cluster="lab")
    assert code == 0, output
    assert [call["arguments"]["state"] for call in control.calls("vm_standby")] == ended


def test_a_group_is_not_a_source(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "vm_standby", "vm_standby_info", "vm_move")
    given = [word for name, value in (("id", "notes"), ("source", "virt"), ("destination", "metal2")) for word in ("-e", f"move_vm_{name}={value}")]
    code, output = control.run("reduced.footprint.move_vm", *given)
    assert code != 0 and "move_vm_source: virt is not a server of the inventory. Use one of metal1, metal2." in output, output
    assert not control.calls()
