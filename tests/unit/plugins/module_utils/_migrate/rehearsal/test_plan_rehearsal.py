# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import uuid

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import plan_rehearsal

VM = "6e1b2c3d-0000-4000-8000-000000000001"
# as a console brings it: colours, cursor keys, a line written over itself, a firmware's screen
BOOT = (
    "\x1b[2J\x1b[01;01H\x1b[=3hSeaBIOS (version 1.16.2)\r\n\r\nBooting from Hard Disk...\r\n"
    "\x1b[2;4H+-----+\x1b[3;4H|\x1b[3;78H|\x1b[4;2H   Debian in 1s.   \x1b[5;78H\x1b[?25h\x1b[H\x1b[J\r\n"
    "[    0.000000] Linux version 6.1.0\r\n10%\r50%\rdone\r\n[\x1b[0;32m  OK  \x1b[0m] Started \x1b[0;1;39mssh.service\x1b[0m.\r\n\x00\x07login: "
)


def test_a_console_reads_like_text():
    assert plan_rehearsal.tail(BOOT, 4) == ["[    0.000000] Linux version 6.1.0", "done", "[  OK  ] Started ssh.service.", "login:"]
    assert plan_rehearsal.tail(BOOT, 6)[:2] == ["Booting from Hard Disk...", "Debian in 1s."]
    assert plan_rehearsal.tail(BOOT, 0) == [] and plan_rehearsal.tail("", 5) == [] and len(plan_rehearsal.tail("x" * 5000, 1)[0]) == 200


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("[    3.1] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\r\n", "kernel panicked"),
        ("You are in emergency mode. After logging in, type", "emergency mode"),
        ("ALERT!  UUID=0a1b does not exist.  Dropping to a shell!\r\n(initramfs) ", "root file system"),
        ("Generating \"/run/initramfs/rdsosreport.txt\"\r\nEntering emergency mode. Exit the shell to continue.\r\n", "does not find a required device"),
        ("error: no such device: 0a1b.\r\nEntering rescue mode...\r\ngrub rescue> ", "GRUB"),
        ("BdsDxe: No bootable option or device was found.\r\n", "firmware"),
        (BOOT, None),
        ("[  OK  ] Reached target rescue.target - Rescue Mode is not here\r\n", None),
        ("", None),
    ],
)
def test_a_machine_that_will_not_come_up_is_known(said, reason):
    found = plan_rehearsal.stuck(BOOT + said)
    assert found is None if reason is None else reason in found


def test_the_stand_in_is_found_again_and_is_not_the_vm():
    other = plan_rehearsal.stand_in_uuid(VM)
    assert other == plan_rehearsal.stand_in_uuid(VM) != VM and uuid.UUID(other)
    assert plan_rehearsal.stand_in_name("master") == "master-rehearsal"


def test_the_kernel_takes_the_names_of_the_taps():
    names = plan_rehearsal.tap_names(VM, 10)
    assert len(set(names)) == 10 and all(len(each) <= 15 for each in names)
    assert not set(names) & set(plan_rehearsal.tap_names(VM.replace("1", "2"), 10))


def test_the_neighbour_is_never_the_master():
    assert plan_rehearsal.neighbour("192.0.2.11", "192.0.2.3", "192.0.2.2") == "192.0.2.11"
    assert plan_rehearsal.neighbour("192.0.2.2", "192.0.2.3", "192.0.2.2") == "192.0.2.3"
    assert plan_rehearsal.neighbour(None, "192.0.2.3", "192.0.2.2") == "192.0.2.3"


@pytest.mark.parametrize(
    ("admin", "vlan"), [("eno1", None), ("eno1.42", 42), ("br0", 42), ("bond0", None), ("gone", None), (None, None), ("round", None)]
)
def test_the_vlan_of_the_admin_network_is_found_below_it(admin, vlan):
    interfaces = [
        {"name": "eno1"},
        {"name": "eno1.42", "kind": "vlan", "vlan": 42, "lower": ["eno1"]},
        {"name": "br0", "kind": "bridge", "lower": ["tap9", "eno1.42"]},
        {"name": "bond0", "kind": "bond", "lower": ["eno1", "eno2"]},
        {"name": "round", "kind": "bridge", "lower": ["ring"]},
        {"name": "ring", "kind": "bridge", "lower": ["round"]},
    ]
    assert plan_rehearsal.admin_vlan(interfaces, admin) == vlan
