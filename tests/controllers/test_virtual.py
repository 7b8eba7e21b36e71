# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two environments on VMs of the same two servers: all services on one VM, and each service on a separate VM."""

from __future__ import annotations

import contextlib
import pathlib
import shlex
import typing as t

import pytest
import yaml
from controllers_lab import LOGS, SERVERS, ControllersLab
from rflab.plays import PlayRun
from support import eventually
from token_client import Client, Refused, read_openrc

pytestmark = [pytest.mark.chapter, pytest.mark.whole]

SERVICES = {"db": "galera", "mq": "rabbitmq", "cache": "memcached", "front": "load_balancer", "ident": "keystone"}
MACHINES = {"metal1": {"one": 2, "mq": 1, "ident": 1}, "metal2": {"db": 1, "cache": 1, "front": 1}}
ALONE, APART = "alone", "apart"


class Virtual:
    """The files of an operator: the servers with their VMs, and a topology for each environment."""

    def __init__(self, lab: ControllersLab) -> None:
        self.lab = lab
        self.addresses = {ALONE: f"{lab.net}.33", APART: f"{lab.net}.34"}
        lab.write_inventory(variables=self._variables(), groups={"rack": SERVERS})
        self.machines = self._write("10-machines", servers={name: {"roles": ["virt"], "vms": self._details(name)} for name in MACHINES},
                                    dhcp_leases=[f"http://{lab.master}:8080/leases"], exclude_addresses=list(self.addresses.values()))  # fmt: skip
        self.topologies = {
            ALONE: self._topology(ALONE, {"one$": {"roles": ["everything"]}}, {"everything": list(SERVICES.values())}, 33),
            APART: self._topology(
                APART, {f"{name}$": {"roles": [f"a-{name}"]} for name in SERVICES}, {f"a-{name}": [service] for name, service in SERVICES.items()}, 34
            ),
        }

    def _variables(self) -> dict[str, t.Any]:
        lab = yaml.safe_load((self.lab.state / "inventory" / "group_vars" / "all.yml").read_text(encoding="utf-8"))
        kept = {key: value for key, value in lab.items() if key.startswith(("virt_host_", "virt_guests_"))}
        return {**kept, "load_balancer_virtual_address": None}

    @staticmethod
    def _details(server: str) -> list[dict[str, t.Any]]:
        common = {"cpu": 1, "hypervisor": "lxc", "nics": [{"bridge": "br-admin"}], "disks": [{"size": "4GiB", "image": "debian-root"}]}
        return [{"id": name, "ram": ram, **common} for name, ram in MACHINES[server].items()]

    def _write(self, name: str, **content: t.Any) -> pathlib.Path:
        path = self.lab.inventory_path / f"{name}.footprint.yml"
        path.write_text(yaml.safe_dump({"plugin": "reduced.footprint.nodes", "cluster": "lab", **content}, sort_keys=False), encoding="utf-8")
        return path

    def _topology(self, name: str, nodes: t.Any, roles: t.Any, router: int) -> pathlib.Path:
        edge = {"load_balancer": {"virtual_address": self.addresses[name], "router_id": router}}
        everywhere = {"load_balancer_virtual_address": self.addresses[name]}
        return self._write(f"20-{name}", environment=name, nodes=nodes, roles=roles, configs={**edge, **everywhere})

    def play(self, playbook: str, environment: str = "", *arguments: str, **options: t.Any) -> PlayRun:
        """Run a playbook for the machines, and for one environment if named."""
        files = [self.machines, *([self.topologies[environment]] if environment else [])]
        return self.lab.play(playbook, *[word for path in files for word in ("-i", str(path))], *arguments, **options)

    def succeeds(self, *arguments: str, **options: t.Any) -> PlayRun:
        """Run a playbook; it must succeed."""
        done = self.play(*arguments, **options)
        assert done.rc == 0, done.output[-6000:]
        return done

    def client(self, environment: str) -> Client:
        """Return a client with the credentials of the operator of an environment."""
        path = self.lab.inventory_path / ".secrets" / environment / f"openrc-{environment}.txt"
        return Client(read_openrc(path.read_text("utf-8")), timeout=20)

    def guests(self) -> dict[str, str]:
        """Map the machines of both servers to their libvirt ids and processes."""
        script = "for name in $(virsh -q -c lxc:/// list --name); do echo $name $(virsh -c lxc:/// domid $name) $(cat /run/libvirt/lxc/$name.pid); done"
        lines = [line.partition(" ") for server in MACHINES for line in self.lab.ssh(server, script).splitlines()]
        return {name: numbers for name, unused, numbers in lines}

    def address(self, name: str) -> str:
        """Return the address of a machine."""
        server = next(server for server, machines in MACHINES.items() if name in machines)
        mac = self.lab.ssh(server, f"virsh -q -c lxc:/// domiflist {shlex.quote(name)}").split()[-1]
        found = [line.split()[2] for line in self.lab.ssh("laptop", "cat /var/lib/misc/dnsmasq.leases").splitlines() if mac in line]
        return found[0]

    def listeners(self, name: str) -> set[int]:
        """Return the ports of the control plane with a listener on a machine."""
        ports = {int(line.split()[3].rpartition(":")[2]) for line in self.lab.ssh(self.address(name), "ss -Hltn").splitlines()}
        return ports & {3306, 5000, 5671, 8404, 11211}


@pytest.fixture(name="virtual", scope="module")
def fixture_virtual(lab: ControllersLab) -> t.Iterator[Virtual]:
    """Two servers with six machines."""
    it = Virtual(lab)
    it.succeeds("provision_virt")
    it.succeeds("spawn_vms")
    yield it
    lab.write_inventory()


@pytest.mark.parametrize("environment", [ALONE, APART])
def test_second_deployment_changes_nothing(virtual: Virtual, environment: str) -> None:
    first = virtual.succeeds("deploy_controllers", environment)
    again = virtual.succeeds("deploy_controllers", environment)
    assert again.changed == 0, again.changed_tasks()
    virtual.succeeds("status", environment)
    token = virtual.client(environment).issue()
    assert virtual.client(environment).validate(token)["user"]["name"] == "admin"
    with (LOGS / "virtual.txt").open("a", encoding="utf-8") as file:
        file.write(f"{environment}: first {first.seconds:.0f} s, again {again.seconds:.0f} s\n")


def test_each_machine_has_only_its_service(virtual: Virtual) -> None:
    assert virtual.listeners("one") == {3306, 5000, 5671, 8404, 11211}
    found = {name: virtual.listeners(name) for name in SERVICES}
    assert found == {"db": {3306}, "mq": {5671}, "cache": {11211}, "front": {3306, 5000, 8404}, "ident": {5000}}


def test_environments_are_independent(virtual: Virtual) -> None:
    token = virtual.client(ALONE).issue()
    with pytest.raises(Refused):
        virtual.client(APART).validate(token, by=virtual.client(APART).issue())


def test_services_are_restarted_without_restarting_machines(virtual: Virtual) -> None:
    before = virtual.guests()
    assert sorted(before) == sorted([*SERVICES, "one"])
    refused = virtual.play("rolling_restart", APART)
    assert refused.rc != 0 and "rolling_restart_accept_outage" in refused.output and refused.changed == 0
    virtual.succeeds("rolling_restart", APART, "-e", "rolling_restart_accept_outage=true")
    for name, unit in {"db": "mariadb", "mq": "rabbitmq-server", "ident": "keystone"}.items():
        virtual.lab.ssh(virtual.address(name), f"systemctl restart {unit}")
    assert virtual.guests() == before
    eventually("identity serves", lambda: serves(virtual, APART), 60)
    assert virtual.succeeds("spawn_vms").changed == 0


def serves(virtual: Virtual, environment: str) -> bool:
    with contextlib.suppress(OSError, Refused):
        return bool(virtual.client(environment).issue())
    return False


def test_rebooted_machines_serve_again(virtual: Virtual) -> None:
    """Includes a database without peers, which must recover without the operator."""
    for name in ("one", "db"):
        virtual.lab.ssh(virtual.address(name), "systemctl reboot", check=False)
    for environment in (ALONE, APART):
        eventually(f"{environment} serves", lambda name=environment: serves(virtual, name), 180)
    assert virtual.succeeds("spawn_vms").changed == 0


def test_one_environment_is_removed_and_the_other_is_kept(virtual: Virtual) -> None:
    virtual.lab.ssh(virtual.address("one"), "systemctl stop keepalived haproxy keystone rabbitmq-server memcached mariadb")
    with pytest.raises((OSError, Refused)):
        virtual.client(ALONE).issue()
    assert virtual.client(APART).issue()
    virtual.succeeds("status", APART)
