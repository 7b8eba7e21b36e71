# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A footprint on two servers: three controllers, and a writer at their virtual address.

The tests tell one story and run in order; when a chapter fails, the rest is not tried. ``ADD_SERVER_KEEP=1`` leaves the lab up
afterwards, ``ADD_SERVER_REUSE=1`` takes the one that is up.
"""

from __future__ import annotations

import os
import pathlib
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "tests" / "e2e"), str(pathlib.Path(__file__).resolve().parent)]

from add_server_lab import GrowLab  # noqa: E402

# hours, not minutes
collect_ignore = [] if os.environ.get("ADD_SERVER_WHOLE") == "1" else ["test_grow_whole.py"]
BROKEN = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def lab() -> t.Iterator[GrowLab]:
    """The footprint before it grows."""
    it = GrowLab()
    if not os.environ.get("ADD_SERVER_REUSE"):
        it.command("down")
        it.command("up", "--servers", "2")
        it.write_inventory(servers=2)
        for playbook in ("provision_virt", "spawn_vms", "deploy_controllers"):
            it.succeeds(playbook)
        it.start_writing()
    yield it
    if not os.environ.get("ADD_SERVER_KEEP"):
        it.command("down")


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Remember a failed chapter."""
    if call.excinfo is not None and item.get_closest_marker("chapter"):
        item.session.stash.setdefault(BROKEN, item.name)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A chapter after a failed one fails too: it cannot be shown."""
    broken = item.session.stash.get(BROKEN, None)
    if broken and item.get_closest_marker("chapter"):
        pytest.fail(f"not tried: {broken} failed before", pytrace=False)


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker."""
    config.addinivalue_line("markers", "chapter: part of one story; the rest needs it")
