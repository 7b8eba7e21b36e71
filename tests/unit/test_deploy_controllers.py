# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of deploy_controllers that only a run shows."""

from __future__ import annotations

import json
import pathlib
import re
import sys

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode


def test_a_member_outside_the_run_that_does_not_answer_does_not_end_it(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path)
    role = tmp_path / "roles/shop/tasks/first.yml"
    role.parent.mkdir(parents=True)
    role.write_text("[{name: Say it, ansible.builtin.debug: {msg: the step is done}}]", "utf-8")
    (tmp_path / "once.yml").write_text((ROOT / "playbooks/tasks/deploy_once.yml").read_text("utf-8"), "utf-8")
    step = {"name": "shop/first", "role": "shop", "tasks_from": "first", "marker": "trial.shop.first", "hosts": ["metal1", "metal2"]}
    play = [{"hosts": "metal1", "gather_facts": False, "any_errors_fatal": True, "tasks": [{"ansible.builtin.include_tasks": "once.yml"}]}]
    (tmp_path / "play.yml").write_text(json.dumps(play), "utf-8")
    local = {"ansible_python_interpreter": sys.executable, "__deploy_step": step}
    silent = {"ansible_host": "127.0.0.1", "ansible_port": 1}
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/metal1.yml").write_text("ansible_connection: local\n", "utf-8")
    code, output = control.run(str(tmp_path / "play.yml"), "--check", "-e", json.dumps(local), **silent)
    assert code == 0 and "the step is done" in output, output
    assert "127.0.0.1 port 1: Connection refused" in output


@pytest.mark.parametrize(
    ("variables", "known"),
    [({"vm_host": "metal1"}, False), ({"vm_host": "metal1", "ansible_host": "192.0.2.31"}, True), ({}, True)],
    ids=["VM without an address", "VM", "server named by its address"],
)
def test_a_vm_without_an_address_is_named(variables: dict[str, str], known: bool, tmp_path: pathlib.Path) -> None:
    plays = yaml.safe_load((ROOT / "playbooks/deploy_controllers.yml").read_text("utf-8"))
    (task,) = [task for play in plays for task in play.get("pre_tasks", ()) if task["name"] == "Check that the address of every controller is known"]
    control = ControlNode(tmp_path)
    control.more = {"one": variables}
    code, output = control.play([task], "one")
    assert (code == 0) == known and ("The address of one is not known" in " ".join(output.split())) != known, output


def test_no_task_asks_whether_it_has_an_address() -> None:
    # the variables of a task have the address of its connection, hostvars only what the inventory names
    files = [*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/*/*.yml")]
    asking = re.compile(r"(?<![.\w])ansible_(host|port|user|connection) is (not )?defined")
    assert not [f"{path.relative_to(ROOT)}" for path in files if asking.search(path.read_text("utf-8"))]
