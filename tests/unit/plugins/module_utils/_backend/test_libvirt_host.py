# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Against libvirt's own test driver; its state ends with the process."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._backend import libvirt_host
from ansible_collections.reduced.footprint.plugins.module_utils._backend.libvirt_host import LibvirtHost
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError

URI = "test:///default"


@pytest.fixture
def host():
    with LibvirtHost(URI) as opened:
        yield opened


def test_without_bindings_the_role_is_named(monkeypatch):
    monkeypatch.setattr(libvirt_host, "libvirt", None)
    with pytest.raises(BackendError, match="bindings of libvirt are not installed.*virt_host"):
        LibvirtHost(URI).__enter__()


def test_a_libvirt_that_does_not_answer():
    with pytest.raises(BackendError, match="libvirt does not answer at qemu:///system\\?socket=/nonexistent"):
        LibvirtHost("qemu:///system?socket=/nonexistent").__enter__()


def test_guests_that_are_not_ours_are_a_load(host):
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
    host._connection.storagePoolDefineXML(xml, 0)
    pool, active, autostart = host.pool("half")
    assert (pool.capacity, active, autostart) == (0, False, False)
    host.make_pool("half", str(tmp_path))
    assert host.pool("half")[1:] == (True, True)


def test_volumes_are_counted(host):
    xml = "<volume><name>disk</name><capacity unit='KiB'>64</capacity><allocation unit='KiB'>16</allocation></volume>"
    host._connection.storagePoolLookupByName("default-pool").createXML(xml, 0)
    assert host.pool("default-pool")[0].volumes["disk"] == (64 * 1024, 16 * 1024)
