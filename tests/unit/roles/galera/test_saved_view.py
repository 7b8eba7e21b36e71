# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is done with Galera's saved view before the server starts: the command of the unit, in a shell."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest

UNIT = pathlib.Path(__file__).resolve().parents[4] / "roles" / "galera" / "templates" / "mariadb.conf.j2"
COMMAND = re.compile(r'(?m)^ExecStartPre=/bin/sh -c "([^"$%]+)"$')
FORCED = re.compile(r'(?m)^ExecStartPre=/bin/sh -c "(\[ -n .+)"$')
COPY = re.compile(r'(?m)^ExecStartPre=\+/bin/sh -c "(.+)"$')
CRASHED, STOPPED = "uuid:    a\nseqno:   -1\n", "uuid:    a\nseqno:   7\n"


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
def test_the_saved_view(tmp_path: pathlib.Path, view: str | None, last: str | None, saved: str | None, kept: str | None) -> None:
    for name, text in {"gvwstate.dat": view, "gvwstate.dat.last": last, "grastate.dat": saved}.items():
        if text is not None:
            (tmp_path / name).write_text(text, "utf-8")
    (command,) = COMMAND.findall(UNIT.read_text("utf-8"))
    done = subprocess.run(["/bin/sh", "-c", command.replace("/var/lib/mysql", str(tmp_path))], check=False)
    assert done.returncode == 0
    assert not (tmp_path / "gvwstate.dat").exists()
    found = tmp_path / "gvwstate.dat.last"
    assert (found.read_text("utf-8") if found.exists() else None) == kept


def test_a_server_without_data_starts(tmp_path: pathlib.Path) -> None:
    (command,) = COMMAND.findall(UNIT.read_text("utf-8"))
    assert subprocess.run(["/bin/sh", "-c", command.replace("/var/lib/mysql", str(tmp_path / "none"))], check=False, stderr=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize(("incomplete", "arguments", "kept"), [(True, "", False), (False, "", True), (True, "--wsrep-new-cluster", True)])
def test_incomplete_data_are_set_aside(tmp_path: pathlib.Path, incomplete: bool, arguments: str, kept: bool) -> None:
    data = tmp_path / "data"
    for name in ("mysql/user", "ibdata1", "grastate.dat", ".incomplete-1/of a killed start"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(name, "utf-8")
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\necho \"$@\" >> {tmp_path}/orders\n", "utf-8")
    (tmp_path / "systemctl").chmod(0o755)
    if incomplete:
        (tmp_path / "incomplete").touch()
    (command,) = COPY.findall(UNIT.read_text("utf-8"))
    # as systemd reads it
    for written, meant in (('\\"', '"'), ("$$", "$"), ("%%", "%"), ("/var/lib/mysql", str(data)), ("/var/lib/footprint-galera", str(tmp_path))):
        command = command.replace(written, meant)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "_WSREP_NEW_CLUSTER": arguments}
    assert subprocess.run(["/bin/sh", "-c", command], check=False, env=environment).returncode == 0
    assert (tmp_path / "orders").exists() is not kept and (data / "ibdata1").exists() is kept
    found = sorted(str(path.relative_to(data)) for path in data.rglob("*") if path.is_file())
    assert len(found) == 4 and {name.rpartition("/")[2] for name in found} == {"user", "ibdata1", "grastate.dat", "of a killed start"}
    assert kept or all(name.startswith(".incomplete-") for name in found)


@pytest.mark.parametrize(("aside", "arguments", "code"), [(True, "--wsrep-new-cluster", 1), (True, "", 0), (False, "--wsrep-new-cluster", 0)])
def test_the_cluster_is_not_started_without_data_that_were_set_aside(tmp_path: pathlib.Path, aside: bool, arguments: str, code: int) -> None:
    if aside:
        (tmp_path / ".incomplete-1").mkdir()
    (command,) = FORCED.findall(UNIT.read_text("utf-8"))
    command = command.replace('\\"', '"').replace("$$", "$").replace("/var/lib/mysql", str(tmp_path))
    environment = {"PATH": "/usr/bin:/bin", "_WSREP_NEW_CLUSTER": arguments}
    done = subprocess.run(["/bin/sh", "-c", command], check=False, env=environment, capture_output=True, text=True)
    assert done.returncode == code and ("move the content of" in done.stderr) is bool(code)
