# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first deployment is killed repeatedly, and a server loses power during the installation: the next run completes it."""

from __future__ import annotations

import json
import pathlib
import shlex
import shutil
import threading
import typing as t

import pytest
from controllers_lab import SERVERS, ControllersLab
from support import eventually
from token_client import Client, read_openrc

pytestmark = [pytest.mark.chapter, pytest.mark.whole]

#: In the order of a deployment, so that each run continues beyond the previous one: role, task, seconds after its start.
KILLS = [
    ("galera", "Install the helper programs and units", 0.5),
    ("galera", "Start the cluster", 2),
    ("galera", "Join or restart metal2", 3),
    ("galera", "Create databases and users", 0.5),
    ("load_balancer", "Create or check the certificate", 0.3),
    ("load_balancer", "Configure HAProxy and keepalived", 0.5),
    ("rabbitmq", "Mask the server until it is configured", 0.5),
    ("rabbitmq", "Start the first member", 4),
    ("rabbitmq", "Join or restart the members one by one", 6),
    ("rabbitmq", "Create virtual hosts, users, policies and queues", 1),
    ("memcached", "Enable and start the service", 0.5),
    ("keystone", "Migrate the database schema", 4),
    ("keystone", "Change the keys of the leader", 0.5),
    ("keystone", "Copy the keys to the other members one by one", 0.7),
    ("keystone", "Reload or restart changed members one by one", 2),
    ("keystone", "Create the administrator and the endpoints", 1),
]


@pytest.fixture(name="empty", scope="module")
def fixture_empty(lab: ControllersLab) -> ControllersLab:
    """Provide servers without any deployment."""
    lab.stop_writing()
    lab.command("down")
    lab.command("up", "--servers", "3")
    shutil.rmtree(lab.inventory_path, ignore_errors=True)
    lab.write_inventory()
    return lab


def openrc(lab: ControllersLab) -> pathlib.Path:
    return lab.inventory_path / ".secrets" / "lab" / "openrc-lab.txt"


def test_power_loss_during_installation_is_reported_and_completed(empty: ControllersLab) -> None:
    """The package manager of that server refuses all operations until the interrupted one is completed."""
    name = SERVERS[1]
    unpacking = "dpkg-query --show --showformat='${Status}' mariadb-server-core | grep -q unpacked"

    def cut() -> None:
        empty.ssh(name, f"timeout 180 sh -c {shlex.quote(f'until {unpacking}; do sleep 0.1; done 2> /dev/null')}")
        empty.lose_power(name)

    thread = threading.Thread(target=cut)
    thread.start()
    failed = empty.play("deploy_controllers", variables={"deploy_controllers_components": ["galera"]})
    thread.join()
    assert failed.rc != 0
    empty.power_on(name)
    said = empty.ssh(name, "apt-get -y install mariadb-server 2>&1", check=False)
    assert "dpkg was interrupted" in said, said[-2000:]
    galera = {"deploy_controllers_components": ["galera"]}
    done = empty.play("deploy_controllers", variables=galera, kill_at="galera : Create the system account", kill_delay=0.5)
    assert done.rc < 0, done.output[-4000:]


@pytest.mark.parametrize("role,task,seconds", KILLS)
def test_run_is_killed(empty: ControllersLab, role: str, task: str, seconds: float) -> None:
    killed = empty.play("deploy_controllers", kill_at=f"TASK [reduced.footprint.{role} : {task}", kill_delay=seconds)
    assert killed.rc < 0, killed.output[-4000:]


def test_next_run_completes_the_deployment(empty: ControllersLab) -> None:
    done = empty.play("deploy_controllers")
    assert done.rc == 0, done.output[-6000:]
    again = empty.play("deploy_controllers")
    assert again.rc == 0 and again.changed == 0, again.changed_tasks() or again.output[-4000:]


def test_deployed_services_are_healthy(empty: ControllersLab) -> None:
    path = empty.state / "status.json"

    def healthy() -> t.Any:
        path.unlink(missing_ok=True)
        empty.play("status", "-e", f"status_report_file={path}")
        return json.loads(path.read_text(encoding="utf-8"))["state"] == "ok"

    eventually("the control plane is healthy", healthy, 120)
    client = Client(read_openrc(openrc(empty).read_text("utf-8")), timeout=20)
    client.validate(client.issue())
