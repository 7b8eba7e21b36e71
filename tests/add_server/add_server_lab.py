# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two servers with three controllers, a writer at their virtual address, and the third server that joins them."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
import typing as t

import yaml
from rflab.plays import REPOSITORY, PlayRun, environment, play
from support import Lab, eventually, sql

LOGS = REPOSITORY / "tests" / "output" / "add_server"
CONTROLLERS = ["controller1", "controller2", "controller3"]
SERVERS = ("metal1", "metal2", "metal3")
EVENTS = "CREATE TABLE IF NOT EXISTS footprint.events (n BIGINT PRIMARY KEY, at DATETIME(6) NOT NULL) ENGINE=InnoDB"


class AddServerLab(Lab):
    """The lab with an inventory of its own, which comes to name a third server."""

    def __init__(self) -> None:
        super().__init__()
        self.inventory_path = self.state / "add-server-inventory"

    def play(self, name: str, *arguments: str, **options: t.Any) -> PlayRun:
        """Run a playbook; its output is kept under tests/output/add_server."""
        self._plays += 1
        playbook = name if name.endswith(".yml") else f"reduced.footprint.{name}"
        return play(playbook, *arguments, inventory=self.inventory_path, log=LOGS / f"{self._plays:02d}-{name.rpartition('/')[2]}.log", **options)

    def write_inventory(self, servers: int, placement: t.Mapping[str, str] | None = None) -> None:
        """The lab's inventory with so many servers, and an account for the writer.

        :arg placement: VM → server whose list is to name it, where that is another one than in the lab's inventory.
        """
        shutil.rmtree(self.inventory_path, ignore_errors=True)
        shutil.copytree(self.state / "inventory", self.inventory_path)
        nodes = self.inventory_path / "nodes.yml"
        content = yaml.safe_load(nodes.read_text(encoding="utf-8"))
        for number in range(1, servers + 1):
            entry = content["servers"].setdefault(f"metal{number}", {"ansible_host": f"{self.net}.{10 + number}", "roles": ["virt", "compute"]})
            entry.setdefault("vms", [])
        for name, wanted in (placement or {}).items():
            for entry in content["servers"].values():
                for vm in [vm for vm in entry.get("vms") or [] if vm["id"] == name]:
                    entry["vms"].remove(vm)
                    content["servers"][wanted]["vms"].append(vm)
        nodes.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        password = "{{ lookup('ansible.builtin.file', inventory_dir ~ '/../writer-password') }}"
        group = self.inventory_path / "group_vars" / "all.yml"
        variables = yaml.safe_load(group.read_text(encoding="utf-8"))
        variables["galera_databases"].append("footprint")
        variables["galera_users"].append({"name": "writer", "password": password, "privileges": {"footprint.*": "ALL"}})
        group.write_text(yaml.safe_dump(variables, sort_keys=False), encoding="utf-8")

    def writer_sql(self, statement: str) -> list[tuple[t.Any, ...]]:
        """One statement through the virtual address with the writer's account."""
        password = (self.state / "writer-password").read_text(encoding="utf-8").strip()
        return sql(statement, host=self.virtual_address, user="writer", password=password, database="footprint")

    def start_writing(self) -> None:
        """Rows through the virtual address from now on."""
        eventually("the virtual address answers", lambda: self.writer_sql(EVENTS) == [], 60)
        self.command("writer", "start", self.virtual_address)

    def writing(self) -> bool:
        """Whether rows are being acknowledged now."""
        before = len(self.acknowledged())
        time.sleep(2)
        return len(self.acknowledged()) > before

    def written(self) -> dict[str, t.Any]:
        """What became of the rows, asked at the virtual address."""
        return json.loads(self.command("writer", "report", self.virtual_address))

    def rows_of(self, address: str) -> set[int]:
        """The rows one member itself has."""
        text = self.ssh(address, "mariadb", "--batch", "--skip-column-names", "--execute", "'SELECT n FROM footprint.events'")
        return {int(line) for line in text.split()}

    def acknowledged(self) -> set[int]:
        """The rows the writer was promised so far."""
        found = set()
        for line in (self.state / "writer.jsonl").read_text(encoding="ascii").splitlines():
            with contextlib.suppress(ValueError):  # the line being written right now
                found.add(json.loads(line)["n"])
        return found

    def inventory(self) -> dict[str, t.Any]:
        """The inventory with all host variables."""
        command = [str(REPOSITORY / ".venv" / "bin" / "ansible-inventory"), "-i", str(self.inventory_path), "--list"]
        done = subprocess.run(command, env=environment(), capture_output=True, encoding="utf-8", check=True)
        return json.loads(done.stdout, object_hook=lambda value: value.get("__ansible_unsafe", value))

    def running(self, server: str) -> list[str]:
        """The containers that run on a server."""
        return sorted(self.ssh(server, "virsh", "-q", "-c", "lxc:///", "list", "--name").split())

    def defined(self, server: str) -> list[str]:
        """The containers that are defined on a server."""
        return sorted(self.ssh(server, "virsh", "-q", "-c", "lxc:///", "list", "--all", "--name").split())


def assert_output(output: str, pattern: str) -> re.Match[str]:
    """Return the match of a pattern in the output of a play; fails without one."""
    found = re.search(pattern, output)
    assert found, f"{pattern!r} is not in:\n{output[-3000:]}"
    return found


def moved_vm(lab: AddServerLab) -> str:
    """The controller that runs on the new server."""
    [name] = lab.running("metal3")
    return name


def promises_kept(lab: AddServerLab) -> None:
    """Every row that was acknowledged is on every member."""
    promised = lab.acknowledged()
    assert len(promised) > 100
    for name in CONTROLLERS:
        address = lab.address(name)
        eventually(f"{name} has all rows", lambda address=address: not promised - lab.rows_of(address), 60)


def one_of_each(lab: AddServerLab) -> None:
    """Check that no controller runs twice or is defined on a server where it does not run."""
    running = sorted(name for server in SERVERS for name in lab.running(server))
    defined = sorted(name for server in SERVERS for name in lab.defined(server))
    assert running == defined == CONTROLLERS


def kill_worker(lab: AddServerLab, server: str) -> None:
    """Kill the unit that moves a VM with ``kill -9``, and stop it so that systemd does not restart it."""
    for line in lab.ssh(server, "systemctl", "list-units", "--plain", "--no-legend", "'reduced-footprint-move-*'").splitlines():
        unit = line.split()[0]
        lab.ssh(server, "systemctl", "kill", "--signal=KILL", unit, check=False)
        lab.ssh(server, "systemctl", "stop", unit, check=False)
