# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables in CONTRIBUTING.md: modules and their tests, changes and their folders."""

from __future__ import annotations

import re

from tests.support import module_tests


def test_table_is_current() -> None:
    assert module_tests.current() == module_tests.table(), "Run: python tests/support/module_tests.py"


def test_every_module_runs_on_real_parts() -> None:
    assert [row for row in module_tests.table().splitlines() if row.endswith("|  |")] == []


def test_folders_of_changes_exist() -> None:
    folders = re.findall(r"^\| .+ \| `([^`]+/)` \|$", module_tests.TARGET.read_text("utf-8"), re.MULTILINE)
    assert len(folders) >= 20
    assert [folder for folder in folders if not (module_tests.ROOT / folder).is_dir()] == []
