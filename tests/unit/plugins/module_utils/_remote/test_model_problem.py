# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_problem import TOOLS_PATH, Problem, as_text, without_tools

ROOM = Problem("No room.", "Add a disk.", "vm.disks")
TOOLS = Problem("rsync is missing.", "Install it.", TOOLS_PATH)
PLAIN = Problem("It is itself.", "Use another.")


def test_all_problems_are_in_one_message():
    assert as_text([ROOM, PLAIN]) == "Nothing was changed. 2 problem(s): 1. vm.disks: No room. Add a disk. 2. It is itself. Use another."


def test_missing_tools_are_warnings_in_check_mode():
    assert without_tools(iter([ROOM, TOOLS, PLAIN])) == ([ROOM, PLAIN], ["rsync is missing. Install it."])
