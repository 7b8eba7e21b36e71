# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run playbooks with ansible-runner the way AWX runs a job.

Every job gets a new private data directory with a copy of the project, and a new container if there is an image. The inventory is what
``ansible-inventory --list --export`` printed at the last update, as a script. Extra variables are flat, and answers to surveys are
never templates. A job has no terminal, and everything but the artifacts is removed when the job ends.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import typing as t

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv" / "bin"
#: What AWX sets for every job, and our execution environment.
ENVIRONMENT = {
    "ANSIBLE_FORCE_COLOR": "True",
    "ANSIBLE_HOST_KEY_CHECKING": "False",
    "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
    "ANSIBLE_PARAMIKO_RECORD_HOST_KEYS": "False",
    "ANSIBLE_RETRY_FILES_ENABLED": "False",
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: crun supports no hybrid of both versions of control groups, which is hidden from it.
_HIDE = ("unshare", "--mount", "sh", "-c", 'if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi; exec "$@"', "sh")
#: The limits are below those of the machine, which may not permit raising them to podman's own.
_LIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096")
_CONTAINER = ("run", "--rm", "--user=root", "--network=host", "--cgroups=disabled", "--security-opt=seccomp=unconfined", *_LIMITS)


class _Answers(yaml.SafeDumper):
    """Answers to surveys, each text marked as no template."""


class _Answer(str):
    pass


_Answers.add_representer(_Answer, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text)))


@dataclasses.dataclass(frozen=True)
class Job:
    """A finished job: its exit code and its events."""

    rc: int
    events: tuple[dict[str, t.Any], ...]
    output: str

    @property
    def text(self) -> str:
        """What the events say, without colours."""
        return _COLOURS.sub("", "\n".join(str(event.get("stdout", "")) for event in self.events))

    @property
    def changed(self) -> list[str]:
        """The changed tasks, each with its host."""
        done = [event["event_data"] for event in self.events if event["event"] == "runner_on_ok"]
        return [f"{data['task']} ({data['host']})" for data in done if data.get("res", {}).get("changed")]

    def recap(self, count: str) -> int:
        """The sum of a column of the recap, such as ``changed``."""
        last = [event["event_data"] for event in self.events if event["event"] == "playbook_on_stats"]
        return sum(last[-1][count].values()) if last else -1


class Awx:
    """One project and its inventory in AWX.

    :arg folder: for the project and the jobs.
    :arg image: of the execution environment; empty for the tools of this checkout.
    :arg key: the private ssh key of the machine credential.
    :arg podman: the command, with options of the storage.
    """

    def __init__(self, folder: pathlib.Path, image: str = "", key: str = "", podman: t.Sequence[str] = ("podman",)) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.image = image
        self.key = key
        self.podman = tuple(podman)
        self.vault_password = ""
        self.mounts: dict[pathlib.Path, str] = {}
        self.inventory: dict[str, t.Any] = {}
        self._numbers = itertools.count(1)
        (self.project / "inventory").mkdir(parents=True, exist_ok=True)
        (folder / "ansible.cfg").write_text("", "utf-8")
        shutil.copy(ROOT / "awx" / "project" / "footprint.yml", self.project)

    def update_inventory(self, source: str = "inventory/nodes.yml") -> None:
        """Read the inventory source of the project, as an inventory update does."""
        home = self._new("update")
        project = f"{self._inside(home)}/project"
        done = self._run(home, ["ansible-inventory", "--list", "--export", "-i", f"{project}/{source}", "--playbook-dir", f"{project}/inventory"])
        assert done.returncode == 0, done.stdout + done.stderr
        self.inventory = json.loads(done.stdout[done.stdout.index("{") :])
        shutil.rmtree(home)

    def job(self, playbook: str, limit: str = "", check: bool = False, **answers: t.Any) -> Job:
        """Run a playbook of the collection, or a file of the project.

        :arg answers: to the survey of the job template.
        """
        home = self._new("job")
        for name in ("inventory", "env"):
            (home / name).mkdir()
        script = home / "inventory" / "hosts"
        script.write_text(f"#! /usr/bin/env python3\n# -*- coding: utf-8 -*-\nprint({json.dumps(self.inventory)!r})\n", "utf-8")
        script.chmod(0o700)
        file = playbook if playbook.endswith(".yml") else "footprint.yml"
        number = next(self._numbers)
        given = {key: _Answer(value) if isinstance(value, str) else value for key, value in answers.items()}
        of_template = {"footprint_playbook": playbook} if file == "footprint.yml" else {}
        variables = {**of_template, "awx_job_id": number, "tower_job_id": number, "awx_job_launch_type": "manual", **given}
        (home / "env" / "extravars").write_text(yaml.dump(variables, Dumper=_Answers), "utf-8")
        words = ["-u", "root", *(["--check"] if check else []), *(["-l", limit] if limit else [])]
        if self.vault_password:
            words.append("--ask-vault-pass")
            (home / "env" / "passwords").write_text(json.dumps({r"Vault password:\s*?$": self.vault_password}), "utf-8")
        (home / "env" / "cmdline").write_text(" ".join(words), "utf-8")
        (home / "env" / "envvars").write_text(json.dumps(self._environment()), "utf-8")
        if self.key:
            (home / "env" / "ssh_key").write_text(self.key, "utf-8")
            (home / "env" / "ssh_key").chmod(0o600)
        done = self._run(home, ["ansible-runner", "run", self._inside(home), "-p", file, "--ident", str(number)])
        events = [json.loads(path.read_text("utf-8")) for path in (home / "artifacts" / str(number) / "job_events").glob("*-*.json")]
        rc = home / "artifacts" / str(number) / "rc"
        code = int(rc.read_text("utf-8")) if rc.exists() else done.returncode or 1
        shutil.rmtree(home)
        return Job(code, tuple(sorted(events, key=lambda event: event["counter"])), done.stdout + done.stderr)

    def _new(self, kind: str) -> pathlib.Path:
        """A private data directory with a copy of the project."""
        home = self.folder / f"{kind}-{next(self._numbers)}"
        shutil.copytree(self.project, home / "project", symlinks=True)
        return home

    def _inside(self, home: pathlib.Path) -> str:
        return "/runner" if self.image else str(home)

    def _environment(self) -> dict[str, str]:
        path = {"ANSIBLE_COLLECTIONS_PATH": "/runner/requirements_collections:/usr/share/ansible/collections"}
        return {**ENVIRONMENT, **(path if self.image else {})}

    def _run(self, home: pathlib.Path, argv: t.Sequence[str]) -> subprocess.CompletedProcess[str]:
        limits: dict[str, t.Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "encoding": "utf-8", "timeout": 3600}
        if self.image:
            volumes = [f"--volume={path}:{place}" for path, place in {home: "/runner", **self.mounts}.items()]
            variables = [f"--env={key}={value}" for key, value in self._environment().items()]
            words = [*_HIDE, *self.podman, *_CONTAINER, *volumes, *variables, "--workdir=/runner/project", self.image, *argv]
            return subprocess.run(words, check=False, **limits)
        local = {
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        return subprocess.run([str(BIN / argv[0]), *argv[1:]], env={**os.environ, **ENVIRONMENT, **local}, cwd=home / "project", check=False, **limits)
