# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options and markers of all tests.

``--whole``       also run the tests marked ``whole``, and more rounds where a test asks the fixture ``whole``: hours, not minutes
``--keep-lab``    leave the lab up after the tests
``--reuse-lab``   use the lab that is up, as it is

A test marked ``chapter`` needs the chapters before it in its file: after a failure the others fail too, without being run.
"""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import typing as t

import pytest

# The bytecode of tests, with pytest's assertions, and of what they import: kept, but not beside the files. Programs that they start keep none.
sys.pycache_prefix = str(pathlib.Path(__file__).resolve().parents[1] / ".cache" / "bytecode")
sys.dont_write_bytecode = False

_FAILED = pytest.StashKey[t.Dict[str, str]]()


def pytest_configure() -> None:
    """End like after Ctrl-C when the gate is ended, so that fixtures remove what they created."""
    own = os.getpid()

    def end(number: int, _frame: t.Any) -> None:
        if os.getpid() == own:
            raise KeyboardInterrupt
        # a process that a test forked
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options named above."""
    parser.addoption("--whole", action="store_true", help="run the long tests too")
    parser.addoption("--keep-lab", action="store_true", help="leave the lab up after the tests")
    parser.addoption("--reuse-lab", action="store_true", help="use the lab that is up")


@pytest.fixture(scope="session")
def whole(pytestconfig: pytest.Config) -> bool:
    """Whether the long tests are wanted."""
    return bool(pytestconfig.getoption("--whole"))


@pytest.fixture(scope="session")
def keep_lab(pytestconfig: pytest.Config) -> bool:
    """Whether the lab is left up after the tests."""
    return bool(pytestconfig.getoption("--keep-lab"))


@pytest.fixture(scope="session")
def reuse_lab(pytestconfig: pytest.Config) -> bool:
    """Whether the lab that is up is used."""
    return bool(pytestconfig.getoption("--reuse-lab"))


def pytest_collection_modifyitems(config: pytest.Config, items: t.List[pytest.Item]) -> None:
    """Deselect the long tests unless they are wanted."""
    if not config.getoption("--whole"):
        long = [item for item in items if item.get_closest_marker("whole")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("whole")]


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note the first chapter of a file that failed."""
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception) and item.get_closest_marker("chapter"):
        item.session.stash.setdefault(_FAILED, {}).setdefault(str(item.path), item.name)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a chapter whose file had a failed one before: it cannot be shown."""
    failed = item.session.stash.get(_FAILED, {}).get(str(item.path))
    if failed and item.get_closest_marker("chapter"):
        pytest.fail(f"not run: {failed} failed before", pytrace=False)
