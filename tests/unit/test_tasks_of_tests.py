# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tasks at which tests of hours kill a run exist: a renamed one would be noticed by none of the short tests."""

from __future__ import annotations

import functools
import re
import typing as t

import pytest

from tests.support.control_node import ROOT

#: The beginning of the name of a task of a role or playbook, as the output of a run shows it.
WANTED = re.compile(r"(?:TASK \[|kill_at=[\"'](?!TASK))(?:reduced\.footprint\.)?(?:(\w+) : )?([A-Z][^\"'\]{]*)")
NAMES = re.compile(r"^\s*(?:- )?name: [\"']?(.*?)[\"']?$", re.MULTILINE)


@functools.lru_cache(maxsize=None)
def names(folder: str) -> list[str]:
    """Return the names of tasks below a folder."""
    return [name for path in (ROOT / folder).rglob("*.yml") for name in NAMES.findall(path.read_text("utf-8"))]


def wanted() -> t.Iterator[tuple[str, str, str]]:
    """Yield the file, role and beginning of each task that a test waits for."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        where = path.relative_to(ROOT)
        if where.parts[1] not in ("unit", "output"):
            yield from ((str(where), *found) for found in WANTED.findall(path.read_text("utf-8").replace("TASK [{", "")))


@pytest.mark.parametrize(("where", "role", "task"), sorted(set(wanted())))
def test_a_task_at_which_a_run_is_killed_exists(where: str, role: str, task: str) -> None:
    known = names(f"roles/{role}") if role else [*names("playbooks"), *names("roles")]
    # up to its first variable
    begins = [name.partition("{{")[0] for name in known if "{{" in name]
    assert any(name.startswith(task.strip()) for name in known) or any(name and task.startswith(name) for name in begins), f"{where}: {role} : {task}"
