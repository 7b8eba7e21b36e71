# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of rollback_master that only a run shows: how the source is reached, and a host without the migration."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

TASKS = ROOT / "roles/master_migrate/tasks"


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> ControlNode:
    control = ControlNode(tmp_path, "master_migrate", "master_migrate_info", "one_time_key")
    control.answers = {"master_migrate metal2": {"changed": False, "migration": None}, "one_time_key metal1": {"changed": True}}
    return control


@pytest.mark.parametrize(
    ("own", "used"),
    [
        ({}, "-o CheckHostIP=no -o HostKeyAlias=192.0.2.11"),
        ({"ansible_port": 2222}, "-o CheckHostIP=no -o HostKeyAlias=[192.0.2.11]:2222"),
        ({"ansible_ssh_extra_args": "-o HostKeyAlias=metal1"}, "-o HostKeyAlias=metal1"),
    ],
)
def test_the_source_is_known_at_its_temporary_address(control: ControlNode, own: dict[str, object], used: str) -> None:
    tasks = yaml.safe_load((TASKS / "backward.yml").read_text("utf-8"))
    # only the connection matters
    key = {"reduced.footprint.one_time_key": {"name": "master"}, "delegate_to": "{{ master_migrate_source }}"}
    (control.folder / "key.yml").write_text(yaml.safe_dump([key]), "utf-8")
    block = next(task for task in tasks if "block" in task)
    set_own = {"ansible.builtin.set_fact": own or {"unused": 1}, "delegate_to": "metal1", "delegate_facts": True}
    migration = {"source": {"temporary_address": "192.0.2.9"}}
    given = {"__master_migrate_parked": {"port": 22}, "__master_migrate_before": {"migrations": [migration]}, "master_migrate_source": "metal1"}
    code, output = control.play([set_own, block, key], "metal2", **given)
    assert code == 0, output
    there, after = control.calls("one_time_key")
    assert (there["address"], there["extra"]) == ("192.0.2.9", used)
    # the master has the address and host key of the source now
    assert (after["address"], after["extra"] or "") == ("192.0.2.11", own.get("ansible_ssh_extra_args", ""))


def test_a_host_without_the_migration_has_not_rolled_back(control: ControlNode) -> None:
    control.answers["master_migrate_info metal2"] = {"migrations": []}
    options = ("-e", "master_migrate_destination=metal2", "-e", "master_migrate_source=metal1")
    code, output = control.run("reduced.footprint.rollback_master", *options)
    assert code != 0 and "Nothing was rolled back: metal2 has no migration named master." in output, output


@pytest.mark.parametrize(
    ("now", "asked"),
    [
        ({"state": "done", "phase": "commit"}, True),
        ({"state": "failed", "phase": "commit"}, True),
        # its worker was stopped after the hand-over, more than a day ago: the key has expired
        ({"state": "interrupted", "phase": "commit"}, True),
        ({"state": "running", "phase": "commit"}, False),
        ({"state": "failed", "phase": "final"}, False),
    ],
)
def test_a_source_that_may_be_parked_is_looked_for(tmp_path: pathlib.Path, now: dict[str, str], asked: bool) -> None:
    control = ControlNode(tmp_path, "wait_for")
    control.answers = {"wait_for metal2": {"port": 22}}
    (step,) = [task for task in yaml.safe_load((TASKS / "backward.yml").read_text("utf-8")) if "ansible.builtin.wait_for" in task]
    step["reduced.footprint.wait_for"] = step.pop("ansible.builtin.wait_for")
    before = {"migrations": [{**now, "source": {"temporary_address": "192.0.2.9"}}]}
    given = {"__master_migrate_before": before, "__master_migrate_backward_state": "rolled_back", "master_migrate_source_port": 22}
    code, output = control.play([step], "metal2", **given)
    assert code == 0 and bool(control.calls("wait_for")) == asked, output


def test_a_parked_source_must_be_named(control: ControlNode) -> None:
    block = next(task for task in yaml.safe_load((TASKS / "backward.yml").read_text("utf-8")) if "block" in task)
    code, output = control.play([block], "metal2", __master_migrate_parked={"port": 22}, master_migrate_source="")
    assert code != 0 and "master_migrate_source is required for a new one-time key." in output, output
