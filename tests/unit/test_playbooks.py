# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every playbook that changes something asks for expert_mode before it does anything else."""

from __future__ import annotations

import pathlib
import shutil
import typing as t

import pytest
import yaml

from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.plan_facts import FOUND

PLAYBOOKS = pathlib.Path(__file__).resolve().parents[2] / "playbooks"
GATE = "tasks/expert_gate.yml"
#: These read, and change neither a host nor the footprint.
READ_ONLY = {"config_dump", "plan_placement", "status"}


def gated(path: pathlib.Path) -> bool:
    """Whether the first thing a playbook does is to pass the gate, or to run a playbook that does so."""
    first = yaml.safe_load(path.read_text("utf-8"))[0]
    if "ansible.builtin.import_playbook" in first:
        return gated(path.parent / f"{first['ansible.builtin.import_playbook'].rpartition('.')[2]}.yml")
    tasks: list[dict[str, t.Any]] = [*first.get("pre_tasks", []), *first.get("tasks", [])]
    # a play with roles alone has no task before them
    return bool(tasks) and tasks[0].get("ansible.builtin.import_tasks") == GATE and "when" not in tasks[0]


def ungated(folder: pathlib.Path) -> list[str]:
    """The playbooks that lack the gate and are not known to be read-only."""
    return sorted(path.stem for path in folder.glob("*.yml") if path.stem not in READ_ONLY and not gated(path))


def test_every_playbook_that_changes_something_has_the_gate() -> None:
    assert ungated(PLAYBOOKS) == []


def test_the_list_of_read_only_playbooks_names_only_playbooks() -> None:
    assert {path.stem for path in PLAYBOOKS.glob("*.yml")} >= READ_ONLY


@pytest.mark.parametrize("name", ["remove_virt_node"])
def test_a_first_play_without_hosts_does_not_open_the_gate(name: str) -> None:
    plays = yaml.safe_load((PLAYBOOKS / f"{name}.yml").read_text("utf-8"))
    assert all(play["pre_tasks"][0]["ansible.builtin.import_tasks"] == GATE for play in plays)


def test_a_playbook_without_the_gate_is_found(tmp_path: pathlib.Path) -> None:
    for path in PLAYBOOKS.glob("*.yml"):
        shutil.copy(path, tmp_path)
    plays = yaml.safe_load((PLAYBOOKS / "rotate_keys.yml").read_text("utf-8"))
    del plays[0]["pre_tasks"]
    (tmp_path / "rotate_keys.yml").write_text(yaml.safe_dump(plays), "utf-8")
    assert ungated(tmp_path) == ["rotate_keys"]


def test_playbooks_register_what_their_filters_read() -> None:
    readers = [path for path in PLAYBOOKS.glob("*.yml") if "plan_servers(" in path.read_text("utf-8")]
    assert {path.stem for path in readers} >= {"add_server", "plan_placement", "remove_virt_node"}
    assert [path.stem for path in readers if f"register: {FOUND}\n" not in path.read_text("utf-8")] == []
