# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two servers with a controller each, and the laptop as the witness.

The fixture ``lab`` is a :class:`witness_lab.WitnessLab`, a lab with two servers that is removed in the end; ``--keep-lab`` leaves it up,
``--reuse-lab`` uses the one that is up.
"""

from __future__ import annotations

import pathlib
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "controllers")]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from witness_lab import WitnessLab  # noqa: E402


@pytest.fixture(scope="session")
def lab(reuse_lab: bool, keep_lab: bool) -> t.Iterator[WitnessLab]:
    """Two empty servers and the laptop, and their inventory."""
    it = WitnessLab()
    if not reuse_lab:
        it.command("down")
        it.command("up", "--servers", "2")
    it.write_witness_inventory()
    yield it
    it.stop_writing()
    if not keep_lab:
        it.command("down")
