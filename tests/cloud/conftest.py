# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cloud on the lab's own servers.

The fixture ``lab`` is a :class:`cloud_lab.CloudLab` with Debian 13. It takes the lab of ``LAB_NAME`` and ``LAB_NETWORK`` when that one is up, and
leaves it up; otherwise it brings one up with three empty servers and takes it away in the end.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest

# the cloud needs Debian 13
os.environ["LAB_RELEASE"] = "trixie"
ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "controllers"), str(HERE)]

from cloud_client import Cloud  # noqa: E402
from cloud_lab import CloudLab  # noqa: E402
from controllers_lab import SERVERS  # noqa: E402
from tenant import Tenant  # noqa: E402


@pytest.fixture(scope="session")
def lab(keep_lab: bool) -> t.Iterator[CloudLab]:
    """Three empty servers."""
    it = CloudLab()
    found = subprocess.run([str(ROOT / "lab" / "lab"), "status"], capture_output=True, check=False).returncode == 0
    if not found:
        it.command("down")
        it.command("up", "--servers", "3")
    machines = json.loads(it.command("status", "--json"))["machines"]
    # a lab that was brought up for one test may have fewer servers
    it.power_on(*[machine["name"] for machine in machines if machine["name"] in SERVERS and not machine["ssh"]])
    yield it
    if not found and not keep_lab:
        it.command("down")


@pytest.fixture(scope="module")
def cloud(lab: CloudLab, reuse_lab: bool) -> Cloud:
    """All services on three controllers."""
    lab.write_inventory(variables={"footprint_cloud": True, "footprint_components": None})
    if not reuse_lab:
        lab.succeeds("deploy_controllers")
    return Cloud(lab)


@pytest.fixture(scope="module")
def tenant(lab: CloudLab) -> Tenant:
    """A tenant, after cloud_bootstrap."""
    return Tenant(Cloud(lab))
