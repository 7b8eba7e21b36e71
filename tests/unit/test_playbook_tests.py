# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which tests that run playbooks ``make check`` has."""

from __future__ import annotations

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "runner"))

import playbook_tests  # noqa: E402


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("playbooks/replace_server.yml", ["tests/unit/test_replace_server.py"]),
        ("playbooks/tasks/replace_server_plan.yml", ["tests/unit/test_replace_server.py"]),
        ("roles/images/tasks/main.yml", ["tests/unit/roles/images/test_images.py"]),
        ("tests/unit/test_move_vm.py", ["tests/unit/test_move_vm.py"]),
        ("plugins/module_utils/_galera/run_galera.py", []),
        # runs no playbook, so it is not left out either
        ("tests/unit/test_repository.py", []),
    ],
)
def test_those_of_a_changed_playbook_or_role(changed: str, expected: list[str]) -> None:
    assert playbook_tests.concerned([changed], ROOT) == expected


def test_every_test_has_the_mark_or_runs_in_make_check(request: pytest.FixtureRequest) -> None:
    files = {item.path: {mark.name for mark in item.iter_markers()} for item in request.session.items}
    assert files
    assert all(("playbooks" in marks) == playbook_tests.runs_playbooks(path) for path, marks in files.items())
