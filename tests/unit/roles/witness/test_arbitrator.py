# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arbitrator ends when it has lost all members, and only then: with real processes and connections."""

from __future__ import annotations

import importlib.util
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parents[4] / "roles" / "witness" / "files" / "witness_arbitrator.py"
_SPEC = importlib.util.spec_from_file_location("witness_arbitrator", PROGRAM)
assert _SPEC and _SPEC.loader
arbitrator = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(arbitrator)
#: Connects to a port if there is one, until the peer ends the connection, then continues to run.
CLIENT = """
import socket, sys, time
port = int(sys.argv[1])
if port:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.recv(1)
    connection.close()
time.sleep(float(sys.argv[2]))
"""


def command(port: int, seconds: float) -> list[str]:
    return [sys.executable, "-c", CLIENT, str(port), str(seconds)]


def test_one_that_has_lost_all_members_is_ended(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        wrapper = subprocess.Popen(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import witness_arbitrator as it; "
             f"sys.exit(it.run({command(server.getsockname()[1], 60)!r}, alone=0.5, pause=0.1))"]
        )  # fmt: skip
        connection = server.accept()[0]
        time.sleep(1)
        assert wrapper.poll() is None, "it was ended while a member was connected"
        connection.close()
        assert wrapper.wait(timeout=20) == 1
    assert "no member has been connected" in capfd.readouterr().out


def test_one_that_still_waits_for_the_first_member_runs_on() -> None:
    began = time.monotonic()
    assert arbitrator.run(command(0, 1.5), alone=0.2, pause=0.1) == 0
    assert time.monotonic() - began >= 1.5


def test_a_stop_is_passed_on() -> None:
    wrapper = subprocess.Popen([sys.executable, str(PROGRAM), *command(0, 60)])
    time.sleep(1)
    wrapper.send_signal(signal.SIGTERM)
    assert wrapper.wait(timeout=20) == 0


def test_the_end_of_the_arbitrator_is_reported() -> None:
    assert arbitrator.run(["false"], pause=0.1) == 1
    assert arbitrator.run(["sh", "-c", "kill -9 $$"], pause=0.1) == 137


def test_a_process_that_has_ended_is_unknown() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    with pytest.raises(OSError):
        arbitrator.is_connected(process.pid)


def test_a_host_without_ipv6_is_no_unknown_state(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arbitrator, "PROC", tmp_path)
    for name in ("fd", "net"):
        (tmp_path / "7" / name).mkdir(parents=True)
    (tmp_path / "7/fd/3").symlink_to("socket:[5]")
    line = "   0: 0100007F:11D7 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 {} 1\n"
    for inode, connected in ((5, True), (6, False)):
        (tmp_path / "7/net/tcp").write_text("  sl  local_address rem_address   st\n" + line.format(inode), "ascii")
        assert arbitrator.is_connected(7) is connected
    # one that has ended is unknown
    with pytest.raises(OSError, match="8"):
        arbitrator.is_connected(8)
