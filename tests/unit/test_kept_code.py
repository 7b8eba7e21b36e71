# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module's code is what Ansible sends with it. Its copy on a host must contain the programs that units and keys run there."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._monitoring import plan_gatherers
from ansible_collections.reduced.footprint.plugins.module_utils._remote import model_one_time_key
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_timers, plan_cluster, run_agent, run_channel

from tests.support.control_node import ROOT

CODE = pathlib.Path("/code")
PREFIX = "ansible_collections.reduced.footprint."
UNITS = io_timers.texts("m", 900, CODE)
PROGRAMS = sorted({found for text in UNITS.values() for found in re.findall(r" -m (ansible_collections\S+)", text)})


def sent_with(module: str) -> set[str]:
    """Return the names of what is sent with a module, as Ansible finds them: all imports, wherever they are."""
    found: set[str] = set()
    paths = [ROOT / f"plugins/modules/{module}.py"]
    while paths:
        for node in ast.walk(ast.parse(paths.pop().read_text("utf-8"))):
            names = [f"{node.module}.{each.name}" for each in node.names] if isinstance(node, ast.ImportFrom) else []
            for name in names + [each.rpartition(".")[0] for each in names]:
                path = ROOT / f"{name.removeprefix(PREFIX).replace('.', '/')}.py"
                if name.startswith(PREFIX) and name not in found and path.is_file():
                    found.add(name)
                    paths.append(path)
    return found


@pytest.mark.parametrize(("module", "programs"), [
    ("vm_standby", PROGRAMS),
    ("one_time_key", [model_one_time_key.DISPATCH, run_agent.MODULE, run_channel.__name__]),
    ("state_metrics", [plan_gatherers.MODULE]),
    ("failover_member", re.findall(r" -m (ansible_collections\S+)", plan_cluster.agent("/code", "python3"))),
])  # fmt: skip
def test_the_code_of_a_module_contains_the_programs_that_it_installs(module: str, programs: list[str]) -> None:
    assert programs and sent_with(module) >= set(programs), sorted(set(programs) - sent_with(module))
