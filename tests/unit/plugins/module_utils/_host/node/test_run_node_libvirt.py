# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's whole life against libvirt's own test driver, with the code that really speaks to libvirt.

The driver's domains, pools and networks are made up and end with the process; it starts a logical pool without LVM.
"""

from __future__ import annotations


import libvirt
import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_info import read_node
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_node import NodeBackend, NodeRequest, prepare_node
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.run_removal import RemovalBackend, RemovalRequest, remove_node

URI = "test:///default"
# a driver that is not there, as on a host without containers
NO_CONTAINERS = "test:///nowhere"


class Here(NodeBackend):
    """The real one, but for what this machine may not have."""

    bridges = staticmethod(lambda: {"br-admin"})
    volume_group = staticmethod({"vg0": (10, 5)}.get)


class Leaving(RemovalBackend):
    """The real one, on a host that nothing was migrated to or moved away from."""

    migrations = staticmethod(dict)
    moved = staticmethod(dict)


class Looking(NodeBackend):
    """The real one, on such a host."""

    moved = staticmethod(dict)


@pytest.fixture
def connection():
    # the state of the test driver exists while a connection is open
    opened = libvirt.open(URI)
    yield opened
    opened.close()


def add(connection, name, cluster, protected, disk):
    namespace = "https://reduced.footprint/xmlns/domain/1"
    ours = f"<f:vm xmlns:f='{namespace}' cluster='{cluster}' id='{name}' protected='{protected}' origin='vm_define'><f:applied/></f:vm>"
    domain = connection.defineXML(
        f"<domain type='test'><name>{name}</name><metadata>{ours}</metadata><memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type>hvm</type></os>"
        f"<devices><disk type='file' device='disk'><source file='{disk}'/><target dev='vda'/></disk></devices></domain>"
    )
    domain.create()
    domain.setAutostart(1)


def test_a_node_comes_and_goes(connection, tmp_path):
    facts = tmp_path / "node.fact"
    request = NodeRequest(
        name="metal1",
        cluster="lab",
        roles=["virt"],
        vms=[],
        hypervisors=[],
        pool="first",
        pool_path=str(tmp_path / "first"),
        pools=[{"name": "second", "path": str(tmp_path / "second")}, {"name": "fast", "source": "vg0"}, {"name": "default-pool"}],
        networks=[{"bridge": "br-admin"}],
        uri=URI,
        container_uri=NO_CONTAINERS,
        facts_file=str(facts),
    )
    made = ["define pool first", "define pool second", "define pool fast", "define network br-admin", "record"]
    assert prepare_node(request, check_mode=True, backend=Here())["actions"] == made and not facts.exists()
    assert prepare_node(request, check_mode=False, backend=Here())["actions"] == made
    assert prepare_node(request, check_mode=False, backend=Here())["actions"] == []

    add(connection, "c1", "lab", "no", tmp_path / "second/c1.img")
    add(connection, "kept", "lab", "yes", tmp_path / "first/kept.img")
    add(connection, "theirs", "other", "no", "/elsewhere/theirs.img")
    node, warnings = read_node(URI, NO_CONTAINERS, str(facts), backend=Looking())
    assert warnings == [] and {name for name, pool in node["pools"].items() if pool["ours"]} == {"first", "second", "fast"}
    assert [(vm["name"], vm["owner"]) for vm in node["vms"]] == [
        ("c1", "cluster lab"),
        ("kept", "cluster lab"),
        # the driver is born with it
        ("test", "unmanaged"),
        ("theirs", "cluster other"),
    ]

    removal = RemovalRequest(name="metal1", cluster="lab", roles=["virt"], uri=URI, container_uri=NO_CONTAINERS, facts_file=str(facts), remove_vms=True)
    assert remove_node(removal, check_mode=False, backend=Leaving()).refusal.path == "confirm"
    removal = removal._replace(confirm="metal1")
    foreseen = remove_node(removal, check_mode=True, backend=Leaving())
    assert facts.exists() and len(connection.listAllDomains()) == 4
    real = remove_node(removal, check_mode=False, backend=Leaving())
    gone = ["shutdown c1", "undefine c1", "remove network br-admin", "remove pool fast", "remove pool second", "remove record"]
    assert real.refusal is None and foreseen.actions == real.actions == gone
    assert sorted(domain.name() for domain in connection.listAllDomains()) == ["kept", "test", "theirs"]
    assert all(domain.isActive() for domain in connection.listAllDomains())
    assert sorted(pool.name() for pool in connection.listAllStoragePools()) == ["default-pool", "first"]
    assert [network.name() for network in connection.listAllNetworks()] == ["default"]
    assert not facts.exists()
    assert remove_node(removal._replace(confirm=None), check_mode=False, backend=Leaving()).actions == []


def test_without_remove_vms_they_run_on_and_do_not_come_back(connection, tmp_path):
    add(connection, "c1", "lab", "no", "/any/c1.img")
    removal = RemovalRequest(
        name="metal1", cluster="lab", confirm="metal1", uri=URI, container_uri=NO_CONTAINERS, facts_file=str(tmp_path / "node.fact")
    )
    assert remove_node(removal, check_mode=False, backend=Leaving()).actions == ["autostart_off c1"]
    domain = connection.lookupByName("c1")
    assert domain.isActive() and not domain.autostart()
    assert remove_node(removal, check_mode=False, backend=Leaving()).actions == []
