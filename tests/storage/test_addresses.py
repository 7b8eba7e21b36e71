# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM is reached: its address from a network of libvirt with DHCP, which a machine without a disk asks while it boots, and a container that answers."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_guest_addresses
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_info import InfoRequest, read_vms
from storage_host import StorageHost
from tests.support import leftovers

NETWORK = """<network><name>story</name><bridge name='{bridge}' stp='off'/><ip address='{prefix}.1' netmask='255.255.255.240'>
<dhcp><range start='{prefix}.2' end='{prefix}.14'/></dhcp></ip></network>"""
#: Number in a range for documentation, which no other network of this machine uses.
PREFIX = "198.51.100"
NIC = [{"network": "story"}]
#: The root of the container: it asks for an address, then a server for ssh introduces itself after some seconds.
STARTS = """#!/bin/sh
/bin/busybox ip link set eth0 up
/bin/busybox udhcpc -i eth0 -n -q -s /bin/lease
/bin/busybox sleep 8
while true; do printf 'SSH-2.0-test\\r\\n' | /bin/busybox nc -l -p 22; done
"""
LEASE = '#!/bin/sh\n[ "$1" != bound ] || /bin/busybox ip addr add "$ip/28" dev "$interface"\n'


@pytest.fixture(name="network")
def fixture_network(host: StorageHost) -> t.Iterator[t.Any]:
    bridge = f"rfad{os.getpid()}"
    leftovers.note("link", bridge)
    network = host.connections["qemu"].networkCreateXML(NETWORK.format(bridge=bridge, prefix=PREFIX))
    try:
        yield network
    finally:
        network.destroy()


def root_image(host: StorageHost) -> None:
    tree = host.folder / ".tree"
    for part in ("sbin", "bin", "dev", "proc", "sys", "etc", "tmp"):
        (tree / part).mkdir(parents=True)
    for name in ("sbin/init", "bin/busybox", "bin/sh"):
        shutil.copy("/bin/busybox", tree / name)
    for name, text in {"bin/starts": STARTS, "bin/lease": LEASE, "etc/inittab": "::respawn:/bin/starts\n"}.items():
        (tree / name).write_text(text)
        (tree / name).chmod(0o755)
    subprocess.run(["tar", "--create", "--file", str(host.images / "root.tar"), "--directory", str(tree), "."], check=True)
    shutil.rmtree(tree)


def addresses(host: StorageHost, kind: str) -> t.Any:
    return read_vms(InfoRequest(uri=host.uris[kind], addresses=True))[0]["addresses"]


def test_a_machine_is_done_when_its_address_is_known(host: StorageHost, network: t.Any) -> None:
    vm = {"id": "a", "nics": NIC}
    assert host.call(vm, check=True, wait="address").vms[0].addresses is None
    made = host.call(vm, wait="address", wait_timeout=120).vms[0]
    assert (made.error, made.state) == (None, "running")
    [found] = made.addresses or []
    assert (found["mac"], found["source"]) == (made.macs[0], "lease") and found["address"].startswith(f"{PREFIX}.")
    assert [lease["ipaddr"] for lease in network.DHCPLeases()] == [found["address"]]
    assert addresses(host, "qemu") == made.addresses
    again = host.call(vm, wait="address").vms[0]
    assert (again.changed, again.addresses) == (False, made.addresses)
    # the check sees it without waiting
    assert host.call(vm, check=True, wait="address").vms[0].addresses == made.addresses
    host.domain("a").destroy()
    assert addresses(host, "qemu") == []


def test_a_machine_without_a_server_for_ssh_is_late_and_keeps_running(host: StorageHost, network: t.Any) -> None:
    result = host.call({"id": "a", "nics": NIC, "address": f"{PREFIX}.13"}, {"id": "b"}, wait="ssh", wait_timeout=8)
    late, nowhere = result.vms
    assert (late.error or "").startswith(f"no answer with ssh at {PREFIX}.13") and " after 8 s. " in (late.error or "")
    assert (nowhere.error or "").startswith("no address known after 8 s. ") and nowhere.addresses is None
    assert [vm.state for vm in result.vms] == ["running", "running"] and host.domain("a").isActive()
    assert "2 of 2 VMs failed. a: no answer with ssh" in result.as_result()["msg"]


def test_a_container_is_done_when_it_answers(host: StorageHost, network: t.Any) -> None:
    root_image(host)
    made = host.call({"id": "box", "nics": NIC, "disks": [{"image": "root"}]}, kind="lxc", template="default", wait="ssh", wait_timeout=60).vms[0]
    assert made.error is None
    [found] = made.addresses or []
    # it has the address for some seconds before it answers there
    assert any(io_guest_addresses.ssh_answers(found["address"], 1) or time.sleep(0.5) for unused in range(5))
    assert found["address"].startswith(f"{PREFIX}.") and found["mac"] == made.macs[0]
    assert addresses(host, "lxc") == made.addresses


def test_other_runs_do_not_wait_for_the_guests(host: StorageHost, tmp_path: pathlib.Path) -> None:
    """A guest that never gets an address, and meanwhile another run."""
    child = os.fork()
    if not child:
        host.call({"id": "a"}, wait="address", wait_timeout=20)
        os._exit(0)
    try:
        deadline = time.monotonic() + 15
        while not any(domain.isActive() for domain in host.connections["qemu"].listAllDomains()):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        time.sleep(1)
        assert host.call({"id": "a"}, lock_timeout=2).vms[0].error is None
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the first run still waits"
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
