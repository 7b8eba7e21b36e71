# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The forced command, run as sshd runs it for each command of a connection that stays open after its key has ended."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._keys import run_dispatch
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_key_session, model_one_time_key

KEY = "AAAAC3NzaC1lZDI1NTE5AAAA+x/y="
LIBRARY = f"PYTHONPATH=/var/lib/reduced.footprint/lib/{'0' * 32}.zip"
SENDS = "rsync --server --sender -logDtpre.iLsfxCIvu . /"
# the program, with its files in another folder
PROGRAM = """
import pathlib, sys
sys.path[:0] = {path!r}
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files
from ansible_collections.reduced.footprint.plugins.module_utils._keys import run_dispatch
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_authorized_keys, io_key_session
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies
io_files.RUN = pathlib.Path({folder!r}) / "run"
io_authorized_keys.PATH = pathlib.Path({folder!r}) / "authorized_keys"
io_copies.HOME = pathlib.Path({folder!r}) / "copies"
io_key_session._CHECK = io_key_session._GRACE = 0.1
sys.exit(run_dispatch.main(sys.argv[1:]))
"""


class Host:
    """A host that accepts a key."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.keys = folder, folder / "authorized_keys"

    def accept(self, name: str, *, key: str = KEY, ends: float | None = None, before: str = "") -> None:
        """Write the line of the key.

        :arg ends: seconds from now; ``None`` for a permanent key.
        :arg before: the start of the line.
        """
        expires = None if ends is None else model_one_time_key.expiry(time.time() + ends)
        line = f"{before}{model_one_time_key.options([], expires, 'x')} ssh-ed25519 {key} {model_one_time_key.key_marker(name)}"
        # at once, as sshd's file is written: a check in between would find half of it
        written = self.keys.with_name("written")
        written.write_text(f"ssh-ed25519 OTHER someone\n{line}\n", encoding="ascii")
        os.replace(written, self.keys)

    @contextlib.contextmanager
    def session(self, purpose: str, name: str, command: str, until: float = 1e10) -> t.Iterator[subprocess.Popen[bytes]]:
        """Run a command of a connection."""
        program = PROGRAM.format(path=sys.path, folder=str(self.folder))
        argv = [sys.executable, "-c", program, purpose, name, str(int(until)), KEY]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, "SSH_ORIGINAL_COMMAND": command}) as process:
            try:
                yield process
            finally:
                process.kill()


def children(process: subprocess.Popen[bytes]) -> list[int]:
    found = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
    return [int(each) for each in found.split()]


def named(pid: int) -> str:
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
    return ""


def awaited(what: t.Callable[[], t.Any]) -> t.Any:
    until = time.monotonic() + 20
    while not (found := what()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


@pytest.fixture(name="host")
def fixture_host(tmp_path: pathlib.Path) -> Host:
    (tmp_path / "run").mkdir()
    return Host(tmp_path)


ENDINGS: dict[str, t.Callable[[Host, str], None]] = {
    "withdrawn": lambda host, name: host.keys.write_text("ssh-ed25519 OTHER someone\n", encoding="ascii"),
    "file removed": lambda host, name: host.keys.unlink(),
    "file unreadable": lambda host, name: (host.keys.unlink(), host.keys.mkdir()) and None,
    "expired": lambda host, name: host.accept(name, ends=-1),
    "expiry unreadable": lambda host, name: host.accept(name, before='expiry-time="soon",'),
    "expiry impossible": lambda host, name: host.accept(name, before='expiry-time="20261399999999",'),
    "commented out": lambda host, name: host.accept(name, before="#"),
    "key of another host": lambda host, name: host.accept(name, key="BBBB", ends=1000),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_command_of_an_open_connection_runs_when_the_key_has_ended(host: Host, ending: str) -> None:
    host.accept("master", ends=1000)
    command = f"{LIBRARY} python3 -m ansible_collections.reduced.footprint.plugins.module_utils._remote.run_manifest_agent master"
    with host.session("migrate", "master", f"test -s {LIBRARY[11:]} || ") as refused:
        assert refused.wait(20) == 126
    with host.session("migrate", "master", model_one_time_key.install_command(LIBRARY[11:])) as session:
        assert session.wait(20) == 0
    ENDINGS[ending](host, "master")
    for each in (command, SENDS, model_one_time_key.install_command(LIBRARY[11:])):
        with host.session("migrate", "master", each) as session:
            said = session.communicate(timeout=20)[1].decode()
            assert session.returncode == 126 and said.startswith("the key of master was withdrawn or has expired"), said


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_running_command_ends_with_its_key(host: Host, ending: str) -> None:
    host.accept("master", ends=1000)
    with host.session("migrate", "master", SENDS) as session:
        rsync = awaited(lambda: [pid for pid in children(session) if named(pid) == "rsync"])[0]
        assert os.getpgid(rsync) == rsync
        time.sleep(0.5)
        assert session.poll() is None
        ENDINGS[ending](host, "master")
        assert session.wait(20) == 126 and not os.path.exists(f"/proc/{rsync}")
        assert b"was withdrawn or has expired" in session.stderr.read()


def test_what_a_command_started_ends_too(host: Host, tmp_path: pathlib.Path) -> None:
    """Also when it ignores SIGTERM: the rsync here is a shell with a child."""
    host.accept("master", ends=1000)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rsync").write_text("#!/bin/sh\ntrap '' TERM\nsleep 60 &\necho $!\nwait\nwait\n", encoding="ascii")
    (tmp_path / "bin" / "rsync").chmod(0o755)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{tmp_path / 'bin'}:{path}"
    try:
        with host.session("migrate", "master", SENDS) as session:
            sleeping = int(session.stdout.readline())
            ENDINGS["withdrawn"](host, "master")
            assert session.wait(20) == 126
            awaited(lambda: not os.path.exists(f"/proc/{sleeping}") or named(sleeping) != "sleep")
    finally:
        os.environ["PATH"] = path


def test_a_key_that_is_placed_again_or_renewed_keeps_its_commands(host: Host) -> None:
    host.accept("master", ends=1000)
    with host.session("migrate", "master", SENDS) as session:
        awaited(lambda: [pid for pid in children(session) if named(pid) == "rsync"])
        # the first check has renewed it
        assert (model_one_time_key.expires_at(host.keys.read_text("ascii"), model_one_time_key.key_marker("master")) or 0) > time.time() + 3600
        host.accept("master", ends=2000)
        time.sleep(0.5)
        assert session.poll() is None
        session.stdin.close()
        assert session.wait(20) not in (0, 126)


def test_a_command_ends_when_the_check_of_its_key_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = iter([None, MemoryError()])
    started = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")

    def require() -> None:
        error = next(checks)
        if error:
            raise error

    monkeypatch.setattr(io_key_session, "require", require)
    monkeypatch.setattr(io_key_session, "renew", lambda *unused: None)
    before, mask = started.read_text("ascii"), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        with pytest.raises(MemoryError):
            io_key_session.run(lambda: io_key_session.execute(["sleep", "60"]), "master", 1e10)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    assert started.read_text("ascii") == before


@pytest.mark.parametrize(("program", "completes"), [("_migrate.source.run_agent leave", True), ("_migrate.source.run_agent state", False)])
def test_only_a_command_that_withdraws_the_key_gets_time_to_complete(monkeypatch: pytest.MonkeyPatch, program: str, completes: bool) -> None:
    assert given_time(monkeypatch, "migrate", program, "master") is completes


def test_a_disk_with_the_name_of_such_a_command_gets_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not given_time(monkeypatch, "standby", "_standby.run_channel leave", "standby-m@blue")


def given_time(monkeypatch: pytest.MonkeyPatch, purpose: str, program: str, name: str) -> bool:
    given: list[bool] = []
    monkeypatch.setattr(io_key_session, "require", lambda: None)
    monkeypatch.setattr(io_key_session, "run", lambda *unused, withdraws: given.append(withdraws) or 0)
    monkeypatch.setenv("SSH_ORIGINAL_COMMAND", f"{LIBRARY} python3 -m ansible_collections.reduced.footprint.plugins.module_utils.{program} {name}")
    monkeypatch.setenv(io_key_session.VARIABLE, "")
    assert run_dispatch.main([purpose, name, "10000000000", KEY]) == 0
    return given[0]


def test_the_command_that_withdraws_the_key_completes(host: Host) -> None:
    name = "move-m"
    program = "ansible_collections.reduced.footprint.plugins.module_utils._move.run_agent"
    host.accept(name, ends=1000)
    with host.session("move", name, f"{LIBRARY} python3 -m {program} forget_key {name}") as session:
        said = session.communicate(json.dumps({"marker": model_one_time_key.key_marker(name)}).encode(), timeout=20)[0]
        assert json.loads(said) == {"ok": {"changed": True}} and session.returncode == 0
    assert name not in host.keys.read_text("ascii")
    # one that reads its request only after the end
    host.accept(name, ends=1000)
    with host.session("move", name, f"{LIBRARY} python3 -m {program} forget_key {name}") as session:
        awaited(lambda: children(session))
        ENDINGS["withdrawn"](host, name)
        said = session.communicate(b"{}", timeout=20)[0]
        assert "was withdrawn" in json.loads(said)["error"]["message"]
