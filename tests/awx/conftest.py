# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""AWX without AWX: jobs on the tools of this checkout, and with --whole in containers of the execution environment, on a lab."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lab"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from awx_job import Awx  # noqa: E402


@pytest.fixture(name="awx")
def fixture_awx(tmp_path: pathlib.Path) -> Awx:
    """A project without anything but footprint.yml, run without containers."""
    return Awx(tmp_path)
