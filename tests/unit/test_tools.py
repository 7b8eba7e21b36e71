# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The locked versions of the tools belong to their bounds; every supported ansible-core is tested with a Python it runs on."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "runner"))

import artifact  # noqa: E402
import cores  # noqa: E402

LOCKS = sorted((ROOT / "scripts" / "locks").glob("*.txt"))
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9._-]*==\S+( ; .+)? \\")
_HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def locked(folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(folder / "scripts" / "lock"), "--check"], capture_output=True, text=True, check=False)


def test_the_locks_belong_to_the_bounds_until_a_bound_changes(tmp_path: pathlib.Path) -> None:
    assert locked(ROOT).returncode == 0, locked(ROOT).stderr
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    bounds = (ROOT / "requirements-dev.txt").read_text("utf-8")
    (tmp_path / "requirements-dev.txt").write_text(f"# another remark\n{bounds}", "utf-8")
    assert locked(tmp_path).returncode == 0
    (tmp_path / "requirements-dev.txt").write_text(bounds.replace("pytest>=8,<9", "pytest>=8,<10"), "utf-8")
    done = locked(tmp_path)
    assert done.returncode == 1 and "tools-3.13.txt does not belong to requirements-dev.txt" in done.stderr


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_lock_has_exact_versions_and_hashes_only(path: pathlib.Path) -> None:
    lines = path.read_text("utf-8").splitlines()[1:]
    assert lines and [line for line in lines if not _PACKAGE.fullmatch(line) and not _HASH.fullmatch(line)] == []
    assert sum(line.startswith("ansible-core==") for line in lines) == 1


def test_there_is_a_lock_for_each_debian() -> None:
    assert [path.stem for path in LOCKS] == ["importer-3.11", "importer-3.13", "tools-3.11", "tools-3.13"]


def test_the_oldest_core_is_the_one_that_is_required() -> None:
    required = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text("utf-8"))["requires_ansible"]
    assert required == f">={next(iter(cores.CORES))}.0"


def test_no_role_needs_another_core() -> None:
    oldest = next(iter(cores.CORES))
    roles = {path.parts[-3]: yaml.safe_load(path.read_text("utf-8"))["galaxy_info"] for path in ROOT.glob("roles/*/meta/main.yml")}
    # a role of a collection need not name it
    named = {name: info["min_ansible_version"] for name, info in roles.items() if "min_ansible_version" in info}
    assert set(named.values()) <= {oldest}, named


@pytest.mark.parametrize(
    ("name", "size", "allowed"),
    [
        ("plugins/modules/vm_define.py", 1, True),
        ("README.md", 1, True),
        ("tool-1.0-py3-none-any.whl", 1, False),
        ("plugins/modules/vm_define.pyc", 1, False),
        ("notes.md", 1, False),
        ("tests/conftest.py", 1, False),
        ("docs/images/plan.png", 10**6, False),
    ],
)
def test_the_artifact_has_known_files_only(name: str, size: int, allowed: bool) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    assert (not artifact.refused([member])) == allowed


def test_a_core_without_a_python_fails_and_names_it(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores.workspace, "search_path", lambda: str(tmp_path))
    assert cores.newest() == "2.19"
    (step,) = cores.steps("2.21", tmp_path, sanity=False)
    done = subprocess.run(list(step.argv), capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "ansible-core 2.21 needs Python 3.13 or 3.12" in done.stderr
