# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of Ansible at the same time assign whole servers of one pool, and agree."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_runs_of_ansible_at_the_same_time_agree(tmp_path: pathlib.Path) -> None:
    record = tmp_path / "record.json"
    pool = [{"name": "m1", "memory": 16, "cpus": 4}, {"name": "m2", "memory": 64, "cpus": 4, "traits": ["gpu"]}]
    argv = [str(pathlib.Path(sys.executable).parent / "ansible"), "localhost", "-c", "local", "-m", "reduced.footprint.server_allocation", "-a"]
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"), "ANSIBLE_PYTHON_INTERPRETER": sys.executable}

    def start(*wanted: dict[str, object]) -> subprocess.Popen[str]:
        options = json.dumps({"record": str(record), "servers": pool, "wanted": wanted, "lock_timeout": 300})
        return subprocess.Popen([*argv, options], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    runs = [start({"name": f"any{number}", "match": "at_least", "ram": 1}) for number in range(3)]
    outputs = [run.communicate(timeout=600)[0] for run in runs]
    assert sorted(run.returncode != 0 for run in runs) == [False, False, True], outputs
    assert sum("are assigned" in output for output in outputs) == 1, outputs
    assigned = json.loads(record.read_text("utf-8"))["assigned"]
    assert sorted(entry["server"] for entry in assigned.values()) == ["m1", "m2"]
    name = next(iter(assigned))
    again = start({"name": name, "match": "at_least", "ram": 1})
    assert '"changed": false' in again.communicate(timeout=600)[0] and again.returncode == 0
