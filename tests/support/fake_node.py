# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fake of the host that becomes a node."""

from __future__ import annotations

import json

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import HostFacts, HypervisorProof, PoolCapacity
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import NETWORK, FoundNetwork, made_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_pool_mounts import unmounted

GIB = 1024**3


class FakeHost:
    """libvirt with pools as a mapping name → [path, active, autostart]."""

    def __init__(self, backend):
        self.backend = backend

    def __enter__(self):
        if not self.backend.libvirt_answers:
            raise BackendError("libvirt does not answer.")
        return self

    def __exit__(self, *unused):
        pass

    def pool(self, name):
        if name not in self.backend.pools:
            return None
        path, active, autostart = self.backend.pools[name]
        kind, source = ("logical", path[5:]) if path.startswith("/dev/") else ("dir", None)
        size, free = (100 * GIB, self.backend.free) if active else (0, 0)
        return PoolCapacity(name, path, size, free, {}, kind, source, size - free), active, autostart

    def make_pool(self, name, path, source=None):
        self.backend.pools[name] = [path or f"/dev/{source}", True, True]

    def networks(self):
        return list(self.backend.networks.values())

    def make_network(self, name, bridge):
        self.backend.networks[name] = FoundNetwork(name, made_uuid(NETWORK, name), "bridge", bridge, True, True)

    def load_of_others(self, known):
        self.backend.known = known
        return self.backend.others


class FakeMounts:
    """The mount points of pools, and the records of them."""

    def __init__(self):
        self.points = {}
        self.records = {}

    def point(self, path):
        return self.points.get(path)

    def recorded(self, path):
        return self.records.get(path)

    def missing(self, path):
        return self.records.get(path) if self.records.get(path) != self.points.get(path) else None

    def check(self, name, path, where):
        if self.missing(path):
            raise unmounted(name, path, self.missing(path), where)

    def remember(self, path):
        if self.points.get(path) and self.records.get(path, "") is not None:
            self.records[path] = self.points[path]

    def declare(self, path, needed):
        self.records[path] = self.points.get(path) if needed else None


class FakeBackend:
    """A host that records its changes."""

    def __init__(self):
        self.mounts = FakeMounts()
        self.libvirt_answers = True
        self.pools = {}
        self.networks = {}
        self.groups = {}
        self.free = 50 * GIB
        self.others = (0, 0)
        self.bridges_there = {"br-admin"}
        self.usable = {"kvm": False, "qemu": True, "lxc": True}
        self.text = ""
        self.kvm_device = False
        self.proved = []
        self.seconds = 1.0

    def measure(self):
        return HostFacts(8192, 4, "x86_64", "6.1", "CPU", "0x1", "7.2")

    def read_recorded(self, path):
        return self.text, json.loads(self.text) if self.text else {}

    def record(self, path, text):
        self.text = text

    def free_bytes(self, path):
        return 100 * GIB, self.free

    def proof_key(self, kind, facts):
        return f"{kind}|{facts.kernel}"

    def volume_group(self, name):
        return self.groups.get(name)

    def kvm_seen(self):
        return self.kvm_device

    def prove(self, kind, facts, timeout, uri):
        self.proved.append(kind)
        self.seconds += 0.5
        usable = self.usable[kind]
        return HypervisorProof(kind, usable, "ran" if usable else "hung after 15 s", self.seconds, self.proof_key(kind, facts))

    def bridges(self):
        return self.bridges_there

    def libvirt(self, uri):
        return FakeHost(self)
