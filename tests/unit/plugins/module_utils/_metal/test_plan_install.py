# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a disk may be written, and what is written to it."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_install
from ansible_collections.reduced.footprint.plugins.module_utils._metal import io_install, plan_install, plan_install_files
from ansible_collections.reduced.footprint.plugins.module_utils._metal.plan_install import Disk, Signature

GIB = 1 << 30
KEY = f"ssh-ed25519 AAAA{'B' * 64} operator"
ENTRY: dict[str, t.Any] = {"disk": "S1", "network": {"prefix": 24, "mac": "52:54:00:00:00:01"}, "keys": [KEY]}
PLAIN = model_install.parse(ENTRY, "metal1", "192.0.2.11", "servers.metal1.install")
VOLUMES = model_install.parse({**ENTRY, "lvm": {"group": "vms", "root": "6 GiB"}}, "metal1", "192.0.2.11", "servers.metal1.install")
STARTED, COMPLETE = (plan_install.label("metal1", "S1", complete) for complete in (False, True))
EMPTY = Disk("/dev/sda", "S1", 100 * GIB)
GPT = (Signature("/dev/sda", "gpt"), Signature("/dev/sda1", "vfat"))


@pytest.mark.parametrize(
    ("disk", "erase", "state"),
    [
        (EMPTY, (), "write"),
        (EMPTY, ("S1",), "write"),
        (EMPTY._replace(content=GPT), ("S1",), "write"),
        # an interrupted installation of this server
        (EMPTY._replace(content=GPT, label=STARTED), (), "continue"),
        (EMPTY._replace(content=GPT, label=STARTED), ("S1",), "continue"),
        # a complete one is not erased, whatever is named
        (EMPTY._replace(content=GPT, label=COMPLETE), (), "complete"),
        (EMPTY._replace(content=GPT, label=COMPLETE), ("S1",), "complete"),
    ],
)
def test_states_of_a_disk(disk: Disk, erase: tuple[str, ...], state: str) -> None:
    assert plan_install.decide(disk, PLAIN, "uefi", erase) == state


FOREIGN = [plan_install.label("metal2", "S1", True), plan_install.label("metal2", "S1", False), plan_install.label("metal1", "S2", False), "1234"]


KINDS = ["gpt", "dos", "ext4", "xfs", "vfat", "LVM2_member", "linux_raid_member", "zfs_member", "crypto_LUKS", "swap", "ddf_raid_member"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["/dev/sda", "/dev/sda3", "/dev/mapper/old-root"])
@pytest.mark.parametrize("erase", [(), ("S2",), ("s1",), ("/dev/sda",)])
def test_any_data_is_foreign_without_the_serial_number(kind: str, place: str, erase: tuple[str, ...]) -> None:
    with pytest.raises(RefusedError, match=f"contains data: {kind} on {place}") as caught:
        plan_install.decide(EMPTY._replace(content=(Signature(place, kind),)), PLAIN, "uefi", erase)
    assert caught.value.path == "servers.metal1.install.disk" and "install_server_erase: [S1]" in str(caught.value.hint)


@pytest.mark.parametrize("label", FOREIGN)
def test_an_installation_of_another_server_is_foreign(label: str) -> None:
    with pytest.raises(RefusedError, match="contains data"):
        plan_install.decide(EMPTY._replace(content=GPT, label=label), PLAIN, "uefi", ())


@pytest.mark.parametrize(
    ("disk", "words"),
    [
        (EMPTY._replace(read_only=True), "is read-only"),
        (EMPTY._replace(size=4 * GIB), "are required"),
        (EMPTY._replace(used=("/dev/sda1 at /srv",)), "is in use: /dev/sda1 at /srv"),
        (EMPTY._replace(used=("/dev/sda1 at /srv",), label=STARTED), "is in use"),
    ],
)
def test_a_disk_that_cannot_be_used_is_refused(disk: Disk, words: str) -> None:
    with pytest.raises(RefusedError, match=words) as caught:
        plan_install.decide(disk, PLAIN, "uefi", ("S1",))
    assert caught.value.path and caught.value.hint


@pytest.mark.parametrize("firmware", ["uefi", "bios"])
@pytest.mark.parametrize("install", [PLAIN, VOLUMES])
def test_the_least_size(install: model_install.Install, firmware: str) -> None:
    needed = plan_install.least(install, firmware)
    assert plan_install.decide(EMPTY._replace(size=needed), install, firmware, ()) == "write"
    with pytest.raises(RefusedError, match="required"):
        plan_install.decide(EMPTY._replace(size=needed - 1), install, firmware, ())


def test_a_large_system_needs_space() -> None:
    with pytest.raises(RefusedError, match=r"are required"):
        plan_install.decide(EMPTY._replace(size=8 * GIB), PLAIN, "bios", (), 4 * GIB)
    with pytest.raises(RefusedError, match="files of the system") as caught:
        plan_install.decide(EMPTY, VOLUMES, "bios", (), 4 * GIB)
    assert caught.value.path == "servers.metal1.install.lvm.root" and "8 GiB" in str(caught.value.hint)


@pytest.mark.parametrize("serials", [[], ["S2"], [""], ["S1 "]])
def test_a_missing_disk_is_refused_with_those_that_exist(serials: list[str]) -> None:
    disks = [EMPTY._replace(device=f"/dev/sd{position}", serial=serial) for position, serial in enumerate(serials)]
    with pytest.raises(InputError, match="has no disk S1") as caught:
        plan_install.find(disks, "S1", "servers.metal1.install.disk")
    assert caught.value.path and all(serial.strip() in str(caught.value) for serial in serials)


def test_two_disks_with_one_serial_number_are_refused() -> None:
    with pytest.raises(RefusedError, match="/dev/sda and /dev/sdb have the same serial number"):
        plan_install.find([EMPTY, EMPTY._replace(device="/dev/sdb")], "S1", "p")
    assert plan_install.find([EMPTY._replace(serial="S2", device="/dev/sdb"), EMPTY], "S1", "p") == EMPTY


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"vms": ["/dev/sdb1"]}, "/dev/sdb1"),
        ({"vms": ["/dev/sda2", "/dev/sdb1"]}, "/dev/sdb1"),
        ({"vms": ["/dev/sda2"]}, ""),
        ({"other": ["/dev/sdb1"]}, ""),
        ({}, ""),
    ],
)
def test_a_volume_group_of_another_disk_is_refused(groups: dict[str, list[str]], words: str) -> None:
    own = ["/dev/sda", "/dev/sda1", "/dev/sda2"]
    plan_install.check_group(PLAIN, groups, own)
    if not words:
        plan_install.check_group(VOLUMES, groups, own)
        return
    with pytest.raises(RefusedError, match=f"^servers.metal1.install.lvm.group: {words} have a volume group vms"):
        plan_install.check_group(VOLUMES, groups, own)


@pytest.mark.parametrize(
    ("install", "firmware", "found"),
    [
        (PLAIN, "uefi", [("vfat", "/boot/efi", 512 << 20), ("ext4", "/", None)]),
        (PLAIN, "bios", [(None, None, 1 << 20), ("ext4", "/", None)]),
        (VOLUMES, "uefi", [("vfat", "/boot/efi", 512 << 20), ("lvm", None, None), ("ext4", "/", 6 * GIB)]),
        (VOLUMES, "bios", [(None, None, 1 << 20), ("lvm", None, None), ("ext4", "/", 6 * GIB)]),
    ],
)
def test_layout(install: model_install.Install, firmware: str, found: list[tuple[t.Any, ...]]) -> None:
    layout = plan_install.layout(install, firmware, None)
    assert [(one["content"], one["mount"], one["size_bytes"]) for one in layout] == found
    assert "the rest" in plan_install.lines(layout)[1] and len(plan_install.lines(layout)) == len(found)
    assert "99.5 GiB" in plan_install.lines(plan_install.layout(install, "uefi", 100 * GIB))[1]


@pytest.mark.parametrize("firmware", ["uefi", "bios"])
@pytest.mark.parametrize("install", [PLAIN, VOLUMES])
def test_the_table_is_what_sfdisk_writes(install: model_install.Install, firmware: str, tmp_path: pathlib.Path) -> None:
    """With the real program, on a file."""
    disk = tmp_path / "disk"
    with disk.open("wb") as stream:
        stream.truncate(8 * GIB)
    subprocess.run(["/sbin/sfdisk", "--quiet", str(disk)], input=plan_install.table(install, firmware), text=True, check=True, capture_output=True)

    def read() -> t.Any:
        return json.loads(subprocess.run(["/sbin/sfdisk", "--json", str(disk)], text=True, check=True, capture_output=True).stdout)["partitiontable"]

    found = read()
    assert found["label"] == "gpt" and found["id"].lower() == STARTED
    assert [part["name"] for part in found["partitions"]] == [one.purpose for one in plan_install.partitions(install, firmware)]
    assert found["partitions"][0]["size"] * 512 == (512 << 20 if firmware == "uefi" else 1 << 20)
    assert 0 <= 8 * GIB - sum(part["size"] * 512 for part in found["partitions"]) < 3 << 20
    # the mark changes in place
    subprocess.run(["/sbin/sfdisk", "--disk-id", str(disk), COMPLETE], check=True, capture_output=True)
    assert read() == {**found, "id": COMPLETE.upper()}
    label = subprocess.run(
        ["/sbin/blkid", "--probe", "--output", "value", "--match-tag", "PTUUID", str(disk)], text=True, check=True, capture_output=True
    ).stdout.strip()
    assert label == COMPLETE


def test_bios_does_not_boot_from_a_disk_with_large_sectors() -> None:
    large = EMPTY._replace(sector=4096)
    assert plan_install.decide(large, PLAIN, "uefi", ()) == "write"
    with pytest.raises(RefusedError, match=r"/dev/sda \(S1\) has sectors of 4096 bytes, from which BIOS does not boot") as caught:
        plan_install.decide(large, PLAIN, "bios", ("S1",))
    assert caught.value.path == "servers.metal1.install.disk" and caught.value.hint
    text = json.dumps({"blockdevices": [{"name": "sda", "path": "/dev/sda", "type": "disk", "size": GIB, "serial": "S1", "log-sec": 4096}]})
    assert [disk.sector for disk in plan_install_files.disks(text, "/mnt")] == [4096]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root attaches a disk with sectors of another size")
@pytest.mark.parametrize("sector", [512, 4096])
def test_sizes_are_the_same_with_sectors_of_any_size(sector: int, tmp_path: pathlib.Path) -> None:
    """With the real programs, on a loop device."""
    with (tmp_path / "disk").open("wb") as stream:
        stream.truncate(8 * GIB)
    argv = ["losetup", "--show", "--find", "--sector-size", str(sector)]
    device = subprocess.run([*argv, str(tmp_path / "disk")], text=True, check=True, capture_output=True).stdout.strip()
    try:
        subprocess.run(["/sbin/sfdisk", "--quiet", device], input=plan_install.table(PLAIN, "uefi"), text=True, check=True, capture_output=True)
        found = json.loads(subprocess.run(["/sbin/sfdisk", "--json", device], text=True, check=True, capture_output=True).stdout)["partitiontable"]
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
    esp, root = found["partitions"]
    assert (found["sectorsize"], esp["start"] * sector, esp["size"] * sector) == (sector, 1 << 20, 512 << 20)
    assert 0 <= 8 * GIB - (root["start"] + root["size"]) * sector < 2 << 20
    # the kernel need not offer partitions of loop devices
    argv += ["--offset", str(esp["start"] * sector), "--sizelimit", str(esp["size"] * sector)]
    device = subprocess.run([*argv, str(tmp_path / "disk")], text=True, check=True, capture_output=True).stdout.strip()
    try:
        io_install.make_esp(device, "12345678")
        with open(device, "rb") as stream:
            boot = stream.read(4096)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
    # of the BIOS parameter block: bytes of a sector, and the kind of the file system
    assert (int.from_bytes(boot[11:13], "little"), boot[82:90]) == (sector, b"FAT32   ")


@pytest.mark.parametrize(("value", "found"), [(None, []), ([], []), ("S1", ["S1"]), (["S1"], ["S1"]), ("S1, ", ["S1"])])
def test_serials_to_erase(value: t.Any, found: list[str]) -> None:
    assert plan_install.serials(value, [PLAIN]) == found


@pytest.mark.parametrize("value", ["S2", ["S1", "/dev/sda"], ["all"], 5, {"S1": 1}, True, "*"])
def test_only_disks_that_are_installed_are_erased(value: t.Any) -> None:
    with pytest.raises(FootprintError) as caught:
        plan_install.serials(value, [PLAIN])
    assert str(caught.value.path).startswith("install_server_erase") and caught.value.hint
