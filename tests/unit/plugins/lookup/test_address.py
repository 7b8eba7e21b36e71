# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup ``address`` in a real play: RabbitMQ's port is the one at which it serves, and the load balancer has its default frontends."""

from __future__ import annotations

import json
import os
import pathlib

from tests.support.preloaded import ansible_playbook

ROOT = pathlib.Path(__file__).resolve().parents[4]
INVENTORY = {
    "controller": {"hosts": {"c1": {"ansible_host": "192.0.2.1"}}},
    "all": {"vars": {"ansible_connection": "local"}},
}
QUEUES, DATABASE = (f"lookup('reduced.footprint.address', '{name}', port=true, with_scheme=true)" for name in ("rpc", "database"))
CACHE, IDENTITY = (f"lookup('reduced.footprint.address', '{name}', port=true, with_scheme=true)" for name in ("memcached", "keystone"))
BALANCED = {"load_balancer_virtual_address": "192.0.2.20"}
#: the lookup, what is set, and its answer
CASES = (
    (QUEUES, {}, "amqp://192.0.2.1:5672"),
    (QUEUES, {"rabbitmq_tls": True}, "amqps://192.0.2.1:5671"),
    (QUEUES, {"rabbitmq_tls": True, "rabbitmq_tls_port": 5670}, "amqps://192.0.2.1:5670"),
    (QUEUES, {"footprint_secrets": "{folder}/made"}, "amqps://192.0.2.1:5671"),
    (QUEUES, {"footprint_secrets": "{folder}/made", "rabbitmq_tls": False}, "amqp://192.0.2.1:5672"),
    (QUEUES, {"footprint_secrets": "{folder}/made", "footprint_services": {"rabbitmq": {"port": 5600}}}, "amqp://192.0.2.1:5600"),
    (QUEUES, {"rabbitmq_port": 5673}, "amqp://192.0.2.1:5673"),
    (CACHE, {"memcached_port": 11212}, "memcached://192.0.2.1:11212"),
    (IDENTITY, {}, "http://192.0.2.1:5000"),
    (IDENTITY, {"keystone_port": 5001}, "http://192.0.2.1:5001"),
    (DATABASE, {}, "mysql://192.0.2.1:3306"),
    # the default of load_balancer_frontends uses internal variables of its role
    (DATABASE, BALANCED, "mysql://192.0.2.20:3306"),
    # the balancer serves at the port that the role keystone puts into the catalog
    (IDENTITY, {**BALANCED, "keystone_port": 5001}, "https://192.0.2.20:5001"),
    (DATABASE, {**BALANCED, "footprint_components": ["keystone"]}, "mysql://192.0.2.1:3306"),
    (DATABASE, {**BALANCED, "load_balancer_frontends": []}, "mysql://192.0.2.1:3306"),
)


def test_address_in_a_play(tmp_path: pathlib.Path) -> None:
    """A cluster from before TLS was the default has no certificates, and keeps its port."""
    (tmp_path / "made" / "amqp").mkdir(parents=True)
    (tmp_path / "made" / "amqp" / "ca.pem.txt").write_text("", "utf-8")
    (tmp_path / "ansible.cfg").write_text("", "utf-8")
    (tmp_path / "hosts.json").write_text(json.dumps(INVENTORY), "utf-8")
    tasks = [
        {
            "name": f"Case {number}",
            "vars": {key: value.format(folder=tmp_path) if isinstance(value, str) else value for key, value in variables.items()},
            "ansible.builtin.assert": {"that": f"{asked} == '{expected}'", "fail_msg": f"{number}: {{{{ {asked} }}}}"},
        }
        for number, (asked, variables, expected) in enumerate(CASES)
    ]
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "c1", "gather_facts": False, "tasks": tasks}]), "utf-8")
    settings = {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"), "ANSIBLE_NOCOLOR": "1"}
    done = ansible_playbook("-i", "hosts.json", "play.yml", cwd=tmp_path, env={**os.environ, **settings})
    assert done.returncode == 0, done.stdout + done.stderr
