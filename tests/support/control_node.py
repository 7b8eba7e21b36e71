# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A control node with the collection, some modules of which only answer, for steps of a playbook that only a run shows. It contacts no host."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import typing as t

import pytest
import yaml

from tests.support.preloaded import ansible_playbook

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Variables of a host that is this machine.
HERE: dict[str, t.Any] = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
#: An action plugin instead of a module: it answers from a file, and writes down the call, and the options with which ssh would connect.
_ACTION = """
import json, pathlib, time
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        host = self._task.delegate_to or task_vars['inventory_hostname']
        name = self._task.action.rpartition('.')[2]
        folder = pathlib.Path(FOLDER)
        arguments = self._connection.get_option('ssh_args') if hasattr(self._connection, '_build_command') else ''
        extra = self._connection.get_option('ssh_extra_args') if hasattr(self._connection, '_build_command') else ''
        file = arguments.partition('UserKnownHostsFile=')[2].partition(' ')[0]
        keys = pathlib.Path(file).read_text() if file and pathlib.Path(file).is_file() else None
        port = str(self._connection.get_option('port') or '') if hasattr(self._connection, '_build_command') else ''
        call = {'name': name, 'port': port, 'host': host, 'check': self._task.check_mode, 'arguments': self._task.args, 'file': file, 'keys': keys,
                'address': self._connection._play_context.remote_addr, 'extra': extra}
        with open(folder / 'calls', 'a') as calls:
            calls.write(json.dumps(call, default=str) + chr(10))
        answers = json.loads((folder / 'answers').read_text())
        found = {'failed': True, 'msg': f'{name} has no answer for {host}'} if name != 'controlplane_lock' else {'changed': False, 'holder': {}}
        found = answers.get(f'{name} {host}', found)
        found = answers.get(f'{name} {host}:{port}', found)
        time.sleep(found.pop('sleep', 0))
        return answers.get(f'{name} {host} check', found) if self._task.check_mode else found
"""


class ControlNode:
    """The control node, with an inventory of two servers.

    :arg folder: for its files.
    :arg modules: those that only answer.
    """

    def __init__(self, folder: pathlib.Path, *modules: str) -> None:
        self.folder = folder
        #: Module and host, separated by a space → result; by default an error, of controlplane_lock that no other run restarts members. If they
        #: differ, the one with " check" at the end is for check mode, the one with ":PORT" for a port of ssh. It comes after ``sleep`` seconds.
        self.answers: dict[str, t.Any] = {}
        #: Text of ansible.cfg.
        self.configuration = ""
        #: Seconds after which the callback brief shows the name of a task; 0 for never.
        self.patience = 0.0
        #: More servers → variables.
        self.more: dict[str, t.Any] = {}
        there = folder / "collections/ansible_collections/reduced/footprint"
        (there / "plugins/action").mkdir(parents=True)
        for path in [*ROOT.glob("*"), *(ROOT / "plugins").glob("*")]:
            if path.name not in ("plugins", "action", "tests"):
                (there / path.relative_to(ROOT)).symlink_to(path)
        for path in (ROOT / "plugins" / "action").glob("*_plan.py"):
            (there / "plugins/action" / path.name).symlink_to(path)
        for name in modules:
            (there / f"plugins/action/{name}.py").write_text(_ACTION.replace("FOLDER", repr(str(folder))), "utf-8")

    def program(self, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> None:
        """Put a shell script before the programs of this machine."""
        (self.folder / "bin").mkdir(exist_ok=True)
        (self.folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        (self.folder / "bin" / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{self.folder}/bin:{os.environ['PATH']}")

    def run(self, playbook: str, *options: str, **variables: t.Any) -> tuple[int, str]:
        """Run a playbook; returns its exit code and output.

        :arg variables: of the server metal2.
        """
        servers = {"metal1": {"ansible_host": "192.0.2.11"}, "metal2": {"ansible_host": "192.0.2.12", **variables}, **self.more}
        (self.folder / "answers").write_text(json.dumps(self.answers), "utf-8")
        (self.folder / "calls").write_text("", "utf-8")
        (self.folder / "ansible.cfg").write_text(self.configuration, "utf-8")
        (self.folder / "hosts.yml").write_text(yaml.safe_dump({"virt": {"hosts": servers, "vars": {"expert_mode": True}}}), "utf-8")
        environment = {
            **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"), "PYTHONPATH": "", "HOME": str(self.folder),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "local"), "TMPDIR": str(self.folder), "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            # a machine that is busy makes every task long
            "REDUCED_FOOTPRINT_BRIEF_PATIENCE": str(self.patience),
        }  # fmt: skip
        done = ansible_playbook("-i", str(self.folder / "hosts.yml"), *options, playbook, cwd=self.folder, env=environment)
        return done.returncode, done.stdout + done.stderr

    def play(self, tasks: t.Any, host: str = "metal2", *options: str, **variables: t.Any) -> tuple[int, str]:
        """Run tasks on one server, with options of ``ansible-playbook``; returns the exit code and output."""
        play = {"hosts": host, "gather_facts": False, "vars": variables, "tasks": tasks}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]), "utf-8")
        return self.run(str(self.folder / "play.yml"), *options)

    def calls(self, name: str = "") -> list[dict[str, t.Any]]:
        """Return the calls of the modules, or of one of them: name, host, arguments, file with accepted host keys, and those keys."""
        found = [json.loads(line) for line in (self.folder / "calls").read_text("utf-8").splitlines()]
        return [call for call in found if name in ("", call["name"])]
