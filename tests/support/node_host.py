# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server with libvirt in memory, for the use cases about nodes; the real one is in the integration target virt_node."""

from __future__ import annotations

import json

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import HostFacts, PoolCapacity
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import NETWORK, POOL, FoundNetwork, made_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainRecord, DriverMissing
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import DefineResult, VmResult
from tests.support.fake_node import FakeMounts

QEMU, LXC = "qemu:///system", "lxc:///system"
GIB = 1024**3


def record(name, cluster="lab", *, state="running", protected=False, disk=None, network="default", autostart=True):
    """Return the record of a domain; without a cluster it is unmanaged."""
    ours = "" if cluster is None else (
        f"<metadata><f:vm xmlns:f='https://reduced.footprint/xmlns/domain/1' cluster='{cluster}' id='{name}' "
        f"protected='{'yes' if protected else 'no'}' origin='vm_define'><f:applied/></f:vm></metadata>"
    )
    disk = f"<disk type='file' device='disk'><source file='{disk}'/><target dev='vda'/></disk>" if disk else ""
    nic = f"<interface type='network'><source network='{network}'/></interface>"
    xml = (
        f"<domain type='qemu'><name>{name}</name><uuid>uuid-{name}</uuid>{ours}<memory unit='MiB'>1024</memory><vcpu>2</vcpu>"
        f"<devices>{disk}{nic}</devices></domain>"
    )
    return DomainRecord(name, f"uuid-{name}", state, autostart, True, xml, None if state == "shutdown" else xml)


class Host:
    """A host that records its changes and can be interrupted after any step."""

    def __init__(self):
        self.records = {QEMU: [], LXC: []}
        self.pool_list = {}
        self.network_list = {}
        self.text = json.dumps({"attributes": {"name": "metal1", "cluster": "lab", "roles": ["virt"], "vms": [{"id": "c1", "roles": ["controller"]}]}})
        self.answers = True
        self.silent: set[str] = set()
        self.done = []
        self.dies_after = None
        self.notes = {}
        self.mounts = FakeMounts()
        self.journals = {}
        self.errors = {}

    def add_pool(self, name, path, ours=True, volumes=0, kind="dir"):
        uuid = made_uuid(POOL, name) if ours else "0"
        self.pool_list[uuid] = PoolCapacity(name, path, 10 * GIB, 5 * GIB, {f"v{n}": (GIB, 0) for n in range(volumes)}, kind, uuid=uuid)

    def add_network(self, name, ours=True):
        uuid = made_uuid(NETWORK, name) if ours else "0"
        self.network_list[uuid] = FoundNetwork(name, uuid, "bridge", "br-admin", True, True)

    def step(self, what):
        if self.dies_after is not None and len(self.done) >= self.dies_after:
            raise KeyboardInterrupt(what)
        self.done.append(what)

    # the backends of the use cases
    def measure(self):
        return HostFacts(8192, 4, "x86_64", "6.1", "CPU", "0x1", "7.2")

    def read_recorded(self, path):
        return self.text, json.loads(self.text) if self.text else {}

    def bridges(self):
        return {"br-admin"}

    def proof_key(self, kind, facts):
        return f"{kind}|{facts.kernel}"

    def moved(self):
        return self.notes

    def migrations(self):
        return self.journals

    def forget(self, path):
        self.step("forget")
        self.text = ""

    def libvirt(self, uri):
        return _Connection(self, uri)

    domains = libvirt

    def define(self, request, *, check_mode):
        """Act as vm_define with state: absent; vm_define has separate tests."""
        assert request.state == "absent"
        results = []
        for vm in request.vms:
            actions = ["shutdown", *(["remove_volume default/disk"] if request.remove_disks else []), "undefine"]
            result = VmResult(vm["id"], vm["id"], "u", [], actions=actions, error=self.errors.get(vm["id"]))
            if not check_mode and not result.error:
                self.step(f"remove {vm['id']}{' with disks' if request.remove_disks else ''}")
                self.records[request.uri] = [one for one in self.records[request.uri] if one.name != vm["id"]]
            results.append(result)
        return DefineResult(results, [], [{"before": "there", "after": ""}], [])


class _Connection:
    def __init__(self, host, uri):
        self.host, self.uri = host, uri

    def __enter__(self):
        if not self.host.answers or self.uri in self.host.silent:
            raise BackendError("libvirt does not answer.")
        if self.uri not in self.host.records:
            raise DriverMissing("this driver does not exist.")
        return self

    def __exit__(self, *unused):
        pass

    def domains(self):
        return self.host.records[self.uri]

    def pools(self):
        return [(pool, True, True) for pool in self.host.pool_list.values()]

    def networks(self):
        return list(self.host.network_list.values())

    def set_autostart(self, uuid, wanted):
        self.host.step(f"autostart {uuid} {wanted}")
        self.host.records[self.uri] = [
            record(one.name, autostart=False) if one.uuid == uuid else one for one in self.host.records[self.uri]
        ]

    def remove_pool(self, name, uuid):
        self.host.step(f"pool {name}")
        del self.host.pool_list[uuid]

    def remove_network(self, name, uuid):
        self.host.step(f"network {name}")
        del self.host.network_list[uuid]
