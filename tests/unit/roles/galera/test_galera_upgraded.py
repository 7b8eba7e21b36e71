# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The note that keeps a joiner's tables from being rebuilt.

MariaDB is not installed where the unit tests run: a script stands in for its upgrade program. The real one is met on
the lab's controllers.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[4] / "roles" / "galera" / "files" / "galera_upgraded.py"
SAYS = "mysql_upgrade  Ver 2.1 Distrib 10.11.19-MariaDB, for debian-linux-gnu (x86_64)"


@pytest.fixture(name="datadir")
def fixture_datadir(tmp_path: pathlib.Path) -> pathlib.Path:
    """A data directory, and an upgrade program that knows the name of its note."""
    program = tmp_path / "bin" / "mysql_upgrade"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n# mysql_upgrade_info\necho '{SAYS}'\n")
    program.chmod(0o755)
    datadir = tmp_path / "data"
    datadir.mkdir()
    return datadir


def run(datadir: pathlib.Path, **environment: str) -> None:
    path = os.pathsep.join([str(datadir.parent / "bin"), "/bin"])
    subprocess.run([sys.executable, str(SCRIPT), str(datadir)], env={"PATH": path, **environment}, check=True)


def test_a_joiner_is_noted_as_upgraded_to_the_version_that_runs(datadir: pathlib.Path) -> None:
    run(datadir)
    assert [path.name for path in datadir.iterdir()] == ["mysql_upgrade_info"]
    assert (datadir / "mysql_upgrade_info").read_text() == "10.11.19-MariaDB"


def test_after_an_upgrade_of_the_packages_the_check_does_its_work(datadir: pathlib.Path) -> None:
    (datadir / "mysql_upgrade_info").write_text("10.6.1-MariaDB")
    run(datadir)
    assert (datadir / "mysql_upgrade_info").read_text() == "10.6.1-MariaDB"


def test_who_starts_the_cluster_is_checked(datadir: pathlib.Path) -> None:
    run(datadir, _WSREP_NEW_CLUSTER="--wsrep-new-cluster")
    assert not list(datadir.iterdir())
