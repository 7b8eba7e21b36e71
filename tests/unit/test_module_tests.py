# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every module runs on real parts, and the folders that CONTRIBUTING.md names exist."""

from __future__ import annotations

import re

from tests.support import module_tests


def test_every_module_runs_on_real_parts() -> None:
    assert [row for row in module_tests.table().splitlines() if row.endswith("|  |")] == []


def test_folders_and_files_of_contributing_exist() -> None:
    root = module_tests.ROOT
    text = (root / "CONTRIBUTING.md").read_text("utf-8")
    names = {name for name in re.findall(r"`((?:\w[\w-]*/)+[\w.]*)`", text) if "SUBJECT" not in name}
    assert len(names) >= 20
    starts = (root, root / "plugins" / "module_utils", root / "tests" / "unit" / "plugins" / "module_utils", root / "roles" / "galera")
    assert [name for name in sorted(names) if not any((start / name).exists() for start in starts)] == []
    subjects = set(re.findall(r"`(_[a-z]+)`", "".join(line.partition("|")[2].partition("|")[0] for line in text.splitlines())))
    assert subjects == {path.name for path in (root / "plugins" / "module_utils").glob("_*/") if path.name != "__pycache__" and any(path.rglob("*.py"))}
