# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The lab for the end-to-end tests: up before the first, down after the last.

The tests of test_flow.py tell one story and are run in order; when a chapter fails, the rest is not tried.
"""

from __future__ import annotations

import os
import pathlib
import sys
import typing as t

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lab"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from support import Lab  # noqa: E402


@pytest.fixture(scope="session")
def lab() -> t.Iterator[Lab]:
    """A fresh lab; ``E2E_KEEP=1`` leaves it up afterwards, ``E2E_REUSE=1`` takes the one that is up."""
    it = Lab()
    if not os.environ.get("E2E_REUSE"):
        it.command("down")
        it.command("up")
        it.command("writer", "start")
    yield it
    if not os.environ.get("E2E_KEEP"):
        it.command("down")


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Remember a failed chapter."""
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception) and item.get_closest_marker("chapter"):
        item.session.stash[BROKEN] = item.name


BROKEN = pytest.StashKey[str]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A chapter after a failed one fails too: it cannot be shown."""
    broken = item.session.stash.get(BROKEN, None)
    if broken and item.get_closest_marker("chapter"):
        pytest.fail(f"not tried: {broken} failed before", pytrace=False)


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker."""
    config.addinivalue_line("markers", "chapter: part of one story; the rest needs it")
