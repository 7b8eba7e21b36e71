# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The lab for the end-to-end tests: up before the first, down after the last.

The tests of test_flow.py are chapters of one story, and run in order.
"""

from __future__ import annotations

import pathlib
import sys
import typing as t

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lab"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from support import Lab  # noqa: E402


@pytest.fixture(scope="session")
def lab(reuse_lab: bool, keep_lab: bool) -> t.Iterator[Lab]:
    """A fresh lab."""
    it = Lab()
    if not reuse_lab:
        it.command("down")
        it.command("up")
        it.command("writer", "start")
    yield it
    if not keep_lab:
        it.command("down")
