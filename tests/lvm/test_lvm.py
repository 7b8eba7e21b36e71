# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs on logical volumes, on a server with a separate kernel, because the kernel of the test machine may lack modules.

The chapters follow each other on one server. The VM's machine is emulated inside an emulated machine: slow, and real.
"""

from __future__ import annotations

import json
import pathlib
import struct
import typing as t

import pytest
from conftest import HERE, MIB, VmHost

pytestmark = pytest.mark.chapter

CLUSTER = "lvm"
COUNTER: dict[str, t.Any] = {
    "id": "m1", "cpu": 1, "ram": "32MiB", "hypervisor": "qemu", "nics": [{"bridge": "br-admin"}],
    "disks": [
        {"size": "20MiB", "pool": "fast", "image": "counter", "name": "m1-disk0"},
        {"size": "16MiB", "pool": "fast", "name": "m1-disk1"},
    ],
}  # fmt: skip


def provision(host: VmHost) -> dict[str, int]:
    """Run the role; return the counts of the recap."""
    done = host.ansible("ansible-playbook", str(HERE / "provision.yml"), timeout=1500)
    recap = next(line for line in done.stdout.splitlines() if line.startswith("server ") and "changed=" in line)
    return {key: int(number) for key, _is, number in (word.partition("=") for word in recap.split()[2:])}


def volumes(host: VmHost) -> dict[str, int]:
    """Return the sizes of the logical volumes of vg0 in bytes, by name."""
    said = json.loads(host.ssh("lvs", "--reportformat", "json", "--units", "b", "--nosuffix", "-o", "lv_name,lv_size", "vg0").stdout)
    return {each["lv_name"]: int(each["lv_size"]) for each in said["report"][0]["lv"]}


def define(host: VmHost, vm: t.Mapping[str, t.Any] | None = None, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
    """Run ``vm_define`` for one VM."""
    return host.module("vm_define", check_mode, cluster=CLUSTER, vms=[vm or COUNTER], **options)


def counted(host: VmHost) -> tuple[int, int]:
    """Read the steps and starts of the machine from its volume, bypassing caches."""
    said = host.ssh("dd if=/dev/vg0/m1-disk0 bs=512 skip=1 count=1 iflag=direct status=none | od -A n -t x1 -N 8")
    return struct.unpack("<II", bytes.fromhex(said.stdout.replace(" ", "").strip()))


def counts(host: VmHost) -> bool:
    """Whether the machine is writing."""
    before = counted(host)[0]
    host.ssh("sleep", "3")
    return counted(host)[0] > before


def until(condition: t.Callable[[], bool], what: str, tries: int = 60) -> None:
    """Wait until a condition is met."""
    for _each in range(tries):
        if condition():
            return
    pytest.fail(f"{what}: not after {tries} looks")


def test_role_defines_a_pool_on_a_volume_group(host: VmHost) -> None:
    first = provision(host)
    assert first["changed"] > 0 and first["failed"] == 0, first
    again = provision(host)
    assert again["changed"] == 0 and again["failed"] == 0, again
    assert volumes(host) == {}
    pool = host.module("virt_node_info")["node"]["pools"]["fast"]
    group = int(host.ssh("vgs", "--noheadings", "--units", "b", "--nosuffix", "-o", "vg_size", "vg0").stdout)
    assert pool["type"] == "logical" and pool["capacity_bytes"] == group, pool
    assert host.ssh("virsh", "pool-info", "fast").stdout.split("Autostart:")[1].split()[0] == "yes"


def test_machine_runs_from_a_logical_volume(host: VmHost) -> None:
    preview = define(host, check_mode=True)
    assert preview["changed"] and volumes(host) == {}, preview
    made = define(host)
    assert made["changed"] and made["vms"][0]["actions"] == preview["vms"][0]["actions"], made
    assert volumes(host) == {"m1-disk0": 20 * MIB, "m1-disk1": 16 * MIB}
    xml = host.ssh("virsh", "dumpxml", "m1").stdout
    assert "<source dev='/dev/vg0/m1-disk0'" in xml, xml
    # the server's own confinement is on, and lets the machine at its volumes
    assert "<seclabel type='dynamic' model='apparmor'" in xml, xml
    until(lambda: counts(host), "the machine counts")
    assert define(host)["changed"] is False


def test_insufficient_space_in_the_group_is_reported_before_any_change(host: VmHost) -> None:
    before = volumes(host)
    greedy = {**COUNTER, "id": "m2", "disks": [{"size": "8MiB", "pool": "fast"}, {"size": "500MiB", "pool": "fast"}]}
    for check_mode in (True, False):
        refused = define(host, greedy, check_mode)
        assert "more in the pool fast, which has" in refused["msg"], refused
    assert volumes(host) == before and "m2" not in host.ssh("virsh", "list", "--all", "--name").stdout


def test_existing_volume_is_never_overwritten(host: VmHost) -> None:
    host.ssh("lvcreate", "--yes", "--size", "8M", "--name", "m3-disk0", "vg0")
    host.ssh("sh", "-c", "'tr \\\\000 x < /dev/zero | dd of=/dev/vg0/m3-disk0 bs=1M count=8 iflag=fullblock oflag=direct status=none'")
    # made beside libvirt, which does not know it yet
    older = {**COUNTER, "id": "m3", "disks": [{"size": "8MiB", "pool": "fast", "name": "m3-disk0", "image": "counter"}]}
    assert "adopt_disks: [m3-disk0]" in define(host, older, state="present")["msg"]
    assert define(host, older, state="present", adopt_disks=["m3-disk0"])["vms"][0]["actions"] == ["define", "autostart_on"]
    assert host.ssh("dd if=/dev/vg0/m3-disk0 bs=4096 count=1 iflag=direct status=none").stdout == "x" * 4096
    assert define(host, older, state="absent")["changed"]
    host.ssh("lvremove", "--yes", "vg0/m3-disk0")


def test_volume_is_extended_with_its_content(host: VmHost) -> None:
    larger = {**COUNTER, "disks": [{**COUNTER["disks"][0], "size": "28MiB"}, COUNTER["disks"][1]]}
    before = counted(host)
    grown = define(host, larger)
    assert grown["changed"], grown
    assert volumes(host)["m1-disk0"] == 28 * MIB
    until(lambda: counts(host), "the machine counts on")
    after = counted(host)
    assert after[0] > before[0] and after[1] == before[1]
    assert define(host, larger)["changed"] is False
    # LVM rounds up to extents: a slightly smaller size is not treated as shrinking
    assert define(host)["changed"] is False and volumes(host)["m1-disk0"] == 28 * MIB


def test_group_pool_and_machine_are_active_after_a_power_loss(host: VmHost) -> None:
    starts = counted(host)[1]
    host.off()
    host.on()
    until(lambda: "running" in host.ssh("virsh", "domstate", "m1", check=False).stdout, "the machine is started with its host")
    until(lambda: counted(host)[1] == starts + 1, "the machine has started once more")
    assert provision(host)["changed"] == 0


def test_interrupted_copy_to_a_volume_is_repeated(host: VmHost) -> None:
    late = {**COUNTER, "id": "m4", "disks": [{"size": "20MiB", "pool": "fast", "image": "counter", "name": "m4-disk0"}]}
    assert define(host, late, state="present")["changed"]
    # as a run leaves it that was killed while it copied
    host.ssh("sh", "-c", "'cd /var/lib/reduced.footprint/volumes && touch fast.m4-disk0.unfinished'")
    host.ssh("dd", "if=/dev/zero", "of=/dev/vg0/m4-disk0", "bs=1M", "count=8", "oflag=direct", "status=none")
    again = define(host, late, state="present")
    assert again["changed"], again
    head = host.ssh("cmp", "-n", str(8 * MIB), "/dev/vg0/m4-disk0", "/var/lib/libvirt/images/images/counter.raw", check=False)
    assert head.returncode == 0, head.stdout
    assert define(host, late, state="absent", remove_disks=True)["changed"]
    assert "m4-disk0" not in volumes(host)


def test_removed_volume_is_wiped_first(host: VmHost, tmp_path: pathlib.Path) -> None:
    extent = int(host.ssh("lvs", "--noheadings", "-o", "seg_start_pe,seg_pe_ranges", "vg0/m1-disk0").stdout.split(":")[1].split("-")[0])
    begins = int(float(host.ssh("pvs", "--noheadings", "--units", "b", "--nosuffix", "-o", "pe_start", "/dev/vdc").stdout)) + extent * 4 * MIB
    kept = define(host, state="absent")
    assert kept["changed"] and set(volumes(host)) == {"m1-disk0", "m1-disk1"}, kept
    assert define(host, state="present", adopt_disks=["m1-disk0"])["changed"]
    assert counted(host)[0] > 0
    gone = define(host, state="absent", remove_disks=True, wipe=True)
    assert gone["changed"] and volumes(host) == {}, gone
    host.ssh("sync")
    first = host.ssh(f"dd if=/dev/vdc bs=4096 count=1 skip={begins // 4096} iflag=direct status=none | tr -d '\\000' | wc -c").stdout
    assert int(first) == 0
