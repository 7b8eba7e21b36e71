# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three controllers on metal: the lab's servers are the members, no virtual machine is needed."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import time
import typing as t

import yaml
from capture import Capture
from rflab.plays import REPOSITORY, PlayRun, environment, play
from rflab.settings import current
from support import Lab, eventually, sql

LOGS = REPOSITORY / "tests" / "output" / "controllers" / current().title
SERVERS = ("metal1", "metal2", "metal3")
EVENTS = "CREATE TABLE IF NOT EXISTS footprint.events (n BIGINT PRIMARY KEY, at DATETIME(6) NOT NULL) ENGINE=InnoDB"

#: Variables of a controller that create the account of the tests' writer.
WRITER_PASSWORD = "{{ lookup('ansible.builtin.file', inventory_dir ~ '/../writer-password') }}"


def notes(report: str) -> t.Callable[..., None]:
    """Return a function that records figures for a report, with the load of this machine."""

    def note(what: str, **figures: t.Any) -> None:
        path = LOGS / f"{report}.json"
        LOGS.mkdir(parents=True, exist_ok=True)
        there = json.loads(path.read_text("utf-8")) if path.exists() else {}
        figures["load"] = os.getloadavg()[0]
        path.write_text(json.dumps({**there, what: figures}, indent=2) + "\n", "utf-8")
        print(json.dumps({what: figures}, indent=2))

    return note


class ControllersLab(Lab):
    """The lab with a separate inventory: metal1 to metal3 are the group ``controller``.

    :ivar inventory_path: the folder of the inventory; ``write_inventory`` writes it again.
    :ivar virtual_address: free, in the lab's network.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inventory_path = self.state / "controllers-inventory"
        self.addresses = {name: self.settings.machine(name).address for name in SERVERS}

    # the inventory ------------------------------------------------------------------------------------------------------

    def write_inventory(
        self,
        variables: t.Mapping[str, t.Any] | None = None,
        groups: t.Mapping[str, t.Sequence[str]] | None = None,
        hosts: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
    ) -> pathlib.Path:
        """Write the inventory.

        :arg variables: for all hosts, over those of the lab. A value of ``None`` takes the lab's away.
        :arg groups: group → hosts, where it is not ``controller`` with all three.
        :arg hosts: host → variables, over ``ansible_host``.
        """
        groups = groups or {"controller": SERVERS}
        # the secrets that plays made stay, as an operator's would
        for path in [self.inventory_path / "hosts.yml", self.inventory_path / "group_vars"]:
            shutil.rmtree(path, ignore_errors=True)
        (self.inventory_path / "group_vars").mkdir(parents=True, exist_ok=True)
        lab = yaml.safe_load((self.state / "inventory" / "group_vars" / "all.yml").read_text(encoding="utf-8"))
        merged = {
            **{key: value for key, value in lab.items() if key.startswith(("ansible_", "expert_"))},
            "footprint_cluster": "lab",
            "load_balancer_virtual_address": self.virtual_address,
            # the tests' own clients: of the broker on the laptop, of each keystone here
            "rabbitmq_allowed": [self.master],
            "keystone_allowed": [f"{self.net}.1"],
            "galera_databases": ["app", "footprint"],
            "galera_users": [
                *[user for user in lab["galera_users"] if user["name"] == "app"],
                {"name": "writer", "password": WRITER_PASSWORD, "privileges": {"footprint.*": "ALL"}},
            ],
            **(variables or {}),
        }
        kept = {key: value for key, value in merged.items() if value is not None}
        (self.inventory_path / "group_vars" / "all.yml").write_text(yaml.safe_dump(kept, sort_keys=False), encoding="utf-8")
        names = sorted({name for members in groups.values() for name in members})
        content = {
            "all": {
                "hosts": {name: {"ansible_host": self.addresses.get(name), **(hosts or {}).get(name, {})} for name in names},
                "children": {group: {"hosts": {name: {} for name in members}} for group, members in groups.items()},
            }
        }
        (self.inventory_path / "hosts.yml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return self.inventory_path

    # plays --------------------------------------------------------------------------------------------------------------

    def play(
        self,
        name: str | t.Sequence[t.Mapping[str, t.Any]],
        *arguments: str,
        variables: t.Mapping[str, t.Any] | None = None,
        limit: str | None = None,
        check: bool = False,
        **options: t.Any,
    ) -> PlayRun:
        """Run a playbook of the collection, a file, or plays written as data; the output is kept under tests/output/controllers/LAB.

        :arg name: ``deploy_controllers``, ``/some/where.yml`` or ``[{"hosts": "controller", "roles": [...]}]``.
        :arg variables: extra variables; they travel in a file that only the owner may read.
        :arg check: check mode with the differences shown.
        """
        self._plays += 1
        LOGS.mkdir(parents=True, exist_ok=True)
        title = name if isinstance(name, str) else "inline"
        log = LOGS / f"{self._plays:03d}-{title.rpartition('/')[2].removesuffix('.yml')}.log"
        if not isinstance(name, str):
            path = self.inventory_path / f"inline-{os.getpid()}.playbook"
            path.write_text(yaml.safe_dump([dict(entry) for entry in name], sort_keys=False), encoding="utf-8")
            playbook = str(path)
        else:
            playbook = name if name.endswith(".yml") else f"reduced.footprint.{name}"
        words = list(arguments)
        if variables:
            given = self.inventory_path / f"given-{os.getpid()}.variables"
            given.touch(mode=0o600)
            given.write_text(json.dumps(dict(variables)), encoding="utf-8")
            words += ["--extra-vars", f"@{given}"]
        words += ["--limit", limit] if limit else []
        words += ["--check", "--diff"] if check else []
        return play(playbook, *words, inventory=self.inventory_path / "hosts.yml", log=log, **options)

    def role(self, name: str, hosts: str = "controller", **options: t.Any) -> PlayRun:
        """Run one role of the collection on hosts."""
        return self.play([{"hosts": hosts, "gather_facts": False, "roles": [{"role": f"reduced.footprint.{name}"}]}], **options)

    def role_succeeds(self, name: str, hosts: str = "controller", **options: t.Any) -> PlayRun:
        """Run one role, which has to succeed."""
        done = self.role(name, hosts, **options)
        assert done.rc == 0, f"role {name} failed:\n{done.output[-6000:]}"
        return done

    # machines -----------------------------------------------------------------------------------------------------------

    def run(self, host: str, argv: t.Sequence[str], check: bool = True, stdin: str = "") -> str:
        """Run one command with its arguments on a machine, and return what it printed."""
        return self.ssh(host, shlex.join(argv), check=check, stdin=stdin)

    def answers(self, host: str, argv: t.Sequence[str]) -> bool:
        """Whether a command on a machine ends with success."""
        command = [str(REPOSITORY / "lab" / "lab"), "ssh", host, shlex.join(argv)]
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0

    def lose_power(self, *hosts: str) -> None:
        """Power loss, of all of them at the same time."""
        running = [subprocess.Popen([str(REPOSITORY / "lab" / "lab"), "kill", host], stdout=subprocess.DEVNULL) for host in hosts]
        codes = [one.wait(timeout=60) for one in running]
        assert not any(codes), f"power loss of {hosts}: {codes}"

    def power_on(self, *hosts: str, seconds: float = 90) -> None:
        """Power on, and wait until ssh answers."""
        for host in hosts:
            self.command("start", host)
        for host in hosts:
            eventually(f"{host} answers", lambda host=host: self.answers(host, ["true"]), seconds)

    def capture(self, canary: str) -> Capture:
        """Listen on the wires of all servers and the laptop while it is entered."""
        return Capture([self.settings.host_nic(name) for name in (*SERVERS, "laptop")], canary.encode("ascii"))

    def holder(self) -> str | None:
        """Who holds the virtual address."""
        for name in SERVERS:
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
                if f"inet {self.virtual_address}/" in self.run(name, ["ip", "-4", "-o", "address", "show"]):
                    return name
        return None

    def inventory(self) -> dict[str, t.Any]:
        """The inventory with all host variables."""
        command = [str(REPOSITORY / ".venv" / "bin" / "ansible-inventory"), "-i", str(self.inventory_path / "hosts.yml"), "--list"]
        done = subprocess.run(command, env=environment(), capture_output=True, encoding="utf-8", check=True)
        return json.loads(done.stdout, object_hook=lambda value: value.get("__ansible_unsafe", value))

    # a client that writes -----------------------------------------------------------------------------------------------

    def writer_sql(self, statement: str, host: str | None = None) -> list[tuple[t.Any, ...]]:
        """One statement through the virtual address with the writer's account."""
        password = (self.state / "writer-password").read_text(encoding="utf-8").strip()
        return sql(statement, host=host or self.virtual_address, user="writer", password=password, database="footprint")

    def start_writing(self) -> None:
        """Rows through the virtual address from now on; a log of an earlier run is put away."""
        self.stop_writing()
        (self.state / "writer.jsonl").unlink(missing_ok=True)
        eventually("the virtual address answers", lambda: self.writer_sql(EVENTS) == [], 60)
        self.writer_sql("DELETE FROM footprint.events")
        self.command("writer", "start", self.virtual_address)
        eventually("rows are written", lambda: len(self.acknowledged()) > 5, 60)

    def stop_writing(self) -> None:
        """No more rows."""
        subprocess.run([str(REPOSITORY / "lab" / "lab"), "writer", "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def written(self) -> dict[str, t.Any]:
        """What became of the rows, asked at the virtual address: rows_lost, largest_gap_seconds and more."""
        return json.loads(self.command("writer", "report", self.virtual_address))

    def acknowledged(self) -> dict[int, float]:
        """The rows the writer was promised so far, and when."""
        found = {}
        path = self.state / "writer.jsonl"
        for line in path.read_text(encoding="ascii").splitlines() if path.exists() else ():
            with contextlib.suppress(ValueError):  # the line being written right now
                entry = json.loads(line)
                found[entry["n"]] = entry["t"]
        return found

    def writing(self, seconds: float = 2) -> bool:
        """Whether rows are being acknowledged now."""
        before = len(self.acknowledged())
        time.sleep(seconds)
        return len(self.acknowledged()) > before

    def rows_of(self, host: str) -> set[int]:
        """The rows one member itself has."""
        text = self.run(host, ["mariadb", "--batch", "--skip-column-names", "--execute", "SELECT n FROM footprint.events"])
        return {int(line) for line in text.split()}

    def promises_kept(self, hosts: t.Sequence[str] = SERVERS, least: int = 20) -> int:
        """Every row that was acknowledged is on every member; returns how many rows that are."""
        promised = set(self.acknowledged())
        assert len(promised) >= least, f"only {len(promised)} rows were acknowledged"
        for host in hosts:
            eventually(f"{host} has all rows", lambda host=host: not promised - self.rows_of(host), 60)
        return len(promised)
