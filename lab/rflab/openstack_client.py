# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a control node needs for the resources of a cloud: the collection openstack.cloud and openstacksdk, as docs/cloud-resources.md describes it."""

from __future__ import annotations

import pathlib
import sys

from .plays import environment
from .say import run
from .settings import REPO

PACKAGES = ("ansible>=12,<13", "ansible-core>=2.19,<2.20", "openstacksdk>=4.4,<4.11")


def directory() -> pathlib.Path:
    """Return the directory of these packages, installed at the first call."""
    home = REPO / ".cache" / "venv-cloud"
    if not (home / "ready").exists():
        run([sys.executable, "-m", "venv", "--clear", str(home)])
        run([str(home / "bin" / "pip"), "install", "--quiet", *PACKAGES])
        (home / "ready").touch()
    (packages,) = home.glob("lib/python3*/site-packages")
    return packages


def variables() -> dict[str, str]:
    """Return the environment variables with which ansible-playbook finds them."""
    packages = directory()
    return {"PYTHONPATH": str(packages), "ANSIBLE_COLLECTIONS_PATH": f"{environment()['ANSIBLE_COLLECTIONS_PATH']}:{packages}"}
