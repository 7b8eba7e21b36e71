# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three controllers on the lab's own servers.

The fixture ``lab`` is a :class:`controllers_lab.ControllersLab`. It takes the lab of ``LAB_NAME`` and ``LAB_NETWORK`` when
that one is up, and leaves it up; otherwise it brings one up with three empty servers and takes it away in the end.
``CONTROLLERS_KEEP=1`` leaves that one up too. Each file tells a story of its own: a test marked ``chapter`` needs the ones
before it in its file, and when one fails the rest of that file is not tried. Tests marked ``whole`` run with
``CONTROLLERS_WHOLE=1`` alone.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "support"), str(pathlib.Path(__file__).resolve().parent)]

from controllers_lab import SERVERS, ControllersLab  # noqa: E402

WHOLE = os.environ.get("CONTROLLERS_WHOLE") == "1"
BROKEN = pytest.StashKey[t.Dict[str, str]]()


@pytest.fixture(scope="session")
def lab() -> t.Iterator[ControllersLab]:
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
    if not found and not os.environ.get("CONTROLLERS_KEEP"):
        it.command("down")


def pytest_collection_modifyitems(config: pytest.Config, items: t.List[pytest.Item]) -> None:
    """What takes long is for the torture."""
    left = [] if WHOLE else [item for item in items if item.get_closest_marker("whole")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Remember a failed chapter, by file."""
    if call.excinfo is not None and item.get_closest_marker("chapter"):
        item.session.stash.setdefault(BROKEN, {}).setdefault(str(item.path), item.name)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A chapter after a failed one fails too: it cannot be shown."""
    broken = item.session.stash.get(BROKEN, {}).get(str(item.path))
    if broken and item.get_closest_marker("chapter"):
        pytest.fail(f"not tried: {broken} failed before", pytrace=False)


def pytest_configure(config: pytest.Config) -> None:
    """Name the markers."""
    config.addinivalue_line("markers", "chapter: part of one story; the rest of the file needs it")
    config.addinivalue_line("markers", "whole: for the torture")
