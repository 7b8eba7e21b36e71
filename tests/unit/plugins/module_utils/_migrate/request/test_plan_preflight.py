# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CapacityError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import plan_layout
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import layout_of
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.plan_preflight import (
    DESTINATION_TOOLS,
    ESP_TOOL,
    MKFS_TOOLS,
    SOURCE_TOOLS,
    admin_interface,
    filesystems_of,
    find_problems,
    find_warnings,
    fixup_context,
)

GIB = 1024**3
PARAMS = {
    "vm": {"id": "master", "ram": 2, "nics": [{"bridge": "br-admin"}, {"bridge": "br-two"}], "disks": [{"size": 6}]},
    "admin": {"address": "192.0.2.2", "temporary_address": "192.0.2.3"},
    "source": {"machine_id": "0" * 32},
    "services": ["api"],
}
SOURCE = {
    "hostname": "laptop",
    "machine_id": "0" * 32,
    "arch": "x86_64",
    "clock_offset": 0.1,
    "filesystems": [{"mount": "/", "device": "/dev/sda1", "fstype": "ext4", "used": GIB, "inodes_used": 1000}],
    "foreign": [],
    "interfaces": [
        {"name": "aaa0", "mac": "02:00:00:00:00:09", "addresses": []},
        {"name": "enp1", "mac": "02:00:00:00:00:01", "addresses": ["192.0.2.2/25"]},
    ],
    "tools": {tool: "/usr/bin/x" for tool in SOURCE_TOOLS},
    "kernels": ["6.1"],
    "initramfs": "dracut",
    "grub": {"install": "/x", "i386_pc": True},
    "services": {"api.service": {"load": "loaded", "active": "active"}},
    "address_files": ["/etc/network/interfaces"],
}
HOST = {
    "arch": "x86_64",
    "tools": {tool: "/usr/bin/x" for tool in (*DESTINATION_TOOLS, *MKFS_TOOLS.values(), ESP_TOOL)},
    "bridges": ["br-admin", "br-two"],
    "memory_available": 8 * GIB,
    "temporary_taken": None,
    "pool_available": 50 * GIB,
}


def found(source=None, host=None, params=None):
    spec = parse_spec({**PARAMS, **(params or {})})
    vm = parse_vms([spec.vm], cluster="c")[0]
    source = {**copy.deepcopy(SOURCE), **(source or {})}
    layout = plan_layout([vm.disks[0].size], spec.disk_schema, filesystems_of(source), vm.uuid, vm.boot_firmware or "bios")
    return find_problems(spec, vm, layout, source, {**HOST, **(host or {})})


def test_the_vm_of_the_master_is_not_migrated_again():
    # the same play with another destination, after the source was shut down
    mac = parse_vms([PARAMS["vm"]], cluster="c")[0].macs[1]
    (problem,) = found({"interfaces": [*SOURCE["interfaces"], {"name": "enp2", "mac": mac.upper(), "addresses": []}]})
    assert f"The source has the MAC {mac} of the VM master: it is this VM itself, on another virt host" in problem.message and "move_vm" in problem.hint


def test_suitable_machines_have_no_problem():
    assert found() == []
    # a bridge of Open vSwitch is not among those of the kernel
    nics = [{"bridge": "br-admin"}, {"bridge": "br-two", "virtualport": "openvswitch"}]
    assert found(host={"bridges": ["br-admin"]}, params={"vm": {**PARAMS["vm"], "nics": nics}}) == []


@pytest.mark.parametrize(
    ("source", "host", "message"),
    [
        ({"machine_id": "1" * 32}, {}, "another machine"),
        ({"tools": {}}, {}, "missing on the source: rsync"),
        ({"interfaces": []}, {}, "No interface of the source has 192.0.2.2"),
        ({"address_files": []}, {}, "would take it again at its next boot"),
        ({"kernels": []}, {}, "no kernel"),
        ({"initramfs": None}, {}, "neither update-initramfs nor dracut"),
        ({"grub": {"install": "/x", "i386_pc": False}}, {}, "no GRUB for BIOS"),
        ({"services": {"api.service": {"load": "not-found", "active": "inactive"}}}, {}, "no unit api.service"),
        ({"filesystems": [{"mount": "/", "device": "x", "fstype": "ext4", "used": 6 * GIB, "inodes_used": 1}]}, {}, "/ gets"),
        ({"arch": "aarch64"}, {}, "aarch64"),
        ({"clock_offset": -100.0}, {}, "differ by 100 s"),
        ({}, {"tools": {}}, "missing on the destination: rsync"),
        ({}, {"memory_available": GIB}, "needs 2 GiB of memory, the destination has 1 GiB"),
        ({}, {"domain_exists": True, "domain_foreign": True}, "Another VM named master already exists"),
        ({}, {"pool_available": GIB}, "pool default has 1 GiB available"),
        ({}, {"bridges": ["br-admin"]}, "no bridge br-two"),
        ({}, {"temporary_taken": "02:00:00:00:00:07"}, "192.0.2.3 is already in use by 02:00:00:00:00:07"),
    ],
)
def test_each_problem_is_reported_alone(source, host, message):
    (problem,) = found(source, host)
    assert message in problem.message
    assert problem.hint


def test_all_problems_are_reported_together():
    assert len(found({"kernels": [], "grub": {}, "machine_id": "x"}, {"bridges": [], "pool_available": 1})) == 6


def test_an_existing_vm_needs_no_free_space():
    assert found(host={"domain_exists": True, "volume_exists": True, "memory_available": 0, "pool_available": 0}) == []


def test_the_first_card_takes_the_place_of_the_one_with_the_address():
    spec = parse_spec(PARAMS)
    vm = parse_vms([spec.vm], cluster="c")[0]
    context = fixup_context(spec, vm, plan_layout([6 * GIB], (), (), vm.uuid), SOURCE, "k")
    assert [(each.name, each.new_mac) for each in context.nics] == [("enp1", vm.macs[0]), ("aaa0", vm.macs[1])]


def test_a_parked_source_is_known_by_its_temporary_address():
    parked = {"interfaces": [{"name": "enp1", "mac": "x", "addresses": ["192.0.2.3/25"]}]}
    assert admin_interface(parse_spec(PARAMS), parked) == ("enp1", 25)
    assert admin_interface(parse_spec(PARAMS), SOURCE) == ("enp1", 25)
    assert admin_interface(parse_spec(PARAMS), {}) == (None, None)


def test_network_mounts_and_stopped_services_are_warned_of():
    warnings = find_warnings({"foreign": [{"mount": "/nas", "fstype": "nfs", "device": "nas:/x"}], "services": {"a": {"load": "loaded", "active": "failed"}}})
    assert len(warnings) == 2 and "/nas" in warnings[0] and warnings[1].startswith("a is not running")
    assert find_warnings(None) == []


NTFS = {"mount": "/data", "fstype": "fuseblk", "device": "/dev/sda3", "why": "type"}


def test_a_mounted_file_system_that_cannot_be_copied_is_a_problem_unless_it_is_excluded():
    (problem,) = found({"foreign": [NTFS]})
    assert problem.message == "/data (fuseblk from /dev/sda3) is of a type that cannot be copied."
    assert (problem.path, "add /data to excludes" in problem.hint) == ("excludes", True)
    (broken,) = found({"foreign": [{**NTFS, "why": "unreadable"}]})
    assert "cannot be read" in broken.message
    assert found({"foreign": [NTFS]}, params={"excludes": ["/data"]}) == []
    (warning,) = find_warnings({"foreign": [NTFS]}, parse_spec({**PARAMS, "excludes": ["/data"]}))
    assert warning == "/data (fuseblk from /dev/sda3) is not copied, as requested with excludes."


@pytest.mark.parametrize("why", ["network", "program", "memory", "medium", "place", "hidden", "image"])
def test_other_mounts_that_are_not_copied_are_warned_of(why):
    mount = {**NTFS, "why": why}
    assert found({"foreign": [mount]}) == []
    (warning,) = find_warnings({"foreign": [mount]}, parse_spec(PARAMS))
    assert warning.startswith("/data (fuseblk from /dev/sda3) is ")


BACKUP = {"mount": "/srv/backup", "device": "/dev/sdb1", "fstype": "ext4", "used": 1500 * GIB, "inodes_used": 1000, "size": 2000 * GIB, "disks": ["sdb"]}


def laid_out(excludes, disk_schema=()):
    """The layout of a source with a large disk for backups, and what preflight finds."""
    spec = parse_spec({**PARAMS, "vm": {**PARAMS["vm"], "disks": [{"size": "40GiB"}]}, "excludes": excludes, "disk_schema": list(disk_schema)})
    vm = parse_vms([spec.vm], cluster="c")[0]
    source = {**copy.deepcopy(SOURCE), "filesystems": [*SOURCE["filesystems"], BACKUP]}
    try:
        layout = layout_of(spec, vm, source)
    except CapacityError as error:
        return None, [str(error)]
    return layout, [each.message for each in find_problems(spec, vm, layout, source, HOST)]


def test_an_excluded_file_system_needs_no_partition_and_no_space():
    assert "1.61 TiB" in laid_out([])[1][0]
    for excludes in (["/srv/backup"], ["/srv/backup/*"], ["/srv/*"], ["/srv/**"], ["/srv"], ["/srv/back*"]):
        layout, problems = laid_out(excludes)
        assert problems == [] and [each.mount for each in layout.partitions] == ["/"]
    # a part of it, or another folder
    assert laid_out(["/srv/backup/old"])[1] and laid_out(["/srv/backup2"])[1]
    layout, problems = laid_out(["/srv/backup"], [{"mount": "/"}, {"mount": "/srv", "size": "5GiB"}])
    assert problems == [] and [each.mount for each in layout.partitions] == ["/", "/srv"]


def test_a_key_that_will_not_work_is_warned_of_in_check_mode():
    assert find_warnings({"login": ["The migration's key will not work"]}) == ["The migration's key will not work"]


def test_options_that_the_vm_cannot_have_are_warned_of():
    (warning,) = find_warnings(SOURCE, parse_spec(PARAMS), tree={"/etc/fstab": "UUID=x /srv ext4 journal_path=/dev/sdb1 0 2\n"})
    assert warning.startswith("/srv: the VM mounts it without journal_path=/dev/sdb1")


def test_an_excluded_file_system_is_named():
    warnings = find_warnings({"filesystems": [{**BACKUP, "fstype": "zfs"}]}, parse_spec({**PARAMS, "excludes": ["/srv/backup"]}))
    assert warnings == ["/srv/backup (zfs from /dev/sdb1) is not copied, as requested with excludes."]


WIFI = {"name": "wlp3s0", "mac": "02:00:00:00:00:0c", "addresses": ["192.0.2.2/24"], "kind": None, "card": True, "lower": []}
AIR = {"name": "wlp3s0", "medium": "Wi-Fi", "addresses": ["192.0.2.2/24"]}


@pytest.mark.parametrize(
    ("links", "other", "named"),
    [
        ([WIFI], [AIR], "192.0.2.2 is on wlp3s0 (Wi-Fi), which a VM cannot have"),
        ([], [{**AIR, "name": "ppp0", "medium": "PPP"}], "192.0.2.2 is on ppp0 (PPP)"),
        ([], [{**AIR, "name": "wg0", "medium": "a tunnel"}], "192.0.2.2 is on wg0 (a tunnel)"),
        ([{**WIFI, "addresses": []}, {**WIFI, "name": "w.7", "kind": "vlan", "card": False, "lower": ["wlp3s0"]}], [AIR], "configuration of w.7 would not"),
    ],
)
def test_an_admin_address_that_is_not_on_ethernet_is_a_problem(links, other, named):
    (problem,) = found({"interfaces": links, "other_media": other})
    assert named in problem.message and "Ethernet card of the source" in problem.hint and problem.path == "admin.address"


def test_an_access_point_beside_a_card_is_no_problem_and_gets_no_card():
    wifi = {**WIFI, "addresses": []}
    bridge = {**WIFI, "name": "br0", "mac": SOURCE["interfaces"][0]["mac"], "kind": "bridge", "card": False, "lower": ["wlp3s0", "aaa0"]}
    links = {"interfaces": [wifi, SOURCE["interfaces"][0], bridge], "other_media": [AIR]}
    assert found(links) == []
    spec = parse_spec(PARAMS)
    vm = parse_vms([spec.vm], cluster="c")[0]
    context = fixup_context(spec, vm, plan_layout([6 * GIB], (), (), vm.uuid), links, "k")
    assert [each.name for each in context.nics] == ["aaa0"]
    assert "wlp3s0 (Wi-Fi) is not Ethernet; the VM has no card for it." in find_warnings(links, spec, vm)


UEFI = {"vm": {**PARAMS["vm"], "boot_firmware": "efi"}}


@pytest.mark.parametrize(
    ("source", "host", "message"),
    [
        ({"grub": {"install": "/x", "i386_pc": True, "efi": False, "shim": False}}, {}, "no GRUB for UEFI"),
        ({}, {"uefi": False}, "no UEFI firmware"),
        ({}, {"tools": {**HOST["tools"], ESP_TOOL: None}}, "missing on the destination: mcopy"),
    ],
)
def test_uefi_requires_grub_firmware_and_mcopy(source, host, message):
    present = {"grub": {"install": "/x", "i386_pc": False, "efi": True, "shim": False}, **source}
    (problem,) = found(present, host, UEFI)
    assert message in problem.message and problem.hint
    # a signed boot loader on the source's disk is sufficient, and so is a kernel without FAT
    assert found({"grub": {"install": "/x", "i386_pc": False, "efi": False, "shim": True}}, {"unmountable": ["vfat", "btrfs"]}, UEFI) == []


def test_secure_boot_requires_a_signed_boot_loader():
    params = {"vm": {**PARAMS["vm"], "boot_firmware": "efi", "secure_boot": True}}
    (problem,) = found({"grub": {"install": "/x", "efi": True, "shim": False}}, params=params)
    assert "no signed boot loader" in problem.message and problem.path == "vm.secure_boot"
    assert found({"grub": {"install": "/x", "efi": True, "shim": True}}, params=params) == []


def test_a_file_system_the_host_cannot_mount_is_refused():
    schema = {"disk_schema": [{"mount": "/", "fs": "btrfs"}]}
    (problem,) = found(host={"unmountable": ["btrfs"]}, params=schema)
    assert "cannot mount btrfs" in problem.message and problem.path == "disk_schema"


STACK = [
    {"name": "docker0", "mac": "02:00:00:00:00:0d", "addresses": ["172.17.0.1/16"], "kind": "bridge", "card": False, "lower": []},
    {"name": "eno1", "mac": "02:00:00:00:00:0a", "addresses": [], "kind": None, "card": True, "lower": []},
    {"name": "eno2", "mac": "02:00:00:00:00:0b", "addresses": [], "kind": None, "card": True, "lower": []},
    {"name": "eno3", "mac": "02:00:00:00:00:0c", "addresses": ["198.51.100.2/24"], "kind": None, "card": True, "lower": []},
    {"name": "bond0", "mac": "02:00:00:00:00:0b", "addresses": [], "kind": "bond", "card": False, "lower": ["eno2"], "bond_mode": "802.3ad"},
    {
        "name": "bond0.42",
        "mac": "02:00:00:00:00:0b",
        "addresses": ["192.0.2.2/25", "192.0.2.9/25"],
        "addresses6": ["2001:db8::2/64"],
        "kind": "vlan",
        "card": False,
        "lower": ["bond0"],
        "vlan": 42,
    },
]


def test_the_card_below_a_vlan_and_a_bond_is_the_one_that_gets_the_first():
    spec = parse_spec(PARAMS)
    vm = parse_vms([spec.vm], cluster="c")[0]
    context = fixup_context(spec, vm, plan_layout([6 * GIB], (), (), vm.uuid), {"interfaces": STACK}, "k")
    assert [each.name for each in context.nics] == ["eno2", "eno1"]


def test_differences_in_the_vm_are_warned_of():
    spec = parse_spec(PARAMS)
    vm = parse_vms([spec.vm], cluster="c")[0]
    systems = [
        {"mount": "/", "fstype": "btrfs", "layers": ["crypt"], "subvolume": "@"},
        {"mount": "/machines", "fstype": "btrfs", "layers": ["crypt"], "subvolume": None},
        {"mount": "/tank", "fstype": "zfs", "layers": []},
    ]
    tree = {"/etc/selinux/config": "SELINUX=enforcing\n", "/etc/default/grub": 'GRUB_CMDLINE_LINUX="hugepages=64"\n'}
    warnings = "\n".join(find_warnings({"interfaces": STACK, "filesystems": systems}, spec, vm, tree))
    for words in (
        "bond0.42 uses VLAN 42: br-admin must carry it tagged",
        "use active-backup",
        "192.0.2.9/25, 2001:db8::2/64 on bond0.42 move to the VM as well",
        "/, /machines: encrypted on the source",
        "/machines: btrfs subvolumes that are not mounted",
        "/tank is zfs on the source and becomes ext4",
        "SELinux relabels all files",
        "reserves memory for the source's size",
    ):
        assert words in warnings
    assert "docker0" not in warnings


def test_cards_without_a_counterpart_are_warned_of():
    spec = parse_spec({**PARAMS, "vm": {**PARAMS["vm"], "nics": [{"bridge": "br-admin"}]}})
    vm = parse_vms([spec.vm], cluster="c")[0]
    (warning,) = [each for each in find_warnings({"interfaces": STACK}, spec, vm) if "of the source have no counterpart" in each]
    assert "eno3" in warning and "eno2" not in warning


def test_btrfs_requires_its_program_on_the_source():
    btrfs = {"mount": "/", "device": "/dev/sda1", "fstype": "btrfs", "used": GIB, "inodes_used": 0, "subvolume": "@"}
    (problem,) = [each for each in found({"filesystems": [btrfs]}) if "btrfs" in each.message]
    assert "btrfs-progs" in problem.hint
    assert not [each for each in found({"filesystems": [btrfs], "tools": {**SOURCE["tools"], "btrfs": "/usr/bin/btrfs"}}) if "btrfs" in each.message]


def test_a_single_unknown_unit_may_mean_all():
    missing = {"load": "not-found", "active": "inactive"}
    (one,) = found({"services": {"al.service": missing}})
    assert one.hint.endswith("To stop everything, write all.")
    assert not any("write all" in each.hint for each in found({"services": {"al.service": missing, "b.service": missing}}))


def test_raw_devices_must_exist_and_fit():
    raw = {"path": "/dev/vg0/ora", "links": ["/dev/vg0/ora"], "size": GIB, "content": "", "usage": "", "whole": False, "open": True}
    given = {"sync": "rsync_dd", "disk_schema": [{"mount": "/"}, {"raw": "/dev/vg0/ora", "size": "2GiB"}, {"raw": "/dev/vg0/no", "size": "1GiB"}]}
    (problem,) = found({"blocks": [raw]}, params=given)
    assert problem.path == "disk_schema" and problem.message.startswith("/dev/vg0/no does not exist on the source")
    spec = parse_spec({**PARAMS, "sync": "rsync_dd"})
    assert "/dev/vg0/ora (1 GiB, a program has it open) is copied block by block." in find_warnings({**SOURCE, "blocks": [raw]}, spec)


def test_missing_requirements_of_a_network_boot_are_reported_with_the_rest():
    lacks = {"arch": "x86_64", "tools": {}, "kernel": None, "missing_modules": [], "fuse": True, "ipv6": True, "rom": True}
    said = " ".join(each.message for each in found(host={"bootstrap": lacks, "bridges": []}, params={"boot": "pxe"}))
    assert "boot: pxe requires dnsmasq, nbdfuse" in said and "no kernel in /boot" in said and "no bridge br-admin" in said
    # not required without a network boot
    assert found(host={"bootstrap": lacks}) == []


def test_macs_that_differ_from_the_cards_are_warned_of():
    spec = parse_spec({**PARAMS, "vm": {**PARAMS["vm"], "nics": [{"bridge": "br-admin"}, {"bridge": "br-admin"}]}})
    vm = parse_vms([spec.vm], cluster="c")[0]
    first, second = (nic.mac for nic in vm.nics)
    card = {"addresses": [], "kind": None, "card": True, "lower": []}
    links = [
        {**card, "name": "eno1", "mac": "02:00:00:00:00:0a"},
        {**card, "name": "eno2", "mac": "02:00:00:00:00:0b", "worn": "02:cc:00:00:00:09"},
        {**card, "name": "br0", "kind": "bridge", "card": False, "mac": "02:dd:00:00:00:07", "lower": ["eno1"], "addresses": ["192.0.2.2/25"]},
        {**card, "name": "br0.7", "kind": "vlan", "card": False, "mac": "02:dd:00:00:00:07", "lower": ["br0"]},
        {**card, "name": "docker0", "kind": "bridge", "card": False, "mac": "02:42:00:00:00:01"},
    ]
    tree = {"/etc/network/interfaces": "iface eno1 inet manual\n  hwaddress 02:ee:00:00:00:01\n"}
    warnings = "\n".join(find_warnings({"interfaces": links}, spec, vm, tree))
    assert f"eno2 has the MAC 02:cc:00:00:00:09 instead of its own 02:00:00:00:00:0b; in the VM it has {second}." in warnings
    assert f"br0 has the MAC 02:dd:00:00:00:07, which differs from its card's; in the VM it has {first}." in warnings
    sets = "/etc/network/interfaces sets the MAC 02:ee:00:00:00:01, which the parked source may use on the same network"
    assert f"{sets}; in the VM it becomes {first}." in warnings
    script = {"/etc/network/if-pre-up.d/mac": "#!/bin/sh\nip link set eno1 address 02:ee:00:00:00:01\n"}
    assert f"if-pre-up.d/mac sets the MAC 02:ee:00:00:00:01, which the parked source may use on the same network; in the VM it becomes {first}." in "\n".join(
        find_warnings({"interfaces": links}, spec, vm, script)
    )
    assert "No known file sets 02:cc:00:00:00:09." in warnings
    stable = {"/etc/NetworkManager/conf.d/x": "[c]\nethernet.cloned-mac-address=stable\n"}
    for known in ({"/etc/rc.local": "ip link set eno2 address 02-CC-00-00-00-09\n"}, stable):
        assert "No known file" not in "\n".join(find_warnings({"interfaces": links}, spec, vm, known))
    assert "port security" in warnings and "docker0" not in warnings and "br0.7 has" not in warnings
    context = fixup_context(spec, vm, plan_layout([6 * GIB], (), (), vm.uuid), {"interfaces": links}, "k")
    assert [(each.name, each.new_mac) for each in context.stacked] == [("br0", first)]
    assert "MAC" not in "\n".join(find_warnings({"interfaces": [links[0]]}, spec, vm, {}))
