# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run at a time stops, restarts or removes members of the control plane, whatever playbook does it."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode

#: Playbook → the file, role or module with which it changes members.
CHANGING = {
    "deploy_controllers": "tasks/deploy_step.yml",
    "rolling_restart": "tasks/rolling_restart_step.yml",
    "maintain_virt_node": "tasks/maintain_virt_node_steps.yml",
    "add_server": "tasks/add_server_move.yml",
    "replace_controller": "tasks/replace_controller_retire.yml",
    # of VMs that are started from their copies
    "replace_server": "tasks/replace_server_standby.yml",
    "remove_virt_node": "tasks/remove_virt_node_steps.yml",
    "remove_controller": "reduced.footprint.rabbitmq",
    "restore_database": "reduced.footprint.galera",
    "recover_database": "reduced.footprint.galera",
    "destroy_environment": "reduced.footprint.standby",
}
BUSY = {"failed": True, "msg": "rolling_restart of root on admin has been restarting members"}


def used(task: t.Mapping[str, t.Any]) -> set[str]:
    """The file or role that a task includes, or its module."""
    included = {str(task[key]) for key in ("ansible.builtin.include_tasks", "ansible.builtin.import_tasks") if key in task}
    return {*task, *included, str((task.get("ansible.builtin.include_role") or {}).get("name"))}


@pytest.mark.parametrize("playbook", CHANGING)
def test_members_are_changed_only_while_no_other_run_does(playbook: str) -> None:
    plays = yaml.safe_load((ROOT / f"playbooks/{playbook}.yml").read_text("utf-8"))
    found = [(task, inner) for play in plays for task in play.get("tasks", []) for inner in task.get("block", [task])]
    changes = [task for task, inner in found if CHANGING[playbook] in used(inner)]
    # members that were removed have no record any more
    ends = "rescue" if playbook == "destroy_environment" else "always"
    assert changes and all(ends in block for block in changes)
    for block in changes:
        first = block["block"][0]
        if CHANGING[playbook] in used(first):
            # for each server or controller, because the last one was restarted
            first = yaml.safe_load((ROOT / "playbooks" / CHANGING[playbook]).read_text("utf-8"))[0]
        assert used(first) & {"tasks/controlplane_lock.yml", "controlplane_lock.yml"}
        assert [task["ansible.builtin.import_tasks"] for task in block[ends] if "ansible.builtin.fail" not in task] == ["tasks/controlplane_unlock.yml"]
        assert any(play.get("vars", {}).get("__controlplane_lock_playbook") == playbook for play in plays)


def test_the_guide_names_the_playbooks() -> None:
    text = (ROOT / "docs/operation.md").read_text("utf-8")
    rule = text[text.index("**Two runs at the same time**") :].split("\n\n")[0]
    named = rule[: rule.index("`site` does so")]
    assert set(re.findall("`([a-z_]+)`", named)) == {path.stem for path in ROOT.glob("playbooks/*.yml") if "controlplane_unlock" in path.read_text("utf-8")}


#: Playbook → its variables, and a module that it must not reach.
REFUSED: dict[str, dict[str, t.Any]] = {
    "maintain_virt_node": {"maintain_virt_node_servers": "metal2"},
    "restore_database": {"galera_restore_file": "/backup/lab.mbs.zst", "galera_restore_confirm": "lab"},
    "recover_database": {},
    "remove_controller": {"remove_controller_name": "metal1", "remove_controller_confirm": "metal1"},
    "remove_virt_node": {"remove_virt_node_name": "metal2", "remove_virt_node_confirm": "metal2"},
}
#: All modules of these playbooks.
MODULES = (
    "controlplane_info", "controlplane_lock", "footprint_plan", "galera_backup_info", "galera_data", "galera_info", "virt_node", "virt_node_info", "vm_info",
    "vm_standby_info",
)  # fmt: skip


def refused(tmp_path: pathlib.Path, playbook: str, *options: str, **given: t.Any) -> tuple[ControlNode, int, str]:
    """Run a playbook on two members; according to the first one, another run restarts members."""
    control = ControlNode(tmp_path, *MODULES)
    control.answers = {"controlplane_lock metal1": BUSY, "controlplane_lock metal2": {"changed": False, "holder": {"playbook": playbook}}}
    (tmp_path / "more.yml").write_text("{first: {hosts: {metal1: {}}}}", "utf-8")
    shared = {"footprint_cluster": "lab", "galera_cluster_name": "lab", "galera_group": "virt", **REFUSED[playbook], **given}
    run = control.run(f"reduced.footprint.{playbook}", "-i", str(tmp_path / "more.yml"), "-e", json.dumps(shared), *options)
    return control, run[0], " ".join(run[1].split())


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("playbook", REFUSED)
def test_a_run_beside_another_one_is_refused_before_it_looks_at_the_members(playbook: str, check: bool, tmp_path: pathlib.Path) -> None:
    control, code, output = refused(tmp_path, playbook, *(["--check"] if check else []))
    assert code != 0 and BUSY["msg"] in output, output
    asked = [call for call in control.calls() if call["name"] == "controlplane_lock"]
    # hosts of one play are asked at the same time, and the first one ends the run on all of them, too
    states = [call["arguments"].get("state", "present") for call in asked]
    assert states[:2] == ["present"] * 2 and set(states[2:]) == {"absent"}, output
    assert [{call["host"] for call in calls} for calls in (asked[:2], asked[2:])] == [{"metal1", "metal2"}] * 2, output
    assert {call["arguments"]["playbook"] for call in asked} == {playbook} and {call["check"] for call in asked} == {check}
    # neither what the decision needs, nor a change
    assert not {call["name"] for call in control.calls()} & {"controlplane_info", "galera_backup_info", "galera_data", "galera_info", "virt_node"}, output


def test_a_killed_run_elsewhere_is_replaced_on_request(tmp_path: pathlib.Path) -> None:
    control, _code, _output = refused(tmp_path, "maintain_virt_node", footprint_takeover="true")
    assert {call["arguments"].get("takeover") for call in control.calls("controlplane_lock") if "state" not in call["arguments"]} == {True}


def test_a_list_of_what_would_be_removed_waits_for_no_run(tmp_path: pathlib.Path) -> None:
    control, code, _output = refused(tmp_path, "remove_virt_node", remove_virt_node_confirm="", **HERE)
    assert code != 0 and control.calls("virt_node") and not control.calls("controlplane_lock")
