# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""cloud_bootstrap stores no password for a user that has another one."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode


def run(file: str, name: str, shown: str, folder: pathlib.Path, **given: t.Any) -> tuple[int, str]:
    """Show a value of a task, as the module would get it; returns the exit code and output."""
    (task,) = [task for task in yaml.safe_load((ROOT / "playbooks/tasks" / file).read_text("utf-8")) if task["name"] == name]
    value = next(entry for key, entry in task.items() if key.startswith("openstack.cloud"))[shown]
    show = {"ansible.builtin.debug": {"msg": value}, "vars": task.get("vars", {})}
    return ControlNode(folder).play([show], footprint_secrets=str(folder / "secrets"), cloud_bootstrap_users=[{"name": "ann", "project": "shop"}], **given)


@pytest.mark.parametrize("change, stored", [({"state": [None, "present"]}, True), ({"email": ["", "ann@example.org"]}, False)], ids=["new", "existing"])
def test_only_a_new_user_gets_a_password(change: dict[str, t.Any], stored: bool, tmp_path: pathlib.Path) -> None:
    code, output = run("cloud_bootstrap_identity.yml", "Create the users", "password", tmp_path, item={"name": "ann", "change": change})
    assert code == 0 and (tmp_path / "secrets/cloud/user-ann.txt").exists() == stored, output


def test_a_key_pair_needs_the_password_of_its_user(tmp_path: pathlib.Path) -> None:
    given = {"item": {"name": "laptop", "user": "ann"}}
    code, output = run("cloud_bootstrap_network.yml", "Create the key pairs", "auth", tmp_path, **given)
    assert code != 0 and "user-ann.txt: must be generated, but footprint_secrets_generate is false." in " ".join(output.split()), output
    again = tmp_path / "again"
    (again / "secrets/cloud").mkdir(parents=True)
    (again / "secrets/cloud/user-ann.txt").write_text("opensesame\n", "utf-8")
    code, output = run("cloud_bootstrap_network.yml", "Create the key pairs", "auth", again, **given)
    assert code == 0 and "opensesame" in output, output
