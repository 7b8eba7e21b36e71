# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of the long matrices, which an interrupted run continues."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import typing as t

import pytest

from tests.support.cells import Cells, workspace

#: What the matrices of the migration run.
PLAYBOOKS = ("migrate_master", "provision_virt", "rollback_master")
ROLES = ("address_guard", "chrony", "images", "master_migrate", "packages", "virt_guests", "virt_host")


def results(output: pathlib.Path, state: str = "one") -> Cells:
    return Cells("matrix", ("held", "reason"), state, output)


def test_cells_that_held_are_known_to_the_next_run_with_the_same_code(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = results(tmp_path)
    first.add(("host", "commit"), {"fault": "host", "held": True, "reason": None})
    first.add(("link", "commit"), {"fault": "link", "held": False, "reason": "2 owners"})
    assert len(capsys.readouterr().out.splitlines()) == 2
    again = results(tmp_path)
    assert again.held(("host", "commit")) and not again.held(("link", "commit")) and not again.held(("full", "commit"))
    again.add(("link", "commit"), {"fault": "link", "held": True, "reason": None})
    assert results(tmp_path).held(("link", "commit")) and not results(tmp_path, "two").held(("host", "commit"))
    assert (tmp_path / "matrix.md").read_text("utf-8").splitlines() == ["| fault |", "| --- |", "| host |", "| link |"]
    (tmp_path / "matrix.json").write_text("{", "utf-8")
    assert not results(tmp_path).held(("host", "commit"))


@pytest.mark.parametrize("path, same", [("docs/a.md", True), ("README.md", True), ("changelogs/x.yml", True), ("plugins/a.py", False), ("new.py", False)])
def test_state_of_the_code_ignores_documentation_only(path: str, same: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")

    def listed(*_arguments: t.Any, **_more: t.Any) -> str:
        return "\0".join(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file())

    monkeypatch.setattr(workspace, "ROOT", tmp_path)
    monkeypatch.setattr(workspace, "git", listed)
    put("plugins/a.py", "1")
    before = workspace.code_state()
    put(path, "2")
    assert (workspace.code_state() == before) is same


def test_the_matrix_of_the_guard_refuses_unknown_scenarios() -> None:
    """It would run none, and pass."""
    matrix = workspace.ROOT / "tests" / "torture" / "migration_guard.py"
    done = subprocess.run([workspace.BIN / "python", matrix, "--whole"], capture_output=True, check=False)
    assert done.returncode == 2 and b"unknown: --whole; scenarios: frozen, " in done.stderr


def test_a_matrix_of_the_migration_is_continued_after_changes_of_other_subjects() -> None:
    sys.path.insert(0, str(workspace.ROOT / "tests" / "torture"))
    import migration_code  # pylint: disable=import-outside-toplevel

    known = workspace.tracked()
    assert not [start for start in migration_code.OTHERS if not any(name.startswith(start) for name in known)], "nothing begins with it"
    needed = ["plugins/module_utils/_migrate/", "plugins/module_utils/_remote/", "plugins/module_utils/_vm/", "tests/torture/migration_faults.py"]
    needed += [f"roles/{name}/" for name in ROLES] + [f"playbooks/{name}.yml" for name in PLAYBOOKS]
    for name in known:
        if name.startswith(tuple(f"roles/{role}/tasks/" for role in ROLES)) or name in needed:
            needed += [f"plugins/modules/{module}.py" for module in re.findall(r"reduced\.footprint\.(\w+):", (workspace.ROOT / name).read_text("utf-8"))]
    assert "plugins/modules/virt_host_settings.py" in needed
    assert not [start for start in needed if start.startswith(migration_code.OTHERS)]
    assert migration_code.state() != workspace.code_state()


@pytest.mark.parametrize("begins, whole_at, seconds", [(0, 10, 10), (150, 170, 170), (150, 190, None), (200, 100, None), (0, 999, None)])
def test_the_time_to_recover_begins_with_the_repair(begins: float, whole_at: float, seconds: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when it is asked for: until then, something else may have been waited for."""
    sys.path.insert(0, str(workspace.ROOT / "tests" / "witness"))
    import vote_faults  # pylint: disable=import-outside-toplevel

    now = [1000 + begins]
    monkeypatch.setattr(vote_faults.time, "time", lambda: now[0])
    monkeypatch.setattr(vote_faults.time, "sleep", lambda pause: now.append(now.pop() + pause))
    assert vote_faults.RECOVERY == 180
    assert vote_faults.Cell._seconds_until(lambda: now[0] >= 1000 + whole_at, 1000) == seconds
