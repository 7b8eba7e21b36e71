# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of commands are compared in English only: in a session with another language, virsh and dpkg translate them."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
COMPARED = re.compile(r"' (not )?in \w+[.]stderr")
FILES = [path for path in sorted([*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml")]) if COMPARED.search(path.read_text("utf-8"))]


def commands(value: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Yield all tasks that run a command."""
    for one in value if isinstance(value, list) else ():
        if "ansible.builtin.command" in one:
            yield one
        for key in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks"):
            yield from commands(one.get(key))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_compared_errors_are_not_translated(path: pathlib.Path) -> None:
    found = [task for task in commands(yaml.safe_load(path.read_text("utf-8"))) if COMPARED.search(f"{task.get('failed_when')} {task.get('until')}")]
    assert found and all(task.get("environment", {}).get("LC_ALL") == "C" for task in found)
