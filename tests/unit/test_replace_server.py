# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of replace_server that only a run shows, with modules that answer as the test wants; no host is contacted."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
OLD, NEW, OTHER = ("1" * 32, "2" * 32, "3" * 32)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHV0dHRlcm5vbnNlbnNlYnV0MzJieXRlc2xvbmchIQ"
EARLIER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOldOldOldOldOldOldOldOldOldOldOldOldOldOldOl"
#: An action plugin instead of a module: it answers from a file, and writes down the options with which ssh would connect.
ACTION = """
import json, pathlib
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        host = self._task.delegate_to or task_vars['inventory_hostname']
        name = self._task.action.rpartition('.')[2]
        folder = pathlib.Path(FOLDER)
        arguments = self._connection.get_option('ssh_args') if hasattr(self._connection, '_build_command') else ''
        file = arguments.partition('UserKnownHostsFile=')[2].partition(' ')[0]
        accepted = pathlib.Path(file).read_text() if file else None
        with open(folder / 'calls', 'a') as calls:
            calls.write(json.dumps([name, host, self._task.args.get('state'), accepted, file, self._task.args.get("machines")]) + chr(10))
        return json.loads((folder / 'answers').read_text()).get(f'{name} {host}', {'failed': True, 'msg': f'{name} has no answer for {host}'})
"""
MODULES = ("controlplane_info", "server_identity_info", "server_identity", "vm_info", "vm_standby_info", "vm_standby")


class Control:
    """A control node with the collection, some modules of which only answer."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        there = folder / "collections/ansible_collections/reduced/footprint"
        (there / "plugins/action").mkdir(parents=True)
        for path in [*ROOT.glob("*"), *(ROOT / "plugins").glob("*")]:
            if path.name not in ("plugins", "action", "tests"):
                (there / path.relative_to(ROOT)).symlink_to(path)
        for name in MODULES:
            (there / f"plugins/action/{name}.py").write_text(ACTION.replace("FOLDER", repr(str(folder))), "utf-8")
        record = {"name": "metal2", "machine_id": OLD, "product_uuid": "", "address": "192.0.2.12", "at": "20261124T190000Z"}
        records = [{**record, "state": "known", "old": [], "proof": ""}]
        self.answers: dict[str, t.Any] = {
            "server_identity_info metal1": {"identity": {"here": {"machine_id": OTHER, "product_uuid": ""}, "records": records}},
            "server_identity_info metal2": {"identity": {"here": {"machine_id": NEW, "product_uuid": ""}, "records": []}},
            "vm_info metal1": {"vms": []},
            "vm_info metal2": {"vms": []},
            "vm_standby_info metal1": {"standbys": []},
            "vm_standby_info metal2": {"standbys": []},
        }

    def run(self, playbook: str | pathlib.Path, *options: str, **variables: t.Any) -> tuple[int, str]:
        """Run a playbook on two servers."""
        servers = {"metal1": {"ansible_host": "192.0.2.11"}, "metal2": {"ansible_host": "192.0.2.12", **variables}}
        (self.folder / "answers").write_text(json.dumps(self.answers), "utf-8")
        (self.folder / "calls").write_text("", "utf-8")
        (self.folder / "ansible.cfg").write_text("", "utf-8")
        (self.folder / "hosts.yml").write_text(yaml.safe_dump({"virt": {"hosts": servers, "vars": {"expert_mode": True}}}), "utf-8")
        environment = {
            **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"), "PYTHONPATH": "", "HOME": str(self.folder),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "local"), "TMPDIR": str(self.folder), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
        }  # fmt: skip
        command = [str(pathlib.Path(sys.executable).with_name("ansible-playbook")), "-i", str(self.folder / "hosts.yml"), *options, str(playbook)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=self.folder)
        return done.returncode, done.stdout + done.stderr

    def calls(self) -> list[list[t.Any]]:
        """Return module, host, state, the accepted host keys, their file, and the machines of each call."""
        return [json.loads(line) for line in (self.folder / "calls").read_text("utf-8").splitlines()]


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> Control:
    return Control(tmp_path)


@pytest.mark.parametrize(("pinned", "entry"), [(False, "192.0.2.12"), (True, "metal2")])
def test_check_mode_reads_a_machine_whose_host_key_is_not_accepted_yet(control: Control, pinned: bool, entry: str) -> None:
    known = control.folder / (".ssh/known_hosts" if not pinned else "known_hosts.txt")
    known.parent.mkdir(exist_ok=True)
    known.write_text(f"{entry} {EARLIER}\n", "utf-8")
    pin = {"ansible_ssh_extra_args": f"-o HostKeyAlias=metal2 -o GlobalKnownHostsFile={known}", "footprint_known_hosts": str(known)} if pinned else {}
    given = ("-e", json.dumps({"replace_server_name": "metal2", "replace_server_confirm": "metal2", "replace_server_host_key": KEY}))
    code, output = control.run("reduced.footprint.replace_server", "--check", *given, **pin)
    assert code == 0, output
    assert f"metal2: the machine {NEW} takes over from the machine {OLD}" in output
    assert known.read_text("utf-8") == f"{entry} {EARLIER}\n"
    calls = control.calls()
    assert {(host, accepted) for _name, host, _state, accepted, *_more in calls} == {("metal1", None), ("metal2", f"{entry} {KEY}\n")}
    assert not any(pathlib.Path(file).exists() for *_others, file, _machines in calls if file)


def test_the_temporary_host_key_is_removed_after_a_failure(control: Control) -> None:
    control.answers["server_identity_info metal2"] = {"failed": True, "msg": "Failed to connect:\nHost key verification failed."}
    given = ("-e", json.dumps({"replace_server_name": "metal2", "replace_server_host_key": KEY}))
    code, output = control.run("reduced.footprint.replace_server", "--check", *given)
    assert code != 0 and "metal2 does not answer at 192.0.2.12 (Host key verification failed). Install the new machine" in output
    assert not list(control.folder.glob("*.known_hosts"))


def start(control: Control) -> tuple[int, str]:
    """Run the steps that start a VM from its copy on metal1."""
    (control.folder / "move_vm.yml").write_text("[]\n", "utf-8")
    tasks = (ROOT / "playbooks/tasks/replace_server_standby.yml").read_text("utf-8")
    (control.folder / "start.yml").write_text(tasks, "utf-8")
    vm = {"id": "notes", "name": "notes", "way": "standby", "server": "metal1", "copy": "20261126T100000Z"}
    facts = {"__replace_server_vm": vm, "__replace_server_plan": {"name": "metal2", "proof": "person metal2"}}
    play = {"hosts": "metal1", "gather_facts": False, "vars": facts, "tasks": [{"ansible.builtin.include_tasks": "start.yml"}]}
    (control.folder / "play.yml").write_text(yaml.safe_dump([play]), "utf-8")
    return control.run(control.folder / "play.yml")


def test_a_vm_on_the_new_machine_is_not_replaced_by_its_copy(control: Control) -> None:
    # its virtual machines could not be listed at the begin
    control.answers["vm_standby metal1"] = {"changed": True}
    control.answers["vm_info metal2"] = {"vms": [{"id": "notes", "name": "notes", "state": "shutdown", "moved": None}]}
    code, output = start(control)
    assert code != 0 and "notes is already on metal2, which could not list its virtual machines before. It was not started" in " ".join(output.split())
    assert "vm_standby" not in {call[0] for call in control.calls()}
    control.answers["vm_info metal2"] = {"vms": [{"id": "web", "name": "web", "state": "running", "moved": None}]}
    code, output = start(control)
    assert code == 0 and ["vm_standby", "metal1", "started"] in [call[:3] for call in control.calls()], output


def test_a_new_virt_host_learns_which_machines_the_others_are(control: Control) -> None:
    # provision_virt for metal2 only; the other server is the one that may be lost next
    play = next(iter(yaml.safe_load((ROOT / "playbooks/provision_virt.yml").read_text("utf-8"))))
    tasks = {"hosts": "metal2", "gather_facts": False, "tasks": play["post_tasks"]}
    (control.folder / "play.yml").write_text(yaml.safe_dump([tasks]), "utf-8")
    control.answers.update({f"server_identity {name}": {"changed": True} for name in ("metal1", "metal2")})
    code, output = control.run(control.folder / "play.yml")
    assert code == 0, output
    recorded = {host: [one["name"] for one in machines] for name, host, _state, _accepted, _file, machines in control.calls() if name == "server_identity"}
    assert recorded == {"metal1": ["metal2", "metal1"], "metal2": ["metal2", "metal1"]}
    # one that is down is left out
    control.answers["server_identity_info metal1"] = control.answers["server_identity metal1"] = {"unreachable": True, "msg": "down"}
    code, output = control.run(control.folder / "play.yml")
    assert code == 0 and [call[5] for call in control.calls() if call[:2] == ["server_identity", "metal2"]][0][0]["name"] == "metal2", output
