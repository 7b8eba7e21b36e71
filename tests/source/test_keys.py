# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one-time key of a migration on a real sshd: it permits all operations of a migration and nothing else."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import time
import typing as t

import pytest
from source_machine import SourceMachine
from support import REPOSITORY

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_manifest_wire, io_rsync, model_one_time_key, run_manifest_agent
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import RemoteSource, ensure_key, key_marker
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import LIFETIME, RENEW_EVERY, expires_at, expiry

NAME = "keytest"
KEYS = "/root/.ssh/authorized_keys"
# the use case of the module one_time_key, with the code that a migration keeps
APPLY = """
import json, sys
sys.path.insert(0, {code!r})
from ansible_collections.reduced.footprint.plugins.module_utils._keys.run_one_time_key import apply
print(json.dumps(apply(json.loads({given!r}), check_mode=False)))
"""


class Keyed:
    """A destination with only the one-time key."""

    def __init__(self, source: SourceMachine, folder: pathlib.Path) -> None:
        self.source, self.folder = source, folder
        self.public = ensure_key(folder, NAME)
        self.remote = RemoteSource(NAME, folder, [source.admin], 22, source.remote.host_keys, source.remote.library)
        self.code = f"/root/{source.remote.library.name}"
        self.on_source(f"cat > {self.code}", source.remote.library.read_bytes())

    @staticmethod
    def on_source(command: str, given: bytes) -> str:
        """Run a command with the key of the lab and the given standard input."""
        done = subprocess.run([str(REPOSITORY / "lab" / "lab"), "ssh", "laptop", command], input=given, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def apply(self, state: str = "present", **more: t.Any) -> dict[str, t.Any]:
        """Add or remove the key, as the role does."""
        given = {"name": NAME, "purpose": "migrate", "state": state, "public_key": self.public, "allowed_from": [f"{self.source.lab.net}.1"], **more}
        said = self.on_source("python3 -", APPLY.format(code=self.code, given=json.dumps(given)).encode())
        return json.loads(said.strip().splitlines()[-1])

    def ssh(self, *words: str, options: t.Sequence[str] = ()) -> tuple[int, str]:
        """Run any command with the key; return exit code and output."""
        argv = [*self.remote.ssh_argv(), *options, self.source.admin, *words]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False)
        return done.returncode, done.stdout.decode(errors="replace")

    def keys(self) -> str:
        """Return authorized_keys of the source."""
        return self.source.lab.ssh("laptop", "cat", KEYS)


@pytest.fixture(name="keyed")
def fixture_keyed(source: SourceMachine, tmp_path: pathlib.Path) -> t.Iterator[Keyed]:
    folder = tmp_path / "migration"
    folder.mkdir()
    it = Keyed(source, folder)
    before = it.keys()
    it.apply()
    yield it
    it.apply("absent")
    assert it.keys() == before
    source.lab.ssh("laptop", f"rm -f {it.code} /var/lib/reduced.footprint/source/{NAME}*")


def test_operations_of_a_migration_are_permitted(keyed: Keyed, tmp_path: pathlib.Path) -> None:
    line = keyed.keys().splitlines()[-1]
    assert line.startswith(f'from="{keyed.source.lab.net}.1",restrict,expiry-time="') and f'_keys.run_dispatch migrate {NAME} ' in line
    assert keyed.remote.ask("state")["state"]["state"] == "serving"
    assert keyed.remote.ask("facts", {"services": []})["facts"]["hostname"]
    target = tmp_path / "copy"
    target.mkdir()
    ssh, address = keyed.remote.ssh_argv(), keyed.source.admin
    io_rsync.pull(ssh, address, "/etc/ssh", str(target), ["--exclude=/x y"], tolerate_vanished=False, limit=100000)
    assert (target / "sshd_config").read_text()
    io_rsync.pull_paths(ssh, address, [b"/etc/hostname"], str(target), tolerate_vanished=False)
    assert (target / "etc" / "hostname").read_text()
    given = {"patterns": ["/proc/*", "/sys/*", "/dev/*", "/run/*", "/usr/*", "/var/*", "/opt/*", "/srv/*"], "names": [], "mounts": ["/"], "settle": False}
    assert io_manifest_wire.fetch(keyed.remote.program(run_manifest_agent.MODULE), given, tmp_path / "manifest").files > 100


@pytest.mark.parametrize(
    ("path", "text", "named"),
    [
        ("/etc/ssh/sshd_config.d/00-keytest.conf", "AuthorizedKeysFile /etc/ssh/keys/%u", "AuthorizedKeysFile /etc/ssh/keys/%u"),
        ("/etc/ssh/sshd_config.d/00-keytest.conf", "AllowUsers admin root@198.51.100.0/24", "AllowUsers admin root@198.51.100.0/24"),
        ("/etc/ssh/sshd_config.d/00-keytest.conf", "Match Address 192.0.2.0/24\nPermitRootLogin no", None),
        ("/root/.bashrc", "echo Welcome to laptop", "prints text before the output of a command: 'Welcome to laptop'"),
    ],
)
def test_a_key_that_would_not_work_is_refused_with_its_cause(keyed: Keyed, path: str, text: str, named: str | None) -> None:
    # sshd reads its settings when it starts; the lab's own key still works
    keyed.on_source(f"cp -p {path} {path}.kept 2>/dev/null; cat > {path}", f"{text}\n".encode())
    try:
        if named:
            with pytest.raises(AssertionError, match=re.escape(named)):
                keyed.apply()
        else:
            keyed.apply()
        if path == "/root/.bashrc":
            assert keyed.remote.ask("state")["state"] and keyed.remote.printed == "Welcome to laptop"
    finally:
        keyed.on_source(f"rm {path}; mv {path}.kept {path} 2>/dev/null; true", b"")


def test_facts_of_the_source_have_what_preflight_needs(keyed: Keyed) -> None:
    facts = keyed.remote.ask("facts", {"services": [], "excludes": ["/usr", "/no*"]})["facts"]
    whole = keyed.remote.ask("facts", {"services": []})["facts"]
    assert {each["mount"] for each in facts["filesystems"]} == {each["mount"] for each in whole["filesystems"]} >= {"/"}
    root, full = (next(each for each in one["filesystems"] if each["mount"] == "/") for one in (facts, whole))
    assert 0 < root["used"] < full["used"] - 100 * 1024**2
    assert facts["foreign"] == [] and facts["login"] == []
    assert facts["versions"]["e2fsprogs"].startswith("e2fsck 1.") and "GRUB" in facts["versions"]["grub"]
    assert keyed.source.admin in str(facts["interfaces"]) and keyed.source.admin not in str(facts["other_media"])


def test_other_commands_are_refused(keyed: Keyed, tmp_path: pathlib.Path) -> None:
    library = f"PYTHONPATH=/var/lib/reduced.footprint/lib/{'0' * 32}.zip"
    run = "ansible_collections.reduced.footprint.plugins.module_utils"
    install = f"/var/lib/reduced.footprint/lib/{'0' * 32}.zip"
    for command in (
        "", "id", "sh", "cat /etc/shadow", "scp -t /root", "internal-sftp", f"{library} python3 -c 'print(1)'",
        f"{library} python3 -m {run}._migrate.source.run_agent state other",
        f"{library} python3 -m {run}._migrate.source.run_agent state {NAME}; id",
        f"{library} python3 -m {run}._migrate.source.run_agent watch {NAME}",
        f"{library} python3 -m {run}._move.run_agent look {NAME}",
        f"{library} python3 -m {run}._migrate.source.run_agent state {NAME}\nid", "rsync --server -vlogDtpre.iLsfxCIvu . /tmp/", "rsync --server --daemon .",
        "rsync --server --sender --remove-source-files -vlogDtpr . /tmp/", "rsync --server --sender --log-file=/root/x -vlogDtpr . /tmp/",
        f"test -s {install} || (umask 077; mkdir -p /x && cat > {install}.new; id)", f"sh -c 'test -s {install} || (id)'",
    ):  # fmt: skip
        code, said = keyed.ssh(*([command] if command else []))
        assert (code, "uid=0" in said, "root:" in said) == (126, False, False), (command, said)
    assert "SSH-2.0" not in keyed.ssh(options=["-W", "127.0.0.1:22"])[1]
    for options, word in ((["-tt"], "bash"), (["-s"], "sftp")):
        code, said = keyed.ssh(word, options=options)
        assert code in (126, 255) and "root@" not in said, said
    mine = tmp_path / "mine"
    mine.write_text("evil")
    push = ["rsync", "-a", "-e", " ".join(keyed.remote.ssh_argv()), str(mine), f"{keyed.source.admin}:/root/evil"]
    assert subprocess.run(push, capture_output=True, check=False).returncode != 0
    # also where rsync sends its arguments past the command line
    assert subprocess.run([*push[:2], "-s", *push[2:]], capture_output=True, check=False).returncode != 0
    away = ["rsync", "-a", "-s", "--remove-source-files", "-e", " ".join(keyed.remote.ssh_argv()), f"{keyed.source.admin}:/etc/hostname", str(tmp_path)]
    assert subprocess.run(away, capture_output=True, check=False).returncode != 0
    assert keyed.source.lab.ssh("laptop", "test -e /root/evil || cat /etc/hostname").strip()


def test_only_named_hooks_are_permitted_and_keys_are_removed_separately(keyed: Keyed) -> None:
    with pytest.raises(BackendError, match="was not given"):
        keyed.remote.ask("run", {"command": ["touch", "/root/hooked"], "timeout": 5})
    keyed.apply(commands=[["touch", "/root/hooked"]])
    keyed.remote.ask("run", {"command": ["touch", "/root/hooked"], "timeout": 5})
    with pytest.raises(BackendError, match="was not given"):
        keyed.remote.ask("run", {"command": ["touch", "/root/hooked", "/root/more"], "timeout": 5})
    with pytest.raises(BackendError, match="A one-time key must not run"):
        keyed.remote.ask("look_inside", {"command": ["id"]})
    with pytest.raises(BackendError, match="must not withdraw another key"):
        keyed.remote.ask("leave", {"marker": "root@lab"})
    assert keyed.source.lab.ssh("laptop", "rm /root/hooked && ls /root").find("more") == -1


def test_key_expires_and_is_renewed_up_to_its_limit(keyed: Keyed) -> None:
    def rewrite(pattern: str, text: str) -> None:
        keyed.source.lab.ssh("laptop", f"sed -i 's/{pattern}/{text}/' {KEYS}")

    soon = expiry(time.time() + 600)
    rewrite('expiry-time="[0-9]*"', f'expiry-time="{soon}"')
    keyed.remote.ask("state")
    ends = expires_at(keyed.keys(), key_marker(NAME))
    assert ends is not None and ends > time.time() + LIFETIME - RENEW_EVERY
    # the limit stands in the command, out of the key's reach
    rewrite(f"migrate {NAME} [0-9]*", f"migrate {NAME} {int(time.time()) + 900}")
    rewrite('expiry-time="[0-9]*"', f'expiry-time="{soon}"')
    keyed.remote.ask("state")
    assert (expires_at(keyed.keys(), key_marker(NAME)) or 0) <= time.time() + 901
    rewrite('expiry-time="[0-9]*"', 'expiry-time="20200101000000"')
    with pytest.raises((BackendError, CommandError), match="cannot be reached"):
        keyed.remote.ask("state")


def test_open_connection_ends_with_its_key(keyed: Keyed, tmp_path: pathlib.Path) -> None:
    control = ["-o", f"ControlPath={tmp_path}/control"]
    # the first value of an option counts
    argv = ["ssh", *control, *keyed.remote.ssh_argv()[1:]]
    master = subprocess.Popen([*argv, "-M", "-N", keyed.source.admin])
    try:
        until = time.monotonic() + 30
        while subprocess.run(["ssh", *control, "-O", "check", keyed.source.admin], capture_output=True, check=False).returncode:
            assert time.monotonic() < until
            time.sleep(0.2)
        ssh = [*argv, keyed.source.admin]
        install = model_one_time_key.install_command(f"/var/lib/reduced.footprint/lib/{'0' * 32}.zip")
        assert subprocess.run([*ssh, install], stdin=subprocess.DEVNULL, check=False, timeout=30).returncode == 0
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen([*ssh, "rsync --server --sender -logDtpre.iLsfxCIvu . /"], **pipes) as running:
            while "rsync --server" not in (processes := keyed.source.lab.ssh("laptop", "ps -eo args")):
                assert running.poll() is None and time.monotonic() < until, processes
            keyed.apply("absent")
            assert running.wait(20) == 126
        assert "rsync --server" not in keyed.source.lab.ssh("laptop", "ps -eo args")
        done = subprocess.run([*ssh, install], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=30)
        assert done.returncode == 126 and b"was withdrawn or has expired" in done.stderr
        # the connection itself is still open: this was not sshd
        assert master.poll() is None
    finally:
        master.terminate()
        master.wait()


def test_key_is_removed_when_the_source_leaves(keyed: Keyed) -> None:
    keyed.apply(commands=[["true"]])
    keyed.remote.ask("leave", {"marker": key_marker(NAME)})
    assert NAME not in keyed.keys()
    assert os.path.basename(KEYS) and "commands" not in keyed.source.lab.ssh("laptop", "ls /var/lib/reduced.footprint/source")
