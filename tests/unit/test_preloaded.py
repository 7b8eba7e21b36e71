# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``ansible-playbook`` as the child of a process that has loaded Ansible is the program as users start it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
import typing as t

import pytest
import yaml
from ansible import constants

from tests.support import preloaded
from tests.support.preloaded import ansible_playbook

#: All settings but the path of a temporary folder of the process.
SETTINGS = sorted(set(constants.config.get_configuration_definitions()) - {"DEFAULT_LOCAL_TMP"})
#: A lookup in the main process: returns how it was started, or waits.
LOOKUP = """
import pathlib, time
from ansible.plugins.lookup import LookupBase

class LookupModule(LookupBase):
    def run(self, terms, variables=None, **unused):
        if terms == ['wait']:
            time.sleep(600)
        return [pathlib.Path('/proc/self/cmdline').read_text().replace(chr(0), ' ')]
"""
#: Replaces a plugin of Ansible itself.
DEBUG = """
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        return {'msg': 'the own debug'}
"""
Files = t.Mapping[str, str]


def _play(folder: pathlib.Path, *tasks: t.Any, hosts: str = "localhost", files: Files | None = None) -> dict[str, str]:
    """Write a play and other files; returns the environment for it."""
    play = {"hosts": hosts, "connection": "local", "gather_facts": False, "tasks": list(tasks)}
    every = {"play.yml": yaml.safe_dump([play], sort_keys=False), "lookup_plugins/own.py": LOOKUP, **(files or {})}
    for name, text in every.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return {**kept, "HOME": str(folder / "home"), "ANSIBLE_NOCOLOR": "1"}


def _debug(text: str) -> dict[str, t.Any]:
    return {"name": "Show", "debug": {"msg": text}}


SHOWN = _debug(
    "{{ lookup('config', " + ", ".join(map(repr, SETTINGS)) + ", on_missing='skip') }} {{ lookup('env', 'OF_THE_CALL') }} {{ ansible_playbook_python }}"
)
FAILING = {"name": "Fail", "fail": {"msg": "on metal1"}, "when": "inventory_hostname == 'metal1'"}


@pytest.mark.parametrize(
    ("arguments", "code", "tasks", "files", "env"),
    [
        (["-i", "localhost,", "play.yml"], 0, [SHOWN], {}, {"OF_THE_CALL": "given"}),
        # settings that are read when they are needed, and those that are read when Ansible is loaded
        (["-i", "localhost,", "play.yml"], 0, [SHOWN], {"ansible.cfg": "[defaults]\nforks = 7\nhost_key_checking = false\n"}, {}),
        (["-i", "localhost,", "play.yml"], 0, [SHOWN], {"ansible.cfg": "[defaults]\ntimeout = 77\n"}, {"ANSIBLE_FORKS": "8"}),
        (["-i", "metal1,metal2", "--forks", "1", "play.yml"], 2, [FAILING, _debug("on the other")], {}, {"ANSIBLE_ANY_ERRORS_FATAL": "true"}),
        (["-i", "metal1,metal2", "--forks", "1", "play.yml"], 2, [FAILING, _debug("on the other")], {}, {}),
        # a module, packed and run
        (
            ["-i", "localhost,", "-e", f"ansible_python_interpreter={sys.executable}", "play.yml"],
            0,
            [{"command": "echo run", "register": "ran"}, _debug("{{ ran.stdout }}")],
            {},
            {},
        ),
        # plugins of the user and of the playbook
        (["-i", "localhost,", "play.yml"], 0, [_debug("of Ansible")], {"home/.ansible/plugins/action/debug.py": DEBUG}, {}),
        (["-i", "localhost,", "play.yml"], 0, [_debug("of Ansible")], {"action_plugins/debug.py": DEBUG}, {}),
        # errors before the first task
        (["--no-such-option"], 2, [], {}, {}),
        (["absent.yml"], 1, [], {}, {}),
        (["-i", "localhost,", "play.yml"], 4, [{"nothing": {}}], {}, {}),
        (["-i", "localhost,", "play.yml"], 5, [], {"ansible.cfg": "[defaults]\nforks = many\n"}, {}),
        (["--version"], 0, [], {"ansible.cfg": ""}, {}),
    ],
)
def test_it_is_the_program(tmp_path: pathlib.Path, arguments: list[str], code: int, tasks: list[t.Any], files: Files, env: dict[str, str]) -> None:
    hosts = "metal1:metal2" if "metal1,metal2" in arguments else "localhost"
    env = {**_play(tmp_path, *tasks, hosts=hosts, files=files), **env}
    program = pathlib.Path(sys.executable).with_name("ansible-playbook")
    real = subprocess.run([sys.executable, program, *arguments], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    done = ansible_playbook(*arguments, cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (real.returncode, real.stdout, real.stderr)
    assert done.returncode == code


def test_only_settings_that_are_read_early_need_the_program_itself(tmp_path: pathlib.Path) -> None:
    env = _play(tmp_path, _debug("started: {{ lookup('own', '') }}"), files={"ansible.cfg": "[defaults]\nforks = 7\n"})
    assert "preloaded_server.py" in ansible_playbook("-i", "localhost,", "play.yml", cwd=tmp_path, env=env).stdout
    early = ansible_playbook("-i", "localhost,", "play.yml", cwd=tmp_path, env={**env, "ANSIBLE_TIMEOUT": "77"}).stdout
    assert "bin/ansible-playbook" in early and "preloaded_server.py" not in early


def test_a_run_leaves_nothing_to_the_next_one(tmp_path: pathlib.Path) -> None:
    env = _play(tmp_path, _debug("found: {{ lookup('env', 'FIRST') }} {{ lookup('config', 'DEFAULT_FORKS') }}."))
    env["ANSIBLE_LOCAL_TEMP"] = str(tmp_path / "temporary")
    first = ansible_playbook("-i", "localhost,", "play.yml", cwd=tmp_path, env={**env, "FIRST": "given", "ANSIBLE_FORKS": "9"}).stdout
    second = ansible_playbook("-i", "localhost,", "play.yml", cwd=tmp_path, env=env).stdout
    assert "found: given 9." in first and "found:  5." in second
    # each had a folder of its own there
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_late_run_is_killed(tmp_path: pathlib.Path) -> None:
    env = _play(tmp_path, hosts="{{ lookup('own', 'wait') }}")
    with pytest.raises(subprocess.TimeoutExpired):
        ansible_playbook("-i", "localhost,", "play.yml", cwd=tmp_path, env=env, timeout=3)
    assert not [path for path in pathlib.Path("/proc").glob("[0-9]*/cwd") if _runs_in(path, tmp_path)]


def _runs_in(path: pathlib.Path, folder: pathlib.Path) -> bool:
    try:
        return path.readlink() == folder
    except OSError:
        return False


def test_the_parent_ends_with_the_process_that_started_it(tmp_path: pathlib.Path) -> None:
    env = _play(tmp_path)
    text = f"""
import os, pathlib, signal
from tests.support import preloaded
preloaded.ansible_playbook("--version", cwd=pathlib.Path({str(tmp_path)!r}), env={env!r})
print(*[parent.process.pid for parent in preloaded._PARENTS.values()], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    root = pathlib.Path(preloaded.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False)
    (pid,) = done.stdout.split()
    until = time.monotonic() + 30
    while pathlib.Path(f"/proc/{pid}").exists() and b"preloaded" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_parent_that_is_gone_is_replaced(tmp_path: pathlib.Path) -> None:
    env = _play(tmp_path)
    assert ansible_playbook("--version", cwd=tmp_path, env=env).returncode == 0
    for parent in preloaded._PARENTS.values():
        parent.process.kill()
        parent.process.wait()
    assert ansible_playbook("--version", cwd=tmp_path, env=env).returncode == 0
