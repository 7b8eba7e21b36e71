# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A footprint on three servers: a controller on each of them, and a writer at their virtual address.

The tests are chapters of one story, and run in order.
"""

from __future__ import annotations

import pathlib
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "tests" / "e2e"), str(ROOT / "tests/add_server"), str(pathlib.Path(__file__).resolve().parent)]
sys.path.append(str(ROOT / "tests" / "metal"))

from replace_lab import ReplaceLab  # noqa: E402


# the tests of a file leave the servers with other roles
@pytest.fixture(scope="module")
def lab(reuse_lab: bool, keep_lab: bool) -> t.Iterator[ReplaceLab]:
    """The footprint with three servers."""
    it = ReplaceLab()
    if not reuse_lab:
        it.command("down")
        it.command("up", "--servers", "3")
        it.write_inventory()
        for playbook in ("provision_virt", "spawn_vms", "deploy_controllers"):
            it.succeeds(playbook)
        it.start_writing()
    yield it
    if not keep_lab:
        it.command("down")
