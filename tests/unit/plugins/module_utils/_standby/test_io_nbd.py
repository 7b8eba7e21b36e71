# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server of an image ends with its use, also if it ignores a signal. A program takes the place of qemu-nbd."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_nbd

#: As qemu-nbd: it makes its socket before it heeds signals. It ignores as many as the variable says.
SERVER = """#!/usr/bin/env python3
import os, pathlib, signal, sys
left = int(os.environ["IGNORED"])
def term(*unused):
    global left
    left -= 1
    if left < 0:
        sys.exit(0)
signal.signal(signal.SIGTERM, term)
path = next(word.partition("=")[2] for word in sys.argv if word.startswith("--socket="))
pathlib.Path(os.environ["PID"]).write_text(str(os.getpid()))
pathlib.Path(path).touch()
while True:
    signal.pause()
"""


@pytest.fixture(name="pid")
def fixture_pid(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """Put the program into the path; return the file with its process."""
    program = tmp_path / "qemu-nbd"
    program.write_text(SERVER, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PID", str(tmp_path / "pid"))
    return tmp_path / "pid"


def running(pid: pathlib.Path) -> bool:
    """Whether the program runs."""
    return pathlib.Path("/proc", pid.read_text(encoding="ascii")).exists()


@pytest.mark.parametrize("ignored", [0, 1])
def test_the_server_ends_although_it_ignored_a_signal(monkeypatch: pytest.MonkeyPatch, pid: pathlib.Path, ignored: int) -> None:
    monkeypatch.setenv("IGNORED", str(ignored))
    with io_nbd.served("/a,b.qcow2", "qcow2", writable=True) as address:
        assert pathlib.Path(address).exists() and running(pid)
    assert not running(pid)


@pytest.mark.parametrize("writable", [True, False])
def test_a_server_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, pid: pathlib.Path, writable: bool) -> None:
    monkeypatch.setenv("IGNORED", "100")
    monkeypatch.setattr(io_nbd, "_SERVER_END", 1)
    if writable:
        # what was written to it may be lost
        with pytest.raises(BackendError, match="did not write all of /copy"), io_nbd.served("/copy", "raw", writable=True):
            pass
    else:
        with io_nbd.served("/copy", "raw"):
            pass
    assert not running(pid)
