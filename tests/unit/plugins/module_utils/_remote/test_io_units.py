# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import subprocess
import sys
import zipfile

from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore, names
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal


PACKAGE = "ansible_collections.reduced.footprint.plugins.module_utils"


def python(code, *arguments):
    """A Python process with only a stored zip of this collection."""
    environment = {"PYTHONPATH": str(code)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, cwd="/", check=False)


def test_the_kept_code_runs_by_itself_and_its_name_is_its_content(tmp_path: pathlib.Path):
    kept = io_units.keep_code(tmp_path / "lib")
    assert io_units.keep_code(tmp_path / "other").name == kept.name
    done = python(kept, "-m", f"{PACKAGE}._migrate.source.run_agent")
    assert done.returncode == 2 and "usage" in done.stderr


def test_the_code_of_a_kept_zip_is_the_same_zip(tmp_path: pathlib.Path):
    kept = io_units.keep_code(tmp_path / "lib")
    script = f"import sys, pathlib; from {PACKAGE}._remote import io_units as units; print(units.keep_code(pathlib.Path(sys.argv[1])).name)"
    done = python(kept, "-c", script, str(tmp_path / "again"))
    assert done.stdout.strip() == kept.name
    assert zipfile.is_zipfile(kept)


def test_a_restart_of_the_host_starts_the_worker_until_it_has_ended(tmp_path: pathlib.Path):
    io_units._start_at_boot("a-b.service", ["systemd-run", 'say "50 %"', "$HOME", "back\\slash"], tmp_path)
    unit, link = tmp_path / "a-b-at-boot.service", tmp_path / "multi-user.target.wants" / "a-b-at-boot.service"
    assert link.resolve() == unit
    line = next(line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    assert line == 'ExecStart=/usr/bin/env "systemd-run" "say \\"50 %%\\"" "$$HOME" "back\\\\slash"'
    # checked by systemd itself
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "a-b-at-boot.service" not in done.stderr, done.stderr
    io_units._start_at_boot("a-b.service", ["systemd-run"], tmp_path)
    io_units.forget_at_boot("a-b.service", tmp_path)
    assert not unit.exists() and not link.is_symlink()
    io_units.forget_at_boot("a-b.service", tmp_path)


def test_a_store_keeps_job_and_journal_for_root_alone(tmp_path: pathlib.Path):
    store = JournalStore("master", tmp_path)
    assert store.read() is None and store.read_job() is None and names(tmp_path) == []
    store.write_job({"action": "migrate", "params": {}})
    store.write(Journal(name="master"))
    store.log("begins")
    assert store.read() == Journal(name="master")
    assert names(tmp_path) == ["master"]
    assert store.tail(1)[0].endswith(" begins")
    assert (store.directory.stat().st_mode & 0o777, (store.directory / "job.json").stat().st_mode & 0o777) == (0o700, 0o600)


def test_the_kept_code_has_the_files_of_all_folders(tmp_path: pathlib.Path):
    base = pathlib.Path(io_units.__file__).resolve().parents[1]
    with zipfile.ZipFile(io_units.keep_code(tmp_path / "lib")) as kept:
        names = {name.partition("module_utils/")[2] for name in kept.namelist()}
    wanted = {path.relative_to(base).as_posix() for path in base.rglob("*.py")}
    assert any(path.count("/") == 2 for path in wanted) and wanted <= names
