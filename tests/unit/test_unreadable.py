# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file that cannot be read is not one that does not exist: what decides by the content of a file of a host fails."""

from __future__ import annotations

import pathlib
import sys
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

SLURP = "ansible.builtin.slurp"
#: Files whose tasks may continue without the content, and why.
HARMLESS = {
    "playbooks/tasks/discover_server.yml": "a server without the file does not run the system of the discovery",
    "playbooks/tasks/install_server_steps.yml": "the same for the system of the installation",
    "roles/master_migrate/tasks/again.yml": "without the state no key is placed, and the module reports a source that does not answer",
    "playbooks/tasks/secrets_used.yml": "the task after it refuses what is unreadable, for all hosts",
    "roles/compute/tasks/check.yml": "the setting of a controller is read from the first that has it, and compared again by the service",
}


class _Loader(yaml.SafeLoader):
    """Accepts the tags of Ansible."""


_Loader.add_multi_constructor("!", lambda loader, _suffix, node: loader.construct_scalar(node))


def reading() -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """The tasks that read a file which need not exist, with the name of their file."""
    for path in sorted([*(ROOT / "playbooks/tasks").glob("*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml")]):
        todo = list(yaml.load(path.read_text("utf-8"), _Loader) or [])  # noqa: S506
        while todo:
            task = todo.pop()
            todo += [inner for kind in ("block", "rescue", "always") for inner in task.get(kind) or ()]
            if SLURP in task and "failed_when" in task:
                yield str(path.relative_to(ROOT)), task


TASKS = [(name, task) for name, task in reading() if name not in HARMLESS and "loop" not in task]


def test_the_list_of_harmless_files_is_current() -> None:
    assert {name for name, task in reading() if task["failed_when"] is False} == set(HARMLESS)


@pytest.mark.parametrize(("name", "task"), TASKS, ids=[name for name, _task in TASKS])
def test_only_a_missing_file_counts_as_none(name: str, task: dict[str, t.Any], tmp_path: pathlib.Path) -> None:
    (tmp_path / "folder").mkdir()
    own = {key: value for key, value in task.items() if key not in ("when", "delegate_to", "no_log")}

    def run(source: str) -> int:
        task = {**own, SLURP: {"src": str(tmp_path / source)}}
        control = ControlNode(tmp_path / f"of-{source}")
        return control.play([task], "metal2", ansible_connection="local", ansible_python_interpreter=sys.executable)[0]

    # root reads any file, but no folder
    assert (run("missing"), run("folder")) == (0, 2), name
