# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of a machine. Its disks, links and units are made up, in the formats of the kernel, smartctl and systemctl: a test has no failing ones."""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_machine
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import model_one_time_key


def write(root: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def program(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_links(tmp_path: pathlib.Path) -> None:
    net = "sys/class/net"
    root = write(tmp_path, {
        f"{net}/br0/flags": "0x1003", f"{net}/br0/mtu": "1500", f"{net}/br0/carrier": "1", f"{net}/br0/bridge/stp_state": "0",
        f"{net}/eno1/flags": "0x1103", f"{net}/eno1/mtu": "9000", f"{net}/eno1/carrier": "0", f"{net}/eno1/speed": "-1", f"{net}/eno1/device/vendor": "x",
        # the kernel has no carrier of one that is off
        f"{net}/bond0/flags": "0x1002", f"{net}/bond0/mtu": "1500", f"{net}/bond0/bonding/mode": "x",
        f"{net}/bonding_masters": "bond0", f"{net}/eno1.7/flags": "0x1003", f"{net}/eno1.7/mtu": "1500",
    })  # fmt: skip
    (root / net / "eno1/master").symlink_to("../br0")
    (root / net / "eno1.7/lower_eno1").symlink_to("../eno1")
    assert io_machine.links(str(root)) == [
        {"name": "bond0", "kind": "bond", "master": None, "up": False, "carrier": None, "mtu": 1500, "speed": None},
        {"name": "br0", "kind": "bridge", "master": None, "up": True, "carrier": True, "mtu": 1500, "speed": None},
        {"name": "eno1", "kind": "device", "master": "br0", "up": True, "carrier": False, "mtu": 9000, "speed": -1},
        {"name": "eno1.7", "kind": "vlan", "master": None, "up": True, "carrier": None, "mtu": 1500, "speed": None},
    ]


def test_the_links_of_this_machine() -> None:
    assert any(one["name"] == "lo" and one["up"] and one["mtu"] > 1500 for one in io_machine.links())


def test_each_device_counts_once_and_images_do_not(tmp_path: pathlib.Path) -> None:
    mounts = tmp_path / "mounts"
    (tmp_path / "a b").mkdir()
    odd = str(tmp_path / "a b").replace(" ", "\\040")
    lines = [f"/dev/sda1 {odd} ext4 rw,relatime", "/dev/sda1 /bind ext4 rw", "/dev/sr0 /cd iso9660 ro", "tmpfs /run tmpfs rw", "/dev/sdb1 / xfs ro"]
    mounts.write_text("".join(f"{line} 0 0\n" for line in lines))
    found = io_machine.file_systems(str(mounts))
    assert [(one["path"], one["read_only"]) for one in found] == [(str(tmp_path / "a b"), False), ("/", True)]
    assert all(0 < one["free_bytes"] <= one["size_bytes"] for one in found)


SMART: list[tuple[dict[str, t.Any], bool, list[str]]] = [
    ({"smart_status": {"passed": True}, "ata_smart_attributes": {"table": [{"id": 5, "raw": {"value": 0}}, {"id": 9, "raw": {"value": 7}}]}}, True, []),
    ({"smart_status": {"passed": False}}, True, ["its SMART status is FAILED"]),
    ({"smart_status": {"passed": True}, "ata_smart_attributes": {"table": [{"id": 5, "raw": {"value": 8}}, {"id": 197, "raw": {"value": 1}}]}}, True,
     ["8 reallocated sectors", "1 pending sectors"]),
    ({"nvme_smart_health_information_log": {"critical_warning": 4, "percentage_used": 97}}, True, ["critical warning 4", "97 % of its life is used"]),
    # a virtual disk
    ({}, False, []),
]  # fmt: skip


@pytest.mark.parametrize(("document", "known", "problems"), SMART)
def test_disks(document: dict[str, t.Any], known: bool, problems: list[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk.json").write_text(json.dumps(document))
    scan = '{"devices": [{"name": "/dev/sda", "type": "sat"}]}'
    asked = f"""case "$*" in *--scan*) echo '{scan}' ;; *"--device sat /dev/sda") cat {tmp_path}/disk.json; exit 8 ;; esac"""
    program(tmp_path, monkeypatch, "smartctl", asked)
    root = write(tmp_path / "root", {"sys/block/md0/md/degraded": "1", "sys/block/sda/size": "1"})
    assert io_machine.disks(str(root)) == {
        "smart": True, "disks": [{"name": "/dev/sda", "known": known, "problems": problems}], "arrays": [{"name": "md0", "missing": 1}],
    }  # fmt: skip


def test_without_smartctl_nothing_is_known_of_disks(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert io_machine.disks(str(write(tmp_path, {"sys/block/sda/size": "1"}))) == {"smart": False, "disks": [], "arrays": []}


def test_units(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enabled = {"footprint-a.timer": "active", "footprint-b.timer": "inactive", "chrony.service": "inactive"}
    (tmp_path / "shown").write_text("\n\n".join(f"Id={name}\nActiveState={state}" for name, state in enabled.items()) + "\n")
    (tmp_path / "enabled").write_text("".join(f"{name} enabled enabled\n" for name in enabled))
    show = f'show) test "$*" = "show --property=Id,ActiveState {" ".join(enabled)}" && cat {tmp_path}/shown ;;'
    failed = 'list-units) echo "mnt-x.mount loaded failed failed /mnt/x" ;;'
    program(tmp_path, monkeypatch, "systemctl", f'case "$1" in {show} list-unit-files) cat {tmp_path}/enabled ;; {failed} esac')
    assert io_machine.units() == {"failed": ["mnt-x.mount"], "stopped": ["footprint-b.timer"], "time_services": {"chrony.service": False}}


def test_a_machine_without_such_units(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, "systemctl", 'case "$1" in list-units) exit 0 ;; list-unit-files) exit 1 ;; *) exit 2 ;; esac')
    assert io_machine.units() == {"failed": [], "stopped": [], "time_services": {}}
    # one that systemd does not run on is unknown
    program(tmp_path, monkeypatch, "systemctl", "exit 1")
    with pytest.raises(CommandError):
        io_machine.units()


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"lib/modules/6.1.0-30/a": ""}, ""),
        ({"lib/modules/6.1.0-31/a": ""}, "the running kernel 6.1.0-30 was removed"),
        # a container has no modules
        ({}, ""),
        ({"run/reboot-required": ""}, "packages that were updated require it"),
    ],
)
def test_a_due_restart(files: dict[str, str], reason: str, tmp_path: pathlib.Path) -> None:
    assert io_machine.restart(str(write(tmp_path, {"proc/sys/kernel/osrelease": "6.1.0-30\n", **files}))) == reason


def test_keys() -> None:
    now = 1_800_000_000.0
    marker = model_one_time_key.key_marker
    lines = [
        "ssh-ed25519 AAAAmine me@home",
        f'{model_one_time_key.options(["192.0.2.1"], model_one_time_key.expiry(now - 60), "x y")} ssh-ed25519 AAAAold {marker("move-web")}',
        f'{model_one_time_key.options([], model_one_time_key.expiry(now + 60), "x")} ssh-ed25519 AAAAnew {marker("m")}',
        f'{model_one_time_key.options([], None, "x")} ssh-ed25519 AAAAcopy {marker("standby-web@lab")}',
        f'# ssh-ed25519 AAAAgone {marker("gone")}',
    ]
    assert io_machine.keys("\n".join(lines), now) == [
        {"name": "move-web", "public_key": f"ssh-ed25519 AAAAold {marker('move-web')}", "left_seconds": -60},
        {"name": "m", "public_key": f"ssh-ed25519 AAAAnew {marker('m')}", "left_seconds": 60},
        {"name": "standby-web@lab", "public_key": f"ssh-ed25519 AAAAcopy {marker('standby-web@lab')}", "left_seconds": None},
    ]
