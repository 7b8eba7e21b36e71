# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server of the lab with libvirt, and an old master that runs as an emulated machine, not as a container."""

from __future__ import annotations

import pathlib
import sys
import typing as t

import pytest

from tests.support import leftovers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(ROOT / "lab"))

import source_image  # noqa: E402
from rflab.plays import play  # noqa: E402
from rflab.settings import Lab, current  # noqa: E402
from source import LOGS, Source, command  # noqa: E402


@pytest.fixture(scope="session", name="lab")
def fixture_lab(reuse_lab: bool, keep_lab: bool) -> t.Iterator[Lab]:
    """Return a server after the role."""
    if reuse_lab:
        yield current()
        return
    command("down")
    command("up", "--servers", "1", "--laptops", "2")
    done = play("reduced.footprint.provision_virt", "--limit", "metal1", log=LOGS / "provision.log")
    assert done.rc == 0, done.output[-4000:]
    yield current()
    if not keep_lab:
        command("down")


@pytest.fixture(scope="session", name="source")
def fixture_source(lab: Lab) -> t.Iterator[Source]:
    """Start the old master, which serves at the admin address."""
    disk = source_image.build()
    # a socket lives there, so its name is short
    with leftovers.folder("rfmig") as folder:
        source = Source(folder, disk, lab)
        source.on()
        try:
            source.settle()
            yield source
        finally:
            source.off()
            LOGS.mkdir(parents=True, exist_ok=True)
            (LOGS / "source-console.log").write_bytes(source.console.read_bytes() if source.console.exists() else b"")
