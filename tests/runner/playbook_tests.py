# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unit tests that run ``ansible-playbook``: each run takes a second or more, so ``make check`` leaves out those of other playbooks."""

from __future__ import annotations

import pathlib
import typing as t

FOLDER = "tests/unit/"
#: In the text of a test file that runs it.
_CALLS = ("tests.support.control_node", 'with_name("ansible-playbook")')


def runs_playbooks(path: pathlib.Path) -> bool:
    """Whether the tests of a file run ``ansible-playbook``."""
    text = path.read_text("utf-8")
    return any(call in text for call in _CALLS)


def concerned(changed: t.Sequence[str], root: pathlib.Path) -> list[str]:
    """The test files that run playbooks, and were changed or are named after a changed playbook, task file or role.

    :arg changed: paths below ``root``.
    """
    tests = [path for path in sorted((root / FOLDER).rglob("test_*.py")) if runs_playbooks(path)]
    playbooks = [pathlib.PurePath(name).stem for name in changed if name.startswith("playbooks/")]
    roles = {f"{FOLDER}roles/{name.split('/')[1]}/" for name in changed if name.startswith("roles/")}
    found = []
    for path in tests:
        name = str(path.relative_to(root))
        # replace_server_plan.yml is a task file of replace_server.yml
        named = path.parent == root / FOLDER and any(f"{playbook}_".startswith(f"{path.stem[len('test_') :]}_") for playbook in playbooks)
        if name in changed or named or name.startswith(tuple(roles)):
            found.append(name)
    return found
