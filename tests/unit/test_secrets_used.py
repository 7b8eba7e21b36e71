# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No playbook generates secrets beside those with which hosts were deployed."""

from __future__ import annotations

import base64
import json
import pathlib
import re
import sys
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

_GENERATES = re.compile(r"lookup\('reduced\.footprint\.(secret|certificate)'|query\('reduced\.footprint\.(secret|certificate)'")
#: These roles use secrets, but do not write them to hosts that were deployed with others.
_LOCAL = {"redfish_emulator", "boot_server", "test_image"}


def generating() -> set[str]:
    """The roles that generate secrets, and those that include them."""
    texts = {path.name: "".join(file.read_text("utf-8") for file in path.rglob("*.yml")) for path in (ROOT / "roles").iterdir()}
    found = {name for name, text in texts.items() if _GENERATES.search(text)}
    return {name for name, text in texts.items() if name in found or any(f"reduced.footprint.{one}\n" in text for one in found)} - _LOCAL


def plays() -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    for path in sorted((ROOT / "playbooks").glob("*.yml")):
        for play in yaml.safe_load(path.read_text("utf-8")):
            if "ansible.builtin.import_playbook" not in play:
                yield path.stem, play


@pytest.mark.parametrize("name, play", [pytest.param(*one, id=f"{one[0]}-{one[1]['name'][:30]}") for one in plays()])
def test_a_play_with_secrets_checks_which_are_in_use(name: str, play: dict[str, t.Any]) -> None:
    text = json.dumps([play.get(kind) for kind in ("pre_tasks", "roles", "tasks", "post_tasks")])
    # other entry points of a role work on what was deployed
    # without VMs the role of standbys only removes
    used = [role for role in sorted(generating()) if re.search(rf'"reduced\.footprint\.{role}"(?!, "tasks_from"|}}, "vars": {{"standby_vms": \[\])', text)]
    # a play in batches has it in the play before, for all of its hosts
    same = json.dumps([one for stem, one in plays() if stem == name and one["hosts"] == play["hosts"]]) if "serial" in play else text
    if used:
        assert "secrets_used.yml" in same and "secrets_record.yml" in text, f"{name}: {used}"


@pytest.mark.parametrize("name", ["recover_database", "restore_database"])
def test_a_database_that_comes_back_keeps_its_secrets(name: str) -> None:
    (play,) = [play for stem, play in plays() if stem == name]
    assert play["pre_tasks"][-1]["ansible.builtin.import_tasks"] == "tasks/secrets_used.yml"


def test_a_rolling_restart_generates_no_secrets() -> None:
    # the cookie of RabbitMQ and the password of the administrator, on a control node that does not have them
    (play,) = [play for stem, play in plays() if stem == "rolling_restart" and play["name"] == "Plan the rolling restart"]
    assert "tasks/secrets_used.yml" in [task.get("ansible.builtin.import_tasks") for task in play["tasks"]]


@pytest.mark.parametrize("record", ["missing", "known", "known before", "unreadable", "unreadable here"])
def test_secrets_of_hosts_outside_the_run_count(record: str, tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path)
    tasks = yaml.safe_load((ROOT / "playbooks/tasks/secrets_used.yml").read_text("utf-8"))
    # a new server, and a controller that was deployed with other secrets
    tasks[0]["ansible.builtin.slurp"]["src"] = str(tmp_path / "missing")
    tasks[1]["ansible.builtin.slurp"]["src"] = str(tmp_path / "mark")
    if record == "known":
        (tmp_path / "mark").write_text('{"mark": "a1", "schema": 1}\n', "utf-8")
    elif "unreadable" in record:
        # root reads any file, but no folder
        (tmp_path / ("missing" if "here" in record else "mark")).mkdir()
    (tmp_path / "used.yml").write_text(yaml.safe_dump(tasks), "utf-8")
    include = {"ansible.builtin.include_tasks": "used.yml", "vars": {"__secrets_others": ["metal1", "silent"]}}
    show = {"ansible.builtin.debug": {"msg": "{{ lookup('reduced.footprint.secret', 'nova/service') | length }} characters"}}
    play = {"hosts": "metal2", "gather_facts": False, "any_errors_fatal": True, "tasks": [include, show]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]), "utf-8")
    (tmp_path / "host_vars").mkdir()
    for host in ("metal1", "metal2"):
        (tmp_path / f"host_vars/{host}.yml").write_text(f"ansible_connection: local\nansible_python_interpreter: {sys.executable}\n", "utf-8")
    if record == "known before":
        # an earlier play of this run has read it
        read = {"content": base64.b64encode(b'{"mark": "a1", "schema": 1}\n').decode()}
        with open(tmp_path / "host_vars/metal1.yml", "a", encoding="utf-8") as stream:
            stream.write(f"__secrets_used: {json.dumps(read)}\n")
    (tmp_path / "host_vars/silent.yml").write_text("ansible_host: 127.0.0.1\nansible_port: 1\n", "utf-8")
    code, output = control.run(str(tmp_path / "play.yml"), "-i", "silent,", "-e", json.dumps({"footprint_secrets": str(tmp_path / "secrets")}))
    if "unreadable" in record:
        host = "metal2" if "here" in record else "metal1"
        assert code != 0 and f"The records of the secrets of {host} could not be read" in " ".join(output.split()), output
        assert not (tmp_path / "secrets").exists()
    elif "known" in record:
        assert ("=> (item=metal1)" in output) == (record == "known"), output
        assert code != 0 and "were deployed with the secrets of another directory" in output, output
        assert not (tmp_path / "secrets").exists()
    else:
        assert code == 0 and "32 characters" in output, output


def test_a_new_member_does_not_get_other_secrets_than_its_peers(tmp_path: pathlib.Path) -> None:
    # with --limit, no host of the run may have a record
    (play,) = [play for stem, play in plays() if stem == "deploy_controllers" and "post_tasks" in play]
    (task,) = [task for task in play["pre_tasks"] if task.get("ansible.builtin.import_tasks") == "tasks/secrets_used.yml"]
    show = {"ansible.builtin.debug": {"msg": "others: {{ __secrets_others }}"}, "vars": task["vars"]}
    code, output = ControlNode(tmp_path).play([show], "metal2", galera_group="virt")
    assert code == 0 and "others: ['metal1']" in output, output
