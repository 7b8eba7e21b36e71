# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The versions of ansible-core that the sweep runs with: that of the tool chain, and the newest one if the gate has installed it."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

OWN = pathlib.Path(sys.executable).parent
FOLDERS = [OWN, *(pathlib.Path(folder) for folder in [os.environ.get("CANARY_NEWEST")] if folder)]


@pytest.fixture(scope="module", params=FOLDERS, ids=["own", "newest"][: len(FOLDERS)], name="ansible_playbook")
def fixture_ansible_playbook(request: pytest.FixtureRequest) -> str:
    """``ansible-playbook`` of one version."""
    tool = request.param / "ansible-playbook"
    assert tool.exists(), f"{tool} is missing"
    return str(tool)
