# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three controllers on the lab's own servers.

The fixture ``lab`` is a :class:`controllers_lab.ControllersLab`. It takes the lab of ``LAB_NAME`` and ``LAB_NETWORK`` when
that one is up, and leaves it up; otherwise it brings one up with three empty servers and takes it away in the end.
``--keep-lab`` leaves that one up too. Each file is a story of its own.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "support"), str(pathlib.Path(__file__).resolve().parent)]

from controllers_lab import SERVERS, ControllersLab  # noqa: E402


@pytest.fixture(scope="session")
def lab(keep_lab: bool) -> t.Iterator[ControllersLab]:
    """Three empty servers as controllers, and their inventory."""
    it = ControllersLab()
    found = subprocess.run([str(ROOT / "lab" / "lab"), "status"], capture_output=True, check=False).returncode == 0
    if not found:
        it.command("down")
        it.command("up", "--servers", "3")
    it.power_on(*[name for name in SERVERS if not it.answers(name, ["true"])])
    it.write_inventory()
    yield it
    it.stop_writing()
    if not found and not keep_lab:
        it.command("down")
