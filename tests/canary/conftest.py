# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The versions of ansible-core that the sweep runs with: that of the tool chain, and the newest one if the gate has installed it; and a libvirt."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys
import typing as t

import pytest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support" / "libvirtd"
OWN = pathlib.Path(sys.executable).parent
FOLDERS = [OWN, *(pathlib.Path(folder) for folder in [os.environ.get("CANARY_NEWEST")] if folder)]


@pytest.fixture(scope="module", params=FOLDERS, ids=["own", "newest"][: len(FOLDERS)], name="ansible_playbook")
def fixture_ansible_playbook(request: pytest.FixtureRequest) -> str:
    """``ansible-playbook`` of one version."""
    tool = request.param / "ansible-playbook"
    assert tool.exists(), f"{tool} is missing"
    return str(tool)


@pytest.fixture(scope="module", name="daemon")
def fixture_daemon() -> t.Iterator[dict[str, str]]:
    """A libvirt of this test's own."""
    folder = f"/var/tmp/footprint-canary-{os.getpid()}"
    started = subprocess.run([str(SUPPORT), "start", folder], check=True, capture_output=True, text=True).stdout
    try:
        yield {"folder": folder, **dict(pair.split("=", 1) for pair in shlex.split(started))}
    finally:
        subprocess.run([str(SUPPORT), "stop", folder], check=True)
