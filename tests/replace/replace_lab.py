# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three servers with a controller each, which are replaced while a client writes."""

from __future__ import annotations

import typing as t

import yaml
from add_server_lab import CONTROLLERS, AddServerLab
from rflab.plays import REPOSITORY
from support import eventually

LOGS = REPOSITORY / "tests" / "output" / "replace"
HOMES = {"controller1": "metal1", "controller2": "metal3", "controller3": "metal2"}


class ReplaceLab(AddServerLab):
    """The lab with a controller on each of three servers, RabbitMQ among their services."""

    homes = HOMES

    def __init__(self) -> None:
        super().__init__()
        self.inventory_path = self.state / "replace-inventory"

    def write_inventory(self, servers: int = 3, placement: t.Mapping[str, str] | None = None) -> None:
        """Write the inventory; ``placement`` changes the servers of controllers."""
        super().write_inventory(servers, {**HOMES, **(placement or {})})
        nodes = self.inventory_path / "nodes.yml"
        content = yaml.safe_load(nodes.read_text(encoding="utf-8"))
        for vm in [vm for entry in content["servers"].values() for vm in entry.get("vms") or [] if vm["id"] in CONTROLLERS]:
            # RabbitMQ needs more than the lab's controllers have
            vm["ram"] = 2
        nodes.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        group = self.inventory_path / "group_vars" / "all.yml"
        variables = yaml.safe_load(group.read_text(encoding="utf-8"))
        variables["footprint_components"] = sorted({*variables.get("footprint_components", ()), "galera", "load_balancer", "rabbitmq"})
        variables["address_guard_groups"] = ["controller"]
        group.write_text(yaml.safe_dump(variables, sort_keys=False), encoding="utf-8")

    def place(self, name: str, server: str) -> None:
        """Move the entry of a controller in the inventory to another server, as the report says."""
        nodes = self.inventory_path / "nodes.yml"
        content = yaml.safe_load(nodes.read_text(encoding="utf-8"))
        for entry in content["servers"].values():
            for vm in [vm for vm in entry.get("vms") or [] if vm["id"] == name]:
                entry["vms"].remove(vm)
                content["servers"][server]["vms"].append(vm)
        nodes.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    def started(self, name: str) -> str:
        """Return when a controller was started."""
        return self.ssh(self.address(name), "stat -c %Y /proc/1").strip()

    def come_back(self, server: str) -> None:
        """Power a server on."""
        self.command("start", server)
        eventually(f"{server} has its VMs", lambda: bool(self.defined(server)), 120)
        eventually(f"libvirt has tried to start them on {server}", lambda: "runs on another server" in self.journal(server), 60)

    def journal(self, server: str) -> str:
        """The messages of libvirt since the boot of a server."""
        return self.ssh(server, "journalctl -b -u libvirtd -u virtlxcd -o cat --no-pager", check=False)

    def destroy_disk(self, name: str, server: str) -> None:
        """Cut the power of a controller, and destroy what is on its disk."""
        self.ssh(server, "virsh", "-q", "-c", "lxc:///", "destroy", name, check=False)
        self.ssh(server, f"find /var/lib/libvirt/images/{name}-disk0 -mindepth 1 -delete")

    def brokers(self, name: str) -> list[str]:
        """The running nodes of RabbitMQ, as one of them reports them."""
        text = self.ssh(self.address(name), "rabbitmqctl", "-q", "cluster_status", "--formatter", "json")
        found: list[str] = yaml.safe_load(text)["running_nodes"]
        return sorted(found)

    def whole(self) -> None:
        """Check that every controller serves: database, broker and virtual address."""
        report = self.status()
        assert (report["ok"], report["ha_grade"]) == (True, "quorum"), report["lines"]
        assert len(report["database_members"]) == 3
        for name in CONTROLLERS:
            assert self.brokers(name) == [f"rabbit@{one}" for one in CONTROLLERS]
