# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is done with a member's data before its server starts: the saved view, and data that are incomplete."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[4] / "roles" / "galera" / "files" / "galera_before_start.py"
CRASHED, STOPPED = "uuid:    a\nseqno:   -1\n", "uuid:    a\nseqno:   7\n"


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with the script, which looks for the mark in it, an empty data directory and a stand-in for systemctl."""
    mark = "/var/lib/footprint-galera"
    assert mark in (text := SCRIPT.read_text("utf-8"))
    (tmp_path / "script.py").write_text(text.replace(mark, str(tmp_path)), "utf-8")
    (tmp_path / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/orders\n', "utf-8")
    (tmp_path / "systemctl").chmod(0o755)
    (tmp_path / "data").mkdir()
    return tmp_path


def run(folder: pathlib.Path, new_cluster: str = "") -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "_WSREP_NEW_CLUSTER": new_cluster}
    return subprocess.run([sys.executable, folder / "script.py", folder / "data"], check=False, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("view", "last", "saved", "kept"),
    [
        # it crashed in a component
        ("new", None, CRASHED, "new"),
        ("new", "old", CRASHED, "new"),
        # it crashed again before it was in one
        (None, "old", CRASHED, "old"),
        # a power loss while Galera wrote it
        ("", "old", CRASHED, "old"),
        # a graceful stop: its position is saved, and members that remained may have been in later components
        (None, "old", STOPPED, None),
        (None, "old", None, None),
        (None, None, None, None),
    ],
)
def test_the_saved_view(folder: pathlib.Path, view: str | None, last: str | None, saved: str | None, kept: str | None) -> None:
    data = folder / "data"
    for name, text in {"gvwstate.dat": view, "gvwstate.dat.last": last, "grastate.dat": saved}.items():
        if text is not None:
            (data / name).write_text(text, "utf-8")
    done = run(folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (data / "gvwstate.dat").exists()
    found = data / "gvwstate.dat.last"
    assert (found.read_text("utf-8") if found.exists() else None) == kept


def test_a_server_without_data_starts(folder: pathlib.Path) -> None:
    (folder / "data").rmdir()
    assert run(folder).returncode == 0


@pytest.mark.parametrize(("incomplete", "new_cluster", "kept"), [(True, "", False), (False, "", True), (True, "--wsrep-new-cluster", True)])
def test_incomplete_data_are_set_aside(folder: pathlib.Path, incomplete: bool, new_cluster: str, kept: bool) -> None:
    data = folder / "data"
    for name in ("mysql/user", "ibdata1", "grastate.dat", "lost+found/a"):
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_text(name, "utf-8")
    if incomplete:
        (folder / "incomplete").touch()
    assert run(folder, new_cluster).returncode == 0
    found = {str(path.relative_to(data)) for path in data.rglob("*") if path.is_file()}
    if kept:
        assert found == {"mysql/user", "ibdata1", "grastate.dat", "lost+found/a"} and not (folder / "orders").exists()
        return
    (aside,) = data.glob(".incomplete-*")
    assert found == {"lost+found/a", *(f"{aside.name}/{name}" for name in ("mysql/user", "ibdata1", "grastate.dat"))}
    assert (folder / "orders").read_text("utf-8") == "unset-environment _WSREP_START_POSITION\n"
    # a start that was killed, or that failed: what has arrived since is set aside as well, and what is there stays as it is
    (data / "ibdata1").write_text("half", "utf-8")
    assert run(folder).returncode == 0
    assert sorted(path.read_text("utf-8") for path in data.glob(".incomplete-*/ibdata1")) == ["half", "ibdata1"]


@pytest.mark.parametrize(("aside", "new_cluster", "code"), [(True, "--wsrep-new-cluster", 1), (True, "", 0), (False, "--wsrep-new-cluster", 0)])
def test_the_cluster_is_not_started_without_data_that_were_set_aside(folder: pathlib.Path, aside: bool, new_cluster: str, code: int) -> None:
    if aside:
        (folder / "data/.incomplete-1").mkdir()
    done = run(folder, new_cluster)
    assert done.returncode == code and (f"move its content to {folder}/data" in done.stderr) is bool(code)
