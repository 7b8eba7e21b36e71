# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a reader of the guide does on the control node, with the servers of a lab."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import time
import typing as t

import guide
from rflab.plays import _recap
from rflab.settings import current

LOGS = guide.ROOT / "tests" / "output" / "guide"
MACHINES = ("metal1", "metal2", "laptop")


class Reader:
    """A home directory with a key, the files of the guide, and a shell."""

    def __init__(self, home: pathlib.Path) -> None:
        self.settings = current()
        self.home = home
        self.exports: list[str] = []
        self.times: list[tuple[str, float]] = []
        self.memory: dict[str, str] = {}
        (home / ".ssh").mkdir(mode=0o700)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "operator", "-f", str(home / ".ssh/id_ed25519")], check=True)
        self.blocks = guide.write(home, self.settings.net)
        (home / "lab.yml").write_text(guide.mapped(json.dumps(guide.LAB_SETTINGS), self.settings.net), encoding="utf-8")

    def lab(self, *arguments: str, stdin: str = "") -> str:
        """Run a command of the lab."""
        argv = [str(guide.ROOT / "lab/lab"), *arguments]
        done = subprocess.run(argv, input=stdin, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, f"{argv}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def copy_key(self) -> None:
        """Do by hand what the guide does with ssh-copy-id."""
        shutil.copy(self.settings.state / "known_hosts", self.home / ".ssh/known_hosts")
        for name in MACHINES:
            self.lab("ssh", name, "tee -a /root/.ssh/authorized_keys", stdin=(self.home / ".ssh/id_ed25519.pub").read_text(encoding="utf-8"))

    @property
    def environment(self) -> dict[str, str]:
        """An environment in which nothing of this checkout is found; ssh does not read HOME, so its files are named."""
        known = f"-o UserKnownHostsFile={self.home}/.ssh/known_hosts"
        own = {
            "HOME": str(self.home),
            "PATH": "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
            "ANSIBLE_PRIVATE_KEY_FILE": str(self.home / ".ssh/id_ed25519"),
            "ANSIBLE_SSH_COMMON_ARGS": f"{known} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes",
            "ANSIBLE_NOCOLOR": "1",
            # an emulated machine on busy processors takes longer for a handshake than the 10 seconds of the default
            "ANSIBLE_TIMEOUT": "120",
            "PYTHONUNBUFFERED": "1",
        }
        return {**{key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "PYTHON", "VIRTUAL_ENV"))}, **own}

    def run(self, command: str, timeout: float = 5400) -> str:
        """Run a command of the guide in a shell of its own; exports and the virtual environment are kept."""
        if command.startswith(guide.BY_HAND):
            return ""
        if command.startswith("export "):
            self.exports.append(command)
        line = f"{command} -e @lab.yml" if command.startswith("ansible-playbook ") else command
        venv = "[ ! -e ~/footprint/bin/activate ] || . ~/footprint/bin/activate"
        began = time.monotonic()
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"{len(self.times):02d}.log"
        with log.open("w", encoding="utf-8") as stream:
            stream.write(f"$ {line}\n")
            stream.flush()
            argv = ["bash", "-ec", "\n".join([venv, *self.exports, line])]
            done = subprocess.run(
                argv, cwd=self.home, env=self.environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, timeout=timeout, check=False
            )
        self.times.append((command, time.monotonic() - began))
        text = log.read_text(encoding="utf-8", errors="replace")
        assert done.returncode == 0, f"{line}: exit code {done.returncode}\n{text[-6000:]}"
        return text

    def changed(self, output: str) -> int:
        """Number of changed tasks of a play."""
        return sum(counts["changed"] for counts in _recap(output).values())

    def on(self, host: str, command: str) -> str:
        """Run a command on a host as the reader would."""
        return self.run(f"ansible -i inventory {host} -m ansible.builtin.command -a {shlex.quote(command)}")

    def note_memory(self, when: str) -> None:
        """Remember the memory that the controllers use, and the resident memory of each emulator in KiB."""
        self.memory[when] = self.on("controller", "free --mebi") + self.on("virt", "ps -C qemu-system-x86_64 -o rss=")

    def inventory(self, folder: str = "inventory") -> dict[str, t.Any]:
        """The variables of all hosts."""
        text = self.run(f"ansible-inventory -i {folder} --list").partition("\n")[2]
        value = json.loads(text[text.index("{") :], object_hook=lambda one: one.get("__ansible_unsafe", one))
        return value["_meta"]["hostvars"]

    def report(self) -> None:
        """Keep the time of each command, and the memory in use."""
        LOGS.mkdir(parents=True, exist_ok=True)
        rows = [{"command": command, "seconds": round(seconds, 1)} for command, seconds in self.times]
        (LOGS / "times.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        (LOGS / "memory.txt").write_text("\n".join(f"{when}\n{text}" for when, text in self.memory.items()), encoding="utf-8")
