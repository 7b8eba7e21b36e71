# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Against libvirt's own test driver; its state ends with the process."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._host.node.io_libvirt_host import LibvirtHost
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import NETWORK, POOL, made_uuid

URI = "test:///default"


@pytest.fixture
def host():
    with LibvirtHost(URI) as opened:
        yield opened


def test_load_of_unmanaged_guests(host):
    # the driver is born with one running guest of 8 GiB and 2 vCPUs
    assert host.load_of_others(()) == (8192, 2)
    assert host.load_of_others({"6695eb01-f6a4-8304-79aa-97f2502e193f"}) == (0, 0)


def test_no_pool(host):
    assert host.pool("nowhere") is None


def test_a_pool_is_made_once(host, tmp_path):
    path = tmp_path / "images & more"
    host.make_pool("ours", str(path))
    first = host.pool("ours")
    assert path.is_dir() and path.stat().st_mode & 0o777 == 0o711
    host.make_pool("ours", str(path))
    assert host.pool("ours") == first
    pool, active, autostart = first
    assert (pool.name, pool.path, active, autostart) == ("ours", str(path), True, True)


def test_a_half_made_pool_is_completed(host, tmp_path):
    xml = f"<pool type='dir'><name>half</name><target><path>{tmp_path}</path></target></pool>"
    host.connection.storagePoolDefineXML(xml, 0)
    pool, active, autostart = host.pool("half")
    assert (pool.capacity, active, autostart) == (0, False, False)
    host.make_pool("half", str(tmp_path))
    assert host.pool("half")[1:] == (True, True)


def test_volumes_are_counted(host):
    xml = "<volume><name>disk</name><capacity unit='KiB'>64</capacity><allocation unit='KiB'>16</allocation></volume>"
    host.connection.storagePoolLookupByName("default-pool").createXML(xml, 0)
    assert host.pool("default-pool")[0].volumes["disk"] == (64 * 1024, 16 * 1024)


def test_a_pool_we_made_is_known_as_ours_and_goes_again(host, tmp_path):
    path = tmp_path / "pool"
    host.make_pool("ours", str(path))
    (path / "disk").write_text("data")
    pool = host.pool("ours")[0]
    assert pool.uuid == made_uuid(POOL, "ours") and pool.type == "dir"
    assert [one[0].name for one in host.pools()] == ["default-pool", "ours"]
    # a pool of that name with another UUID is unmanaged
    host.remove_pool("ours", made_uuid(POOL, "another"))
    assert host.pool("ours") is not None
    host.remove_pool("ours", pool.uuid)
    host.remove_pool("ours", pool.uuid)
    assert host.pool("ours") is None and (path / "disk").read_text() == "data"


def test_a_half_removed_pool_goes(host, tmp_path):
    host.make_pool("ours", str(tmp_path))
    host.connection.storagePoolLookupByName("ours").destroy()
    host.remove_pool("ours", made_uuid(POOL, "ours"))
    assert host.pool("ours") is None


def test_a_logical_pool_is_defined_over_its_group(host):
    # the test driver starts it without LVM, which this machine's kernel does not have
    host.make_pool("fast", None, "vg0")
    pool, active, autostart = host.pool("fast")
    assert (pool.type, pool.source, pool.path, active, autostart) == ("logical", "vg0", "/dev/vg0", True, True)


def test_networks(host):
    assert [network.name for network in host.networks()] == ["default"]
    host.make_network("br-admin", "br-admin")
    first = host.networks()
    host.make_network("br-admin", "br-admin")
    assert host.networks() == first
    network = first[0]
    assert (network.mode, network.bridge, network.active, network.autostart, network.ours) == ("bridge", "br-admin", True, True, True)
    assert not first[1].ours
    host.connection.networkLookupByName("br-admin").destroy()
    host.make_network("br-admin", "br-admin")
    assert host.networks() == first
    host.remove_network("br-admin", made_uuid(NETWORK, "another"))
    host.remove_network("br-admin", network.uuid)
    host.remove_network("br-admin", network.uuid)
    assert [network.name for network in host.networks()] == ["default"]
