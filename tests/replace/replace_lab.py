# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three servers with a controller each, which are replaced while a client writes."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import typing as t

import yaml
from add_server_lab import CONTROLLERS, AddServerLab
from rflab.plays import REPOSITORY
from support import eventually

LOGS = REPOSITORY / "tests" / "output" / "replace"
POOL = "/var/lib/libvirt/images"
COPIES = "/var/lib/reduced.footprint/standby-copies"
NOTES, WEB = "notes", "web"
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

    def change_vms(self, change: t.Callable[[str, list[dict[str, t.Any]]], list[dict[str, t.Any]]]) -> None:
        """Change the VMs of each server in the inventory."""
        nodes = self.inventory_path / "nodes.yml"
        content = yaml.safe_load(nodes.read_text(encoding="utf-8"))
        for server, entry in content["servers"].items():
            if "vms" in entry:
                entry["vms"] = change(server, entry["vms"])
        nodes.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    def add_vms(self, server: str, standby: str) -> None:
        """Create a machine that counts, with copies on a standby, and a container without."""
        binary = LOGS / "counter.img"
        binary.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["nasm", "-f", "bin", "-o", str(binary), str(REPOSITORY / "tests" / "move" / "counter.asm")], check=True)
        # text only goes over this connection
        hexadecimal = binary.read_bytes().hex()
        self.ssh(server, f"mkdir -p {POOL}/images && python3 -c 'import sys; open(sys.argv[1], \"wb\").write(bytes.fromhex(sys.stdin.read()))' "
                 f"{POOL}/images/counter.raw && truncate -s 8M {POOL}/images/counter.raw", stdin=hexadecimal)
        common = {"cpu": 1, "nics": [{"bridge": "br-admin"}]}
        notes = {
            **{"id": NOTES, "ram": "32MiB", "hypervisor": "qemu", "standby": {"server": standby, "interval": 3600}},
            "disks": [{"size": "64MiB", "image": "counter", "format": "raw"}],
        }
        web = {"id": WEB, "ram": "256MiB", "hypervisor": "lxc", "disks": [{"size": "4GiB", "image": "debian-root"}]}
        self.change_vms(lambda name, vms: [*vms, {**common, **notes}, {**common, **web}] if name == server else vms)
        group = self.inventory_path / "group_vars" / "all.yml"
        variables = {**yaml.safe_load(group.read_text(encoding="utf-8")), "virt_guests_allow_emulation": True}
        group.write_text(yaml.safe_dump(variables, sort_keys=False), encoding="utf-8")
        self.succeeds("spawn_vms", "-e", "spawn_vms_wait=false")

    def remove_vm(self, name: str) -> None:
        """Remove a VM from the inventory."""
        self.change_vms(lambda unused, vms: [vm for vm in vms if vm["id"] != name])

    def destroy_server(self, server: str) -> None:
        """Cut the power of a server, and destroy all that it has."""
        (self.state / f"earlier-{server}").write_text(self.ssh(server, "cat", "/etc/machine-id"), encoding="ascii")
        self.command("kill", server)
        home = self.state / server
        with open("/proc/self/mounts", encoding="utf-8") as stream:
            points = [line.split()[1] for line in stream]
        for point in reversed([point for point in points if point.startswith(f"{home}/")]):
            subprocess.run(["umount", point], check=True)
        shutil.rmtree(home)

    def earlier(self, server: str) -> str:
        """The machine-id of a destroyed server."""
        return (self.state / f"earlier-{server}").read_text(encoding="ascii").strip()

    def install_server(self, server: str) -> None:
        """Install another machine with the same name and address; Ansible knows only the ssh host key of the earlier one."""
        known = self.state / "known_hosts"
        before = known.read_text(encoding="ascii")
        self.command("up", "--servers", "3")
        (self.state / "known_hosts-new").write_text(known.read_text(encoding="ascii")[len(before) :], encoding="ascii")
        known.write_text(before, encoding="ascii")

    def host_key(self, server: str) -> tuple[str, ...]:
        """The variables with the ssh host key of a new machine."""
        key = (self.state / server / "root/etc/ssh/ssh_host_ed25519_key.pub").read_text(encoding="ascii").rsplit(" ", 1)[0]
        return ("-e", json.dumps({"replace_server_host_key": key, "replace_server_known_hosts": str(self.state / "known_hosts")}))

    def machines(self, server: str) -> list[str]:
        """The machines, not containers, that are defined on a server."""
        return sorted(self.ssh(server, "virsh", "-q", "list", "--all", "--name").split())

    def copies(self, server: str) -> list[str]:
        """The VMs of which a server has a copy."""
        return sorted({line.split("/")[-3] for line in self.ssh(server, f"ls {COPIES}/*/*/*/copy.json", check=False).split()})

    def number(self, server: str) -> int:
        """How far the counting machine has come."""
        said = self.ssh(server, f"qemu-io -r -U -f raw -c 'read -v 512 8' {POOL}/{NOTES}-disk0*")
        line = next(line for line in said.splitlines() if line.startswith("00000200:"))
        return int(struct.unpack("<II", bytes.fromhex("".join(line.split()[1:9])))[0])

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
