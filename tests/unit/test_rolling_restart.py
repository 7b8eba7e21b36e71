# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of rolling_restart that only a run shows."""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

import pytest
import yaml

from tests.support.controlplane import look
from tests.support.control_node import HERE, ROOT, ControlNode

NONE: dict[str, t.Any] = {"package": None}


@pytest.mark.parametrize(
    "units, expected",
    [
        ({"glance-api.service": {"package": {"name": "glance-api"}}, "footprint-glance-copies.service": NONE}, "updates: ['glance-api']"),
        ({"footprint-horizon.service": NONE}, "No unit of glance on metal2 belongs to a package."),
    ],
)
def test_a_unit_without_a_package_does_not_end_an_update(units: dict[str, t.Any], expected: str, tmp_path: pathlib.Path) -> None:
    tasks = {task["name"]: task for task in yaml.safe_load((ROOT / "playbooks/tasks/rolling_restart_update.yml").read_text("utf-8"))}
    given = {
        "__rolling_restart_step": {"component": "glance", "host": "metal2"},
        "__rolling_restart_packages": {"controlplane": {"services": {"glance": {"units": units}}}},
    }
    names = {"debug": {"msg": f"updates: {tasks['Check for updates']['ansible.builtin.package']['name']}"}}
    steps = [tasks["List these packages"], tasks["Check that the packages were found"], names]
    code, output = ControlNode(tmp_path).play(steps, **given)
    assert expected in " ".join(output.split()) and (code == 0) == expected.startswith("updates"), output


@pytest.mark.parametrize("manager, commands", [("apt", ["dpkg --configure --pending"]), ("dnf", [])])
def test_an_interrupted_update_is_completed_first(manager: str, commands: list[str], tmp_path: pathlib.Path) -> None:
    # apt installs nothing while dpkg is interrupted
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dpkg").write_text(f'#!/bin/sh\necho "dpkg $3 $4" | tee -a {tmp_path}/ran\n', "utf-8")
    (tmp_path / "bin/dpkg").chmod(0o755)
    tasks = yaml.safe_load((ROOT / "playbooks/tasks/rolling_restart_update.yml").read_text("utf-8"))[:1]
    tasks[0]["environment"]["PATH"] = f"{tmp_path}/bin:{os.environ['PATH']}"
    local = {**HERE, "ansible_facts": {"pkg_mgr": manager}}
    code, output = ControlNode(tmp_path).play(tasks, **local)
    assert code == 0 and ((tmp_path / "ran").read_text("utf-8").splitlines() if commands else []) == commands, output
    assert (tmp_path / "ran").exists() == bool(commands)


def test_a_limit_that_excludes_members_is_refused(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "controlplane_info")
    code, output = control.run("reduced.footprint.rolling_restart", "--limit", "metal1", "-e", json.dumps({"galera_group": "virt"}))
    assert code != 0 and "metal2 is excluded by --limit, but all members are checked before and after each one." in " ".join(output.split()), output


@pytest.mark.parametrize("limit, expected", [([], "several environments (blue, red)"), (["--limit", "metal2"], "1. galera on metal2")])
def test_a_run_restarts_the_members_of_its_environment(limit: list[str], expected: str, tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "controlplane_info", "controlplane_lock")
    for name in ("metal1", "metal2"):
        control.answers |= {f"controlplane_lock {name}": LOCKED, f"controlplane_info {name}": {"changed": False, "controlplane": look(False)}}
    (tmp_path / "host_vars").mkdir()
    for name, environment in (("metal1", "red"), ("metal2", "blue")):
        (tmp_path / f"host_vars/{name}.yml").write_text(f"footprint_environment: {environment}\ngalera_group: {environment}_galera\n", "utf-8")
    (tmp_path / "more.yml").write_text("{red_galera: {hosts: {metal1: {}}}, blue_galera: {hosts: {metal2: {}}}}", "utf-8")
    given = ["-i", str(tmp_path / "more.yml"), "--check", "-e", "rolling_restart_components=galera"]
    _code, output = control.run("reduced.footprint.rolling_restart", *given, *limit)
    assert expected in " ".join(output.split()), output
    assert {call["host"] for call in control.calls("controlplane_info")} == ({"metal2"} if limit else set())


LOCKED = {"changed": False, "holder": {"playbook": "rolling_restart"}}
BUSY = {"failed": True, "msg": "deploy_controllers of root on admin has been restarting members"}


@pytest.mark.parametrize("answer, allowed", [(LOCKED, True), (BUSY, False), ({"unreachable": True, "msg": "timed out"}, True)])
def test_one_host_on_which_another_run_restarts_members_ends_the_run(answer: dict[str, t.Any], allowed: bool, tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "controlplane_lock")
    control.answers = {"controlplane_lock metal1": LOCKED, "controlplane_lock metal2": answer}
    tasks = ROOT / "playbooks/tasks"
    guarded = [{"import_tasks": str(tasks / "controlplane_lock.yml")}, {"debug": {"msg": "restarted {{ inventory_hostname }}"}}]
    unlock = [{"import_tasks": str(tasks / "controlplane_unlock.yml")}]
    code, output = control.play([{"block": guarded, "always": unlock}], "virt", __controlplane_lock_playbook="rolling_restart")
    assert (code == 0, "restarted metal1" in output, BUSY["msg"] in output) == (allowed, allowed, not allowed), output
    # also on the host that had let this run begin
    assert released(control) == {"metal1", "metal2"}


def test_the_failure_of_one_task_for_all_hosts_leaves_no_record(tmp_path: pathlib.Path) -> None:
    # Ansible then runs what is in always for one host only
    control = ControlNode(tmp_path, "controlplane_lock")
    control.answers = {"controlplane_lock metal1": LOCKED, "controlplane_lock metal2": LOCKED}
    lock, unlock = ([{"import_tasks": str(ROOT / f"playbooks/tasks/controlplane_{name}.yml")}] for name in ("lock", "unlock"))
    refused = {"fail": {"msg": "nothing was changed"}, "run_once": True}
    block = {"block": [*lock, refused], "always": unlock, "any_errors_fatal": True}
    code, output = control.play([block], "virt", __controlplane_lock_playbook="remove_controller")
    assert code != 0 and released(control) == {"metal1", "metal2"}, output


def released(control: ControlNode) -> set[str]:
    return {call["host"] for call in control.calls() if call["arguments"].get("state") == "absent"}
