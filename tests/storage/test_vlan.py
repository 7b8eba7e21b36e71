# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VLAN tags of NICs are refused where libvirt would refuse to start the guest, and nowhere else."""

from __future__ import annotations

import os
import pathlib
import subprocess
import typing as t

import libvirt
import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_host_network
from storage_host import StorageHost

BRIDGE = f"fpv{os.getpid()}"[:15]
NETWORKS = {
    "isolated": f"<bridge name='{BRIDGE[:13]}-i'/>",
    "linux": f"<forward mode='bridge'/><bridge name='{BRIDGE}'/>",
    "ovs": f"<forward mode='bridge'/><bridge name='{BRIDGE}'/><virtualport type='openvswitch'/>",
    "macvtap": "<forward mode='bridge'><interface dev='lo'/></forward>",
    "sriov": "<forward mode='passthrough'><interface dev='lo'/></forward>",
}


@pytest.fixture(name="nets")
def fixture_nets(host: StorageHost) -> t.Iterator[StorageHost]:
    """A host with a Linux bridge, and one libvirt network of each kind."""
    subprocess.run(["ip", "link", "add", BRIDGE, "type", "bridge"], check=True)
    made = []
    try:
        for name, inside in NETWORKS.items():
            made.append(host.connections["qemu"].networkDefineXML(f"<network><name>{name}</name>{inside}</network>"))
        yield host
    finally:
        for network in made:
            if network.isActive():
                network.destroy()
            network.undefine()
        subprocess.run(["ip", "link", "del", BRIDGE], check=True)


def newer(monkeypatch: pytest.MonkeyPatch, version: int, filters: bool = True) -> None:
    """Claim a version of libvirt, and a kernel that filters VLANs."""
    monkeypatch.setattr(io_host_network, "version", lambda host: version)
    if filters:
        monkeypatch.setattr(io_host_network, "_untagged", lambda bridge, tags: None)


def vm(**nic: t.Any) -> dict[str, t.Any]:
    return {"id": "a", "nics": [nic]}


def refused(host: StorageHost, **nic: t.Any) -> str:
    """The error about a NIC, the same in check mode; no domain is defined."""
    errors = []
    for check in (True, False):
        with pytest.raises(InputError) as raised:
            host.call(vm(**nic), state="present", check=check)
        errors.append(str(raised.value))
    assert errors[0] == errors[1] and raised.value.path == "vms[0].nics[0].vlan" and raised.value.hint
    assert host.connections["qemu"].listAllDomains() == []
    return errors[0]


def test_what_this_libvirt_refuses_to_start_is_refused_before(nets: StorageHost) -> None:
    connection = nets.connections["qemu"]
    if connection.getLibVersion() >= 11_000_000:
        pytest.skip("this libvirt supports VLANs on Linux bridges")
    assert f"on the Linux bridge '{BRIDGE}'" in refused(nets, bridge=BRIDGE, vlan=42)
    # the reason: without the check it is defined, and does not start
    nets.one(vm(bridge=BRIDGE), state="present")
    tagged = nets.domain("a").XMLDesc().replace(f"<source bridge='{BRIDGE}'/>", f"<source bridge='{BRIDGE}'/><vlan><tag id='42'/></vlan>")
    with pytest.raises(libvirt.libvirtError, match="vlan tag not supported"):
        connection.defineXML(tagged).create()


def test_a_tag_that_is_added_to_a_vm_is_refused(nets: StorageHost, monkeypatch: pytest.MonkeyPatch) -> None:
    newer(monkeypatch, 9_000_000)
    nets.one(vm(bridge=BRIDGE), state="present")
    with pytest.raises(InputError, match=r"vms\[0\].nics\[0\].vlan"):
        nets.call(vm(bridge=BRIDGE, vlan=42), state="present")
    # one that is there already does not prevent other changes, only a start
    newer(monkeypatch, 11_000_000)
    nets.one(vm(bridge=BRIDGE, vlan=42), state="present")
    newer(monkeypatch, 9_000_000)
    assert nets.one({**vm(bridge=BRIDGE, vlan=42), "cpu": 2}, state="present").actions == ["redefine"]
    started = nets.call({**vm(bridge=BRIDGE, vlan=42), "cpu": 2}, {"id": "b"}).vms
    assert "vms[0].nics[0].vlan" in (started[0].error or "") and started[1].error is None


@pytest.mark.parametrize("version", [9_000_000, 10_010_000])
def test_older_versions_support_tags_on_open_vswitch_and_sriov_only(nets: StorageHost, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    newer(monkeypatch, version)
    for network in ("linux", "macvtap", "isolated"):
        nets.connections["qemu"].networkLookupByName(network).create()
        assert f"the libvirt network '{network}'" in refused(nets, network=network, vlan=42)
    for network in ("ovs", "sriov"):
        nets.connections["qemu"].networkLookupByName(network).create()
        nets.call(vm(network=network, vlan=42), state="present")
        nets.call({"id": "a"}, state="absent")


def test_newer_versions_support_tags_on_linux_bridges(nets: StorageHost, monkeypatch: pytest.MonkeyPatch) -> None:
    newer(monkeypatch, 11_000_000)
    for network in ("linux", "macvtap"):
        nets.connections["qemu"].networkLookupByName(network).create()
    assert "the libvirt network 'macvtap'" in refused(nets, network="macvtap", vlan=42)
    for nic in ({"bridge": BRIDGE}, {"network": "linux"}):
        assert nets.call(vm(vlan=42, **nic), state="present").vms[0].error is None
        nets.call({"id": "a"}, state="absent")


def test_bridges_that_do_not_filter_are_refused_with_every_version(nets: StorageHost, monkeypatch: pytest.MonkeyPatch) -> None:
    newer(monkeypatch, 11_000_000, filters=False)
    nets.connections["qemu"].networkLookupByName("linux").create()
    for nic in ({"bridge": BRIDGE}, {"network": "linux"}):
        assert f"the Linux bridge '{BRIDGE}' does not filter VLANs" in refused(nets, vlan=42, **nic)


def test_open_vswitch_bridges_need_no_newer_version(nets: StorageHost, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    tool = tmp_path / "ovs-vsctl"
    tool.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert nets.call(vm(bridge="br-ovs", virtualport="openvswitch", vlan=42), state="present").vms[0].error is None
