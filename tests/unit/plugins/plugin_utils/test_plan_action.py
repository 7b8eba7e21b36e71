# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action plugins that plan: their options are those of their documentation, and invalid ones and results end in one sentence."""

from __future__ import annotations

import pathlib

import pytest

from tests.support.control_node import ControlNode

GIVEN = {"cluster": "blue", "removal": {"removal": {"vms": [], "lines": ["nothing"]}}, "standbys": {"standbys": []}, "records": {}, "vms": {}, "control": {}}


@pytest.mark.parametrize(
    ("given", "good", "words"),
    [
        ({}, True, "    metal2: nothing"),
        ({"lost": "w1,w2", "keep_protected": "yes"}, True, ""),
        ({"clutser": "blue"}, False, "Unsupported parameters for"),
        ({"keep_protected": "perhaps"}, False, "keep_protected"),
        # the answer of a machine
        ({"standbys": {"standbys": [{"id": "notes"}]}}, False, "Nothing was changed: a result that was read has an unexpected structure: KeyError('cluster')."),
    ],
)
def test_options_and_results_are_checked(tmp_path: pathlib.Path, given: dict[str, str], good: bool, words: str) -> None:
    tasks = [{"reduced.footprint.destroy_environment_plan": {**GIVEN, **given}, "register": "plan"}]
    code, output = ControlNode(tmp_path).play(tasks, footprint_cluster="blue")
    assert (code == 0) == good and words in output and "Traceback" not in output, output
