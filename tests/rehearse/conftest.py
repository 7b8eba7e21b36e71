# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's master and the server it is to move to, with a writer at work.

The tests are chapters of one story, and run in order.
"""

from __future__ import annotations

import pathlib
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "support"), str(pathlib.Path(__file__).resolve().parent)]

from stage import StageLab  # noqa: E402


@pytest.fixture(scope="session")
def lab(reuse_lab: bool, keep_lab: bool) -> t.Iterator[StageLab]:
    """The master on its laptop, and a server with libvirt."""
    it = StageLab()
    if not reuse_lab:
        it.command("down")
        it.command("up", "--servers", "1")
        it.command("writer", "start")
        it.succeeds("provision_virt", "--limit", "metal1")
    yield it
    if not keep_lab:
        it.command("down")
