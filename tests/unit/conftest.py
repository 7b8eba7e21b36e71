# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many random values the unit tests take, and an unused test driver of libvirt for each file.

Random values: always the same fifty, few with ``--hypothesis-profile=quick``, thousands under torture.
"""

from __future__ import annotations

import gc
import os
import pathlib
import sys

import pytest
from hypothesis import settings

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "runner"))

import playbook_tests  # noqa: E402

EXAMPLES = os.environ.get("HYPOTHESIS_MAX_EXAMPLES")

# A deadline would only measure how busy the machine is.
settings.register_profile("everyday", deadline=None, derandomize=True, database=None, max_examples=50)
settings.register_profile("quick", deadline=None, derandomize=True, database=None, max_examples=15)
settings.register_profile("torture", deadline=None, max_examples=int(EXAMPLES or 100), database=None)
settings.load_profile("torture" if EXAMPLES else "everyday")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of files that run playbooks."""
    marked = {path for path in {item.path for item in items} if playbook_tests.runs_playbooks(path)}
    for item in items:
        if item.path in marked:
            item.add_marker("playbooks")


@pytest.fixture(scope="module", autouse=True)
def fixture_unused_test_driver(request: pytest.FixtureRequest) -> None:
    """Close connections that a cycle of objects of an earlier file has left open: all connections of a process share the state of the driver."""
    if "test:///default" in request.path.read_text("utf-8"):
        gc.collect()
