# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of replace_controller that only a run shows."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode


def test_the_old_vm_is_named_by_its_id_and_cluster(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "vm_standby", "vm_replacement")
    retired = {"changed": True, "replacement": {"disks": []}}
    control.answers = {"vm_standby metal1": {"changed": False}, "vm_replacement metal1": retired}
    control.more = {"controller1": {"vm_details": {"id": 7, "name": "controller1"}, "vm_host": "metal1"}}
    tasks = (ROOT / "playbooks/tasks/replace_controller_retire.yml").read_text("utf-8")
    (tmp_path / "retire.yml").write_text(tasks, "utf-8")
    first, second, *_others = yaml.safe_load((ROOT / "playbooks/replace_controller.yml").read_text("utf-8"))
    given = {"__replace_request": first["vars"]["__replace_request"], "__replace_details": second["vars"]["__replace_details"]}
    plan = {"at": "20261125T190000Z", "source": "metal1", "destination": "metal1"}
    named = {"replace_controller_name": "controller1", "footprint_cluster": "blue", "__replace_here": "metal1", "__replace_plan": plan}
    code, output = control.play([{"ansible.builtin.include_tasks": "retire.yml"}], **given, **named)
    assert code == 0, output
    # with its name as ID it would be found on no server, and the start of the old one would be permitted
    assert [(call["arguments"]["id"], call["arguments"]["cluster"]) for call in control.calls()] == [("7", "blue"), ("7", "blue")]


@pytest.mark.parametrize("peer", ["", "metal1"])
def test_a_continued_run_may_have_nothing_to_forget(peer: str, tmp_path: pathlib.Path) -> None:
    """Ansible evaluates ``delegate_to`` of a task that it skips, too."""
    control = ControlNode(tmp_path, "rabbitmq_member")
    control.answers = {"rabbitmq_member metal1": {"changed": True}}
    control.more = {"controller1": {}, "metal1": {}}
    (forget, *unused) = yaml.safe_load((ROOT / "playbooks/tasks/replace_controller_create.yml").read_text("utf-8"))
    code, output = control.play([forget], __replace_plan={"peer": peer}, __replace_request={"name": "controller1"})
    assert code == 0, output
    called = [(call["host"], call["arguments"]["forget"]) for call in control.calls()]
    assert called == ([("metal1", ["rabbit@controller1"])] if peer else [])
