# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Only what an operator reads is shown."""

from __future__ import annotations

import pathlib

import pytest

from tests.support.control_node import HERE, ControlNode

BRIEF = "[defaults]\nstdout_callback = reduced.footprint.brief\n"
TASKS = [
    {"name": "Quiet", "ansible.builtin.command": "true", "changed_when": False},
    {"name": "Skipped", "ansible.builtin.command": "true", "when": "false"},
    {"name": "Text", "ansible.builtin.debug": {"msg": "one text"}},
    {"name": "Lines", "ansible.builtin.debug": {"msg": ["first", "second"]}},
    {"name": "Expected", "ansible.builtin.fail": {"msg": "expected"}, "ignore_errors": True},
]
FAILS = {"name": "Loop", "ansible.builtin.assert": {"that": "item < 2", "fail_msg": "{{ item }} is too much"}, "loop": [1, 2, 3]}


def lines(folder: pathlib.Path, *tasks: object, option: str = "") -> tuple[int, list[str]]:
    control = ControlNode(folder)
    control.configuration = BRIEF
    code, output = control.play([*TASKS, *tasks], "metal2", *filter(None, [option]), **HERE)
    return code, [line for line in output.splitlines() if line]


def test_texts_and_errors_are_shown_and_nothing_else(tmp_path: pathlib.Path) -> None:
    assert lines(tmp_path / "ok") == (0, ["    one text", "    first", "    second"])
    code, found = lines(tmp_path / "fails", FAILS)
    assert code == 2 and found[3:] == ["metal2: 2 is too much", "metal2: 3 is too much"]


def test_changes_are_shown_with_their_task_and_a_recap(tmp_path: pathlib.Path) -> None:
    code, found = lines(tmp_path, {"name": "Change it", "ansible.builtin.command": "true"})
    text = "\n".join(found)
    assert code == 0 and "TASK [Change it]" in text and "changed: [metal2]" in text and "changed=1" in text and "TASK [Quiet]" not in text


def test_a_host_that_cannot_be_reached_is_one_line(tmp_path: pathlib.Path) -> None:
    code, found = lines(tmp_path, {"name": "Ask", "ansible.builtin.ping": {}, "vars": {"ansible_connection": "ssh", "ansible_ssh_executable": "/bin/false"}})
    assert code == 4 and found[3].startswith("metal2: ") and not any("fatal" in line for line in found), found


@pytest.mark.parametrize(("patience", "shown"), [(0.2, True), (600, False)])
def test_a_task_that_takes_long_says_what_it_waits_for(patience: float, shown: bool, tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path)
    control.configuration, control.patience = BRIEF, patience
    code, output = control.play([{"name": "Wait for the guest", "ansible.builtin.command": "sleep 2", "changed_when": False}], **HERE)
    assert code == 0 and ("    … Wait for the guest" in output.splitlines()) == shown, output


def test_everything_is_shown_on_request(tmp_path: pathlib.Path) -> None:
    code, found = lines(tmp_path, FAILS, option="-v")
    text = "\n".join(found)
    assert code == 2 and "PLAY [metal2]" in text and "TASK [Quiet]" in text and "fatal: [metal2]" in text and "PLAY RECAP" in text
