# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of a cloud on two or three servers and a laptop: a controller VM on each server, which is also a compute server.

The laptop is the master first. After its migration into a VM it is the witness, with another name and its temporary address.
"""

from __future__ import annotations

import pathlib
import typing as t

import yaml

from . import tunnels
from .settings import Lab

SERVERS = ("metal1", "metal2")
# The server that joins later.
THIRD = "metal3"
# The number of each machine's tunnels.
TUNNELS = {"metal1": 1, "metal2": 2, "witness1": 3, "metal3": 4}
# A name for the laptop that is not the master any more.
WITNESS = "witness1"
# The server that the master's VM moves to, and the one that has its copy.
HOME, STANDBY = SERVERS
MASTER = "master"
FILES = "{{ inventory_dir }}/.images/test"
CONTROLLER = {
    "cpu": 2,
    "ram": 4,
    "hypervisor": "lxc",
    "roles": ["controller"],
    "nics": [{"bridge": "br-admin"}],
    "disks": [{"size": "8GiB", "image": "debian-root"}],
}


def resources(lab: Lab) -> dict[str, t.Any]:
    """Return the lists of cloud_bootstrap: what a tenant needs for an instance that is reached from outside."""
    pool = [f"{lab.net}.200", f"{lab.net}.219"]
    boot = {"kernel": "test-kernel", "ramdisk": "test-ramdisk", "properties": {"os_command_line": "console=ttyS0 quiet", "hw_rng_model": "virtio"}}
    return {
        "cloud_bootstrap_flavors": [{"name": "tiny", "vcpus": 1, "ram": "128 MiB", "disk": 1}],
        "cloud_bootstrap_images": [
            {"name": "test-kernel", "file": f"{FILES}.vmlinuz", "disk_format": "aki"},
            {"name": "test-ramdisk", "file": f"{FILES}.initrd", "disk_format": "ari"},
            {"name": "test", "file": f"{FILES}.raw", "disk_format": "raw", "min_ram": "128 MiB", **boot},
        ],
        "cloud_bootstrap_networks": [
            {"name": "public", "type": "flat", "external": True, "subnets": [{"cidr": lab.cidr, "gateway": lab.host_address, "pool": pool}]},
            {"name": "demo", "subnets": [{"cidr": "192.168.10.0/24"}]},
        ],
        "cloud_bootstrap_routers": [{"name": "demo", "external": "public", "subnets": ["demo"]}],
        "cloud_bootstrap_security_groups": [{"name": "demo", "rules": [{"protocol": "tcp", "port": 22}]}],
        "cloud_bootstrap_key_pairs": [{"name": "demo", "public_key": "{{ lookup('ansible.builtin.file', inventory_dir ~ '/../id_ed25519.pub') }}"}],
    }


class Inventory:
    """The lab's inventory, changed to that of the cloud.

    :ivar path: the directory.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.path = lab.state / "inventory"

    def _change(self, name: str, change: t.Callable[[dict[str, t.Any]], None]) -> None:
        path: pathlib.Path = self.path / name
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    def write(self, servers: t.Sequence[str] = SERVERS) -> None:
        """Servers with a controller VM each, of the inventory that ``lab/lab up`` has written; the laptop is the master."""

        def nodes(content: dict[str, t.Any]) -> None:
            for name in set(SERVERS) - set(servers):
                del content["servers"][name]
            for number, name in enumerate(servers, 1):
                server = content["servers"].setdefault(name, {"ansible_host": self.lab.machine(name).address, "roles": ["virt", "compute"]})
                server["vms"] = [{"id": f"controller{number}", **CONTROLLER}]
                server.update(tunnels.variables(TUNNELS[name]))

        def settings(content: dict[str, t.Any]) -> None:
            del content["footprint_components"]
            content.update(
                footprint_cloud=True,
                # a client of the queue in the tests
                rabbitmq_allowed=[self.lab.host_address],
                # instances whose networks have the same bridge as the admin network
                ovn_chassis_bridge_mappings={"provider": "br-ex"},
                ovn_chassis_uplinks={"br-ex": "br-admin"},
                **resources(self.lab),
            )

        self._change("nodes.yml", nodes)
        self._change("group_vars/all.yml", settings)

    def add_witness(self) -> None:
        """The master is in a VM: add the laptop as the witness, and a copy of the VM on the other server."""

        def nodes(content: dict[str, t.Any]) -> None:
            content["servers"][WITNESS] = {"ansible_host": self.lab.temporary_address, "roles": ["witness"], **tunnels.variables(TUNNELS[WITNESS])}
            content["servers"][HOME]["standby_extra"] = [{"id": MASTER, "disks": [{"size": "6GiB"}], "standby": {"server": STANDBY, "interval": 300}}]
            content["servers"][HOME]["standby_witnesses"] = [WITNESS]

        self._change("nodes.yml", nodes)

    def remove(self, name: str) -> None:
        """Forget a machine and its VMs."""
        self._change("nodes.yml", lambda content: content["servers"].pop(name))

    def change(self, name: str, **variables: t.Any) -> None:
        """Set variables of one machine."""
        self._change("nodes.yml", lambda content: content["servers"][name].update(variables))
