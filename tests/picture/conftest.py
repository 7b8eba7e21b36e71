# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cloud whose controllers are VMs of its compute servers, in the lab with Debian 13.

The lab is taken away in the end. With ``--reuse-lab`` that of ``LAB_NAME`` and ``LAB_NETWORK`` is used as it is.
"""

from __future__ import annotations

import os
import pathlib
import sys
import typing as t

import pytest

# the cloud needs Debian 13
os.environ["LAB_RELEASE"] = "trixie"
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab"), *(str(ROOT / "tests" / name) for name in ("e2e", "witness", "picture"))]

from support import Lab  # noqa: E402


@pytest.fixture(scope="module")
def lab(keep_lab: bool) -> t.Iterator[Lab]:
    """The lab, which the first chapter starts."""
    it = Lab()
    yield it
    if not keep_lab:
        it.command("down")
