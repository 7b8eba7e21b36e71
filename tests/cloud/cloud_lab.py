# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cloud on the lab's own servers, which run Debian 13."""

from __future__ import annotations

import typing as t

from controllers_lab import SERVERS, ControllersLab
from rflab import tunnels
from rflab.plays import PlayRun

OVN = "/etc/reduced.footprint/ovn"
DATABASES = {"nb": "OVN_Northbound", "sb": "OVN_Southbound"}
PORTS = {"nb": 6641, "sb": 6642}
#: A controller, and a compute server whose bridge to the admin network is the uplink of the provider network.
SERVICES, COMPUTE = "metal1", "metal2"
GROUPS = {"controller": [SERVICES], "virt": [COMPUTE], "compute": [COMPUTE]}
CLOUD = {
    "footprint_cloud": True,
    "footprint_components": None,
    "virt_host_bridges": [{"name": "br-admin", "ports": ["eno1"]}],
    # the simulated servers cannot create control groups for QEMU
    "virt_host_qemu_conf": {"cgroup_controllers": []},
    "ovn_chassis_bridge_mappings": {"provider": "br-ex"},
    "ovn_chassis_uplinks": {"br-ex": "br-admin"},
}


class CloudLab(ControllersLab):
    """The lab with groups of a cloud."""

    def succeeds(self, name: str | t.Sequence[t.Mapping[str, t.Any]], **options: t.Any) -> PlayRun:
        """Run a playbook, which has to succeed."""
        done = self.play(name, **options)
        assert done.rc == 0, f"{name} failed:\n{done.output[-6000:]}"
        return done

    def deploy(self, nics: t.Mapping[str, str], reuse: bool, again: t.Sequence[str]) -> None:
        """Deploy servers with instances and controllers, unless the lab is reused, then run playbooks again, which must change nothing."""
        if not reuse:
            self.succeeds("provision_virt")
            self.set_tunnels(nics)
            self.succeeds("deploy_controllers")
            self.succeeds("provision_compute")
        self.set_tunnels(nics)
        for name in again:
            done = self.succeeds(name)
            assert done.changed == 0, done.changed_tasks()

    # tunnels ------------------------------------------------------------------------------------------------------------

    @staticmethod
    def tunnel_addresses(nics: t.Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Variables of the inventory for tunnels in a network of their own: host → variables.

        :arg nics: host → the NIC or bridge of the network.
        """
        return {host: tunnels.variables(number) for number, host in enumerate(sorted(nics), 1)}

    def set_tunnels(self, nics: t.Mapping[str, str]) -> None:
        """Set the addresses of tunnels, on Open vSwitch where it is running, also after each start of a machine."""
        for host, variables in self.tunnel_addresses(nics).items():
            tunnels.place(nics[host], variables["ovn_chassis_address"], lambda argv, stdin="", host=host: self.run(host, argv, stdin=stdin))

    # OVN ----------------------------------------------------------------------------------------------------------------

    def cluster(self, host: str, short: str) -> dict[str, str]:
        """The fields of ``cluster/status`` of a database on a member, and its number of servers."""
        text = self.run(host, ["ovn-appctl", "--timeout=5", "-t", f"/run/ovn/ovn{short}_db.ctl", "cluster/status", DATABASES[short]], check=False)
        fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line and not line.startswith(" "))
        return {**fields, "servers": str(sum(1 for line in text.splitlines() if " at ssl:" in line))}

    def leader(self, short: str, hosts: t.Sequence[str] = SERVERS) -> str:
        """The member that leads a database."""
        return next((host for host in hosts if self.cluster(host, short).get("Role") == "leader"), "")

    def remotes(self, short: str, hosts: t.Sequence[str] = SERVERS) -> str:
        """The addresses of the members for clients."""
        return ",".join(f"ssl:{self.addresses[host]}:{PORTS[short]}" for host in hosts)

    def nbctl(self, host: str, *words: str, check: bool = True, directory: str = OVN) -> str:
        """Run a command of a client of the Northbound database that follows its leader."""
        keys = ["-p", f"{directory}/key.pem", "-c", f"{directory}/certificate.pem", "-C", f"{directory}/ca.pem"]
        return self.run(host, ["ovn-nbctl", "--timeout=3", f"--db={self.remotes('nb')}", *keys, *words], check=check)
