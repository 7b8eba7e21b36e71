# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout, PlannedPartition
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups import (
    MARK,
    Context,
    drop_key,
    fix_fstab,
    fixups_diff,
    plan_fixups,
)
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_boot import clean_command_line
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_network import NicChange, macs_of, replace_address

ROOT = PlannedPartition(2, "/", "ext4", 0, 0, "aaaa-root", "p1", None)
SRV = PlannedPartition(3, "/srv", "xfs", 0, 0, "bbbb-srv", "p2", None)
SWAP = PlannedPartition(4, None, "swap", 0, 0, "cccc-swap", "p3", None)
NIC = NicChange("enp0s31f6", "02:ab:00:00:00:02", "52:54:00:11:22:33")
LAYOUT = DiskLayout((), (ROOT, SRV, SWAP))
CONTEXT = Context(nics=(NIC,), layout=LAYOUT, key_marker="reduced.footprint-migrate-master")

FSTAB = """\
# kept
/dev/nvme0n1p2   /       ext4  defaults,errors=remount-ro 0 1
UUID=1234 /srv/ ext4 noatime,data=ordered 0 2
/dev/mapper/vg-var /var xfs defaults 0 0
PARTUUID=9 /boot/efi vfat umask=0077 0 1
/dev/nvme0n1p4 none swap sw,nofail 0 0
nas:/export /mnt/nas nfs defaults 0 0
tmpfs /tmp tmpfs size=1g 0 0
/srv/x /home none bind 0 0
/swapfile none swap sw 0 0
/dev/shm/x /y none bind 0 0
"""
FSTAB_NEW = f"""\
# kept
UUID=aaaa-root / ext4 defaults,errors=remount-ro 0 1
UUID=bbbb-srv /srv xfs defaults 0 0
{MARK} the old disk stayed behind: /dev/mapper/vg-var /var xfs defaults 0 0
{MARK} the old disk stayed behind: PARTUUID=9 /boot/efi vfat umask=0077 0 1
{MARK} the old disk stayed behind: /dev/nvme0n1p4 none swap sw,nofail 0 0
nas:/export /mnt/nas nfs defaults 0 0
tmpfs /tmp tmpfs size=1g 0 0
/srv/x /home none bind 0 0
/swapfile none swap sw 0 0
/dev/shm/x /y none bind 0 0
UUID=cccc-swap none swap sw 0 0
"""

DEBIAN = {
    "/etc/debian_version": "12.1\n",
    "/etc/fstab": FSTAB,
    "/etc/crypttab": "# c\nroot_crypt UUID=5 none luks\nstay /swapfile none\n",
    "/etc/mdadm/mdadm.conf": "HOMEHOST <system>\nARRAY /dev/md0 UUID=1:2\n",
    "/etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet resume=UUID=77 splash"\nGRUB_CMDLINE_LINUX="rd.lvm.lv=vg/root net.ifnames=0"\n',
    "/etc/systemd/network/10-admin.network": "[Match]\nMACAddress=02:AB:00:00:00:02\n[Network]\nAddress=192.0.2.2/24\n",
    "/etc/cloud/cloud.cfg": "x: y\n",
    "/boot/grub/device.map": "(hd0) /dev/nvme0n1\n",
    "/root/.ssh/authorized_keys": "ssh-ed25519 AAA me\nfrom=\"x\",restrict ssh-ed25519 BBB reduced.footprint-migrate-master\n",
}
DEBIAN_CHANGED = {
    "/etc/fstab": FSTAB_NEW,
    "/etc/crypttab": f"# c\n{MARK} the old disk stayed behind: root_crypt UUID=5 none luks\nstay /swapfile none\n",
    "/etc/mdadm/mdadm.conf": f"HOMEHOST <system>\n{MARK} the old disk stayed behind: ARRAY /dev/md0 UUID=1:2\n",
    "/etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\nGRUB_CMDLINE_LINUX="net.ifnames=0"\n',
    "/etc/systemd/network/10-admin.network": "[Match]\nMACAddress=52:54:00:11:22:33\n[Network]\nAddress=192.0.2.2/24\n",
    "/etc/cloud/cloud-init.disabled": f"{MARK} this machine was migrated and must not be initialized\n",
    "/boot/grub/device.map": None,
    "/root/.ssh/authorized_keys": "ssh-ed25519 AAA me\n",
    "/etc/initramfs-tools/conf.d/resume": "RESUME=none\n",
}


def applied(tree):
    changes = plan_fixups(tree, CONTEXT)
    return {path: text for path, text in {**tree, **changes}.items() if text is not None}


def test_fstab_speaks_of_the_new_disk_and_keeps_what_is_not_on_the_old():
    assert fix_fstab(FSTAB, LAYOUT) == FSTAB_NEW


def test_an_fstab_without_a_root_gets_one():
    assert fix_fstab("# UNCONFIGURED\n", DiskLayout((), (ROOT,))) == "# UNCONFIGURED\nUUID=aaaa-root / ext4 defaults 0 1\n"


def test_the_tree_of_a_debian_source():
    changes = plan_fixups(DEBIAN, CONTEXT)
    assert {path: changes[path] for path in DEBIAN_CHANGED} == DEBIAN_CHANGED
    assert set(changes) - set(DEBIAN_CHANGED) == {
        "/etc/default/grub.d/zz-reduced-footprint.cfg",
        "/etc/initramfs-tools/conf.d/zz-reduced-footprint",
        "/etc/systemd/network/01-reduced-footprint-enp0s31f6.link",
        "/etc/systemd/system.conf.d/zz-reduced-footprint.conf",
    }
    link = changes["/etc/systemd/network/01-reduced-footprint-enp0s31f6.link"]
    assert "MACAddress=52:54:00:11:22:33\n" in link and "Name=enp0s31f6\n" in link


def test_the_tree_of_a_red_hat_source():
    tree = {
        "/etc/redhat-release": "x",
        "/etc/fstab": FSTAB,
        "/etc/default/grub": 'GRUB_CMDLINE_LINUX="rd.lvm.lv=vg/root rhgb"\n',
        "/etc/sysconfig/network-scripts/ifcfg-enp0s31f6": 'HWADDR="02:AB:00:00:00:02"\n',
    }
    changes = plan_fixups(tree, CONTEXT)
    assert changes["/etc/default/grub"] == 'GRUB_CMDLINE_LINUX="rhgb console=tty0 console=ttyS0,115200"\n'
    assert 'hostonly="no"' in changes["/etc/dracut.conf.d/90-reduced-footprint.conf"]
    assert changes["/etc/sysconfig/network-scripts/ifcfg-enp0s31f6"] == 'HWADDR="52:54:00:11:22:33"\n'
    assert not any(path.startswith("/etc/initramfs-tools") for path in changes)


@pytest.mark.parametrize("tree", [DEBIAN, {"/etc/fstab": FSTAB}, {}])
def test_a_second_time_changes_nothing(tree):
    once = applied(tree)
    assert plan_fixups(once, CONTEXT) == {}


def test_every_spelling_of_a_mac_is_found_and_no_other():
    text = "02:AB:00:00:00:02 02-ab-00-00-00-02 02:ab:00:00:00:02f 02:ab:00:00:00:03"
    assert macs_of([NIC]).fix("/etc/ethers", text) == "52:54:00:11:22:33 52-54-00-11-22-33 02:ab:00:00:00:02f 02:ab:00:00:00:03"


def test_an_address_is_replaced_whole_or_not_at_all():
    text = "address 10.0.0.2/24\naddresses: [10.0.0.2/24, 10.0.0.20/24]\nx=110.0.0.2 10.0.0.2.3\nDNS=10.0.0.2\n# 10.0.0.2\ngateway 10.0.0.2\n"
    assert replace_address(text, "10.0.0.2", "10.0.0.3") == (
        "address 10.0.0.3/24\naddresses: [10.0.0.3/24, 10.0.0.20/24]\nx=110.0.0.2 10.0.0.2.3\nDNS=10.0.0.2\n# 10.0.0.2\ngateway 10.0.0.2\n"
    )


def test_arguments_about_old_disks_leave_the_command_line():
    assert clean_command_line('GRUB_CMDLINE_LINUX="a=b root=/dev/sda1 resume=UUID=1 rootdelay=3"\nX="root=1"\n') == (
        'GRUB_CMDLINE_LINUX="a=b rootdelay=3"\nX="root=1"\n'
    )


def test_only_the_one_time_key_is_dropped():
    text = "a key me\nb key reduced.footprint-migrate-master\nc key reduced.footprint-migrate-master2\n"
    assert drop_key(text, "reduced.footprint-migrate-master") == "a key me\nc key reduced.footprint-migrate-master2\n"


def test_a_diff_shows_no_secret():
    mac = "02:ab:00:00:00:02"
    tree = {
        "/etc/netplan/x.yaml": f"wifi: {{w: {{match: {{macaddress: {mac}}}, access-points: {{home: {{password: hunter2}}}}}}}}\n",
        "/etc/NetworkManager/system-connections/x": f"[ethernet]\nmac-address={mac}\n[vpn-secrets]\nanything=hunter2\n",
        "/etc/network/interfaces": f"iface eno1 inet dhcp\n  wpa-psk hunter2\n  up ip link show | grep {mac}\n",
        "/etc/dhcp/dhcpd.conf": f'key k {{ secret "hunter2"; }}\nhost a {{ hardware ethernet {mac}; }}\n',
    }
    text = fixups_diff(tree, plan_fixups(tree, CONTEXT))
    assert "hunter2" not in text and text.count("+") - text.count("+++") >= 4 and text.count("52:54:00:11:22:33") >= 4
