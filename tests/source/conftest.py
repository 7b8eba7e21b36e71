# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The laptop of the lab as the source of a migration; this machine acts as the destination host.

Each test begins and ends with a source that serves.
"""

from __future__ import annotations

import pathlib
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "support"), str(pathlib.Path(__file__).resolve().parent)]

from source_machine import SourceMachine  # noqa: E402
from support import Lab  # noqa: E402


@pytest.fixture(scope="session")
def lab(reuse_lab: bool, keep_lab: bool) -> t.Iterator[Lab]:
    """Start a lab with one server without any setup."""
    it = Lab()
    if not reuse_lab:
        it.command("down")
        it.command("up", "--servers", "1")
    yield it
    if not keep_lab:
        it.command("down")


@pytest.fixture
def source(lab: Lab, tmp_path: pathlib.Path) -> t.Iterator[SourceMachine]:
    """Return the serving source; restore it after the test."""
    it = SourceMachine(lab, tmp_path)
    it.await_serving()
    yield it
    it.take_back()
