# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which tests that run playbooks ``make check`` has."""

from __future__ import annotations

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "runner"))

import playbook_tests  # noqa: E402

#: The tests that run playbooks; in their text: what they run.
TESTS = [path for path in sorted((ROOT / "tests/unit").rglob("test_*.py")) if playbook_tests.runs_playbooks(path)]
RUN = re.compile(r"\brun\(\"reduced\.footprint\.(\w+)\"|\bROOT / \"((?:playbooks|roles)/[\w/]+\.yml)\"")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("playbooks/recover_database.yml", {"database_playbooks", "one_run"}),
        ("playbooks/argument_specs/recover_database.yml", {"database_playbooks"}),
        ("playbooks/tasks/replace_server_plan.yml", {"replace_server"}),
        # task files of a playbook, of which the tests name only the playbook
        ("playbooks/tasks/maintain_virt_node_restart.yml", {"maintain_virt_node", "several_environments"}),
        ("playbooks/tasks/controlplane_lock.yml", {"database_playbooks", "maintain_virt_node", "rolling_restart", "replace_server"}),
        ("plugins/modules/controlplane_lock.py", {"database_playbooks", "rolling_restart", "remove_virt_node", "replace_server"}),
        ("plugins/action/controlplane_lock.py", {"rolling_restart"}),
        ("plugins/filter/controlplane_decision.py", {"maintain_virt_node"}),
        ("plugins/module_utils/_controlplane/plan_maintenance.py", {"maintain_virt_node"}),
        ("plugins/lookup/secret.py", {"secret"}),
        ("roles/images/tasks/main.yml", {"images"}),
        ("roles/standby/tasks/one.yml", {"check"}),
        ("roles/compute/defaults/main.yml", {"identity", "map", "provision_compute", "shared_settings"}),
        ("tests/unit/test_move_vm.py", {"move_vm"}),
        ("tests/support/control_node.py", {"move_vm", "images"}),
        ("tests/support/preloaded_server.py", {"preloaded"}),
    ],
)
def test_those_that_use_what_has_changed(changed: str, expected: set[str]) -> None:
    found = {pathlib.PurePath(name).stem.removeprefix("test_") for name in playbook_tests.concerned([changed], ROOT)}
    assert expected <= found


def test_what_a_test_runs_concerns_it() -> None:
    uses = playbook_tests.Uses(ROOT)
    runs = {}
    for path in TESTS:
        found = {f"playbooks/{name}.yml" if name else file for name, file in RUN.findall(path.read_text("utf-8"))}
        runs[path] = {name for name in found if (ROOT / name).is_file()}
    assert sum(map(len, runs.values())) > 50
    missed = {(path.name, name) for path, names in runs.items() for name in names if uses.distances(str(path.relative_to(ROOT))).get(uses.thing(name), 9) > 1}
    assert not missed


def test_every_role_and_task_file_has_one() -> None:
    names = {str(path.relative_to(ROOT)) for path in [*(ROOT / "playbooks/tasks").glob("*.yml"), *(ROOT / "roles").glob("*/tasks/main.yml")]}
    assert not {name for name in names if not playbook_tests.concerned([name], ROOT)}


def test_every_test_has_the_mark_or_runs_in_make_check(request: pytest.FixtureRequest) -> None:
    files = {item.path: {mark.name for mark in item.iter_markers()} for item in request.session.items}
    assert files
    assert all(("playbooks" in marks) == playbook_tests.runs_playbooks(path) for path, marks in files.items())
