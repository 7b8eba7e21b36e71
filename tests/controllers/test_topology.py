# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Deployment of a topology: services of the operator on some of the servers, in order, and tasks that run once per deployment.

The services are small roles, so that the story neither waits for nor disturbs the control plane of the other files.
"""

from __future__ import annotations

import typing as t

import pytest
import yaml
from controllers_lab import SERVERS, ControllersLab
from rflab.plays import PlayRun

pytestmark = pytest.mark.chapter

HERE = "/var/lib/footprint-topology"
TOPOLOGY: dict[str, t.Any] = {
    "plugin": "reduced.footprint.nodes",
    "cluster": "lab",
    "nodes": {"metal1": {"roles": ["back"]}, "metal[23]$": {"roles": ["front"], "configs": {"front-end": {"greeting": "hello"}}}},
    "roles": {"back": ["store"], "front": ["front-end"]},
    "services": {
        "front-end": {
            "role": "front_end",
            "depends": ["store"],
            "defaults": {"greeting": "good day", "limits": {"low": 1, "high": 2}},
            "once": [{"name": "schema"}, {"name": "register", "when": "after"}],
        },
        "store": {"role": "store", "port": 4711},
    },
    "configs": {"front-end": {"limits": {"high": 3}}},
}
APPEND = {"argv": ["tee", "-a", f"{HERE}/once"]}
#: Role → file of tasks → tasks. Each fails if its dependency was not completed before.
ROLES: dict[str, dict[str, list[dict[str, t.Any]]]] = {
    "store": {
        "main": [
            {"name": "Make a folder", "ansible.builtin.file": {"path": HERE, "state": "directory", "mode": "0755"}},
            {"name": "Keep something", "ansible.builtin.copy": {"dest": f"{HERE}/store", "content": "kept\n", "mode": "0644"}},
        ]
    },
    "front_end": {
        "schema": [
            {"name": "See the store", "ansible.builtin.command": {"argv": ["cat", f"{HERE}/store"]}, "delegate_to": "metal1", "changed_when": False},
            {"name": "Make a folder", "ansible.builtin.file": {"path": HERE, "state": "directory", "mode": "0755"}},
            {"name": "Note the schema", "ansible.builtin.command": {**APPEND, "stdin": "schema"}},
        ],
        "main": [
            {"name": "Make a folder", "ansible.builtin.file": {"path": HERE, "state": "directory", "mode": "0755"}},
            {
                "name": "Greet",
                "ansible.builtin.copy": {
                    "dest": f"{HERE}/front",
                    "content": "{{ front_end_greeting | default('good day') }} {{ front_end_limits.low }}-{{ front_end_limits.high }}"
                    " {{ lookup('reduced.footprint.address', 'store', port=true) }}\n",
                    "mode": "0644",
                },
            },
        ],
        "register": [
            {
                "name": "See every member",
                "ansible.builtin.command": {"argv": ["cat", f"{HERE}/front"]},
                "delegate_to": "{{ item }}",
                "loop": "{{ groups['front_end'] }}",
                "changed_when": False,
            },
            {"name": "Note the registration", "ansible.builtin.command": {**APPEND, "stdin": "register"}},
        ],
    },
}


class Topology:
    """A topology file for the hosts of the lab, and roles that are not part of the collection."""

    def __init__(self, lab: ControllersLab) -> None:
        self.lab = lab
        self.file = lab.inventory_path / "own.footprint.yml"
        self.roles = lab.inventory_path / "own-roles"
        for role, files in ROLES.items():
            for name, tasks in files.items():
                path = self.roles / role / "tasks" / f"{name}.yml"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(yaml.safe_dump(tasks, sort_keys=False), encoding="utf-8")

    def write(self, **changed: t.Any) -> None:
        """Return the topology with changes."""
        self.lab.write_inventory(groups={"rack": SERVERS})
        self.file.write_text(yaml.safe_dump({**TOPOLOGY, **changed}, sort_keys=False), encoding="utf-8")

    def deploy(self, *arguments: str, **options: t.Any) -> PlayRun:
        """Deploy the topology without the collection's own services."""
        return self.lab.play("deploy_controllers", "-i", str(self.file), *arguments, extra={"ANSIBLE_ROLES_PATH": str(self.roles)}, **options)

    def succeeds(self, *arguments: str, **options: t.Any) -> PlayRun:
        done = self.deploy(*arguments, **options)
        assert done.rc == 0, done.output[-6000:]
        return done

    def once(self) -> list[str]:
        """Return the tasks that ran once, of all servers together."""
        texts = [self.lab.run(name, ["cat", f"{HERE}/once"], check=False) for name in SERVERS]
        return sorted(word for text in texts for word in text.replace("schema", "schema ").replace("register", "register ").split())


@pytest.fixture(scope="module")
def topology(lab: ControllersLab) -> t.Iterator[Topology]:
    """Provide servers without the services; remove the services afterwards."""

    def clean() -> None:
        for name in SERVERS:
            lab.run(name, ["rm", "-rf", HERE])
            for step in ("schema", "register"):
                lab.run(name, ["rm", "-f", f"/var/lib/reduced.footprint/once/lab.front-end.{step}"])

    clean()
    it = Topology(lab)
    it.write()
    yield it
    clean()
    lab.write_inventory()


def test_server_that_is_too_small_is_reported_before_any_change(topology: Topology) -> None:
    services = {**TOPOLOGY["services"], "store": {"role": "store", "memory": 9999999}}
    topology.write(services=services)
    refused = topology.deploy()
    assert refused.rc != 0
    for words in ("metal1 has", "the system 150, store 9999999", "MiB are missing"):
        assert words in refused.output, refused.output[-3000:]
    assert topology.lab.run("metal1", ["ls", HERE], check=False) == ""
    topology.write()


def test_check_mode_changes_nothing(topology: Topology) -> None:
    checked = topology.succeeds(variables={"deploy_controllers_components": "store"}, check=True)
    assert checked.changed > 0
    assert topology.lab.run("metal1", ["ls", HERE], check=False) == ""


def test_only_named_components_are_deployed(topology: Topology) -> None:
    topology.succeeds(variables={"deploy_controllers_components": ["store"]})
    assert topology.lab.run("metal1", ["cat", f"{HERE}/store"]) == "kept\n"
    assert topology.once() == []


def test_services_are_deployed_in_order_on_their_hosts_only(topology: Topology) -> None:
    topology.succeeds()
    address = topology.lab.addresses["metal1"]
    for name in ("metal2", "metal3"):
        assert topology.lab.run(name, ["cat", f"{HERE}/front"]) == f"hello 1-3 {address}:4711\n"
    assert topology.lab.run("metal1", ["ls", HERE]).split() == ["store"]
    assert topology.once() == ["register", "schema"]


def test_second_run_changes_nothing(topology: Topology) -> None:
    again = topology.succeeds()
    assert again.changed == 0, again.changed_tasks()
    assert topology.succeeds(check=True).changed == 0
    assert topology.once() == ["register", "schema"]


def test_joining_member_does_not_repeat_tasks_that_run_once(topology: Topology) -> None:
    topology.write(nodes={**TOPOLOGY["nodes"], "metal": {"roles": ["front"]}})
    topology.succeeds("--limit", "metal1")
    assert topology.once() == ["register", "schema"]
    assert topology.lab.run("metal1", ["cat", f"{HERE}/front"]).startswith("good day 1-3 ")
    # the new member also has the record, in case the others are lost
    for name in ("metal2", "metal3"):
        topology.lab.run(name, ["rm", "-r", "/var/lib/reduced.footprint/once"])
    topology.succeeds()
    assert topology.once() == ["register", "schema"]
    again = topology.succeeds()
    assert again.changed == 0, again.changed_tasks()


def test_task_killed_before_its_record_is_repeated_once(topology: Topology) -> None:
    for name in SERVERS:
        topology.lab.run(name, ["rm", "-r", "/var/lib/reduced.footprint/once"])
    killed = topology.deploy(kill_at="TASK [Create the directory of completed steps]")
    assert killed.rc < 0, killed.output[-3000:]
    assert topology.once() == ["register", "schema", "schema"]
    topology.succeeds()
    assert topology.once() == ["register", "register", "schema", "schema", "schema"]
    again = topology.succeeds()
    assert again.changed == 0, again.changed_tasks()
    assert topology.once() == ["register", "register", "schema", "schema", "schema"]
