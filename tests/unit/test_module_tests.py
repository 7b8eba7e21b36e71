# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of modules and their tests in CONTRIBUTING.md."""

from __future__ import annotations

from tests.support import module_tests


def test_table_is_current() -> None:
    assert module_tests.current() == module_tests.table(), "Run: python tests/support/module_tests.py"


def test_every_module_runs_on_real_parts() -> None:
    assert [row for row in module_tests.table().splitlines() if row.endswith("|  |")] == []
