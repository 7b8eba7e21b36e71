# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A canary in every file of a source that may hold a secret: in no facts for the operator, no diff, no warning."""

from __future__ import annotations

import json

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups import Context, fixups_diff, plan_fixups
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_network import NicChange
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout, PlannedPartition
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_facts, io_services, run_agent
from tests.support.canary import Canaries

MAC, NEW = "02:ab:00:00:00:02", "52:54:00:11:22:33"
CANARIES = Canaries()
C = CANARIES
# each has a line that changes beside the one that holds the secret, so that the diff shows its neighbours
SOURCE = {
    "/etc/netplan/50.yaml": (f"network:\n  wifis:\n    w: {{match: {{macaddress: {MAC}}}, access-points: {{home: {{password: {C('netplan')}}}}}}}\n"),
    "/etc/netplan/60.yaml": (
        f"network:\n  tunnels:\n    wg0:\n      key: {C('netplan key')}\n      macaddress: {MAC}\n"
        f"      peers: [{{keys: {{shared: {C('netplan shared')}}}}}]\n"
    ),
    "/etc/network/interfaces": f"iface w inet dhcp\n  wpa-psk {C('ifupdown')}\n  hwaddress {MAC}\n  wpa-password {C('ifupdown password')}\n",
    "/etc/NetworkManager/system-connections/w": f"[wifi]\nmac-address={MAC}\n[wifi-security]\npsk={C('nm')}\n[vpn-secrets]\nany={C('nm vpn')}\n",
    "/etc/NetworkManager/system-connections/wg": (
        f"[wireguard]\nprivate-key={C('nm wg')}\n[wireguard-peer.x]\npreshared-key={C('nm peer')}\n[ethernet]\ncloned-mac-address={MAC}\n"
    ),
    "/etc/NetworkManager/system-connections/dot1x": f"[802-1x]\nprivate-key-password={C('nm dot1x')}\nidentity=x\n[ethernet]\nmac-address={MAC}\n",
    "/etc/systemd/network/wg.netdev": (
        f"[NetDev]\nMACAddress={MAC}\n" f"[WireGuard]\nPrivateKey={C('networkd')}\n[WireGuardPeer]\nPresharedKey={C('networkd peer')}\n"
    ),
    "/etc/sysconfig/network-scripts/ifcfg-w": f"HWADDR={MAC}\nWPA_PSK='{C('ifcfg')}'\n",
    "/etc/dhcp/dhcpd.conf": f'key k {{ algorithm x; secret "{C("dhcpd")}"; }}\nhost a {{ hardware ethernet {MAC}; }}\n',
    "/etc/dnsmasq.d/x": f"dhcp-host={MAC}\n# password: {C('comment')}\n",
    "/etc/fuel/astute.yaml": f"FUEL_ACCESS: {{user: admin, password: {C('fuel')}}}\nmac: {MAC}\nkeystone:\n  admin_token: {C('fuel token')}\n",
    "/etc/fstab": f"//nas/x /mnt cifs username=me,password={C('fstab')} 0 0\n/dev/sda1 /mnt/x ext4 defaults 0 2\n",
    "/etc/systemd/system/mac.service": f"[Service]\nEnvironment=DB_PASSWORD={C('unit')}\nExecStart=/sbin/ip link set eth0 address {MAC}\n",
    "/etc/default/grub": 'GRUB_CMDLINE_LINUX="root=/dev/sda1 netroot=iscsi"\n' + f"GRUB_PASSWORD={C('grub')}\n",
}


@pytest.fixture(name="source")
def fixture_source(monkeypatch):
    monkeypatch.setattr(io_facts, "gather", lambda *unused: {"hostname": "x"})
    monkeypatch.setattr(io_facts, "read_tree", lambda patterns: dict(SOURCE))
    monkeypatch.setattr(io_facts, "read_text", lambda path: None)
    for name in ("everything", "running_containers"):
        monkeypatch.setattr(io_services, name, list)
    monkeypatch.setattr(io_services, "user_services", dict)


def test_facts_have_no_scripts_and_units_without_a_mac(source, monkeypatch):
    monkeypatch.setattr(io_facts, "read_tree", lambda patterns: {"/etc/rc.local": "true\n", "/etc/systemd/system/x.service": "[Service]\n"})
    assert run_agent.gather_facts(secrets=True)["tree"] == {}


def test_facts_for_the_operator_have_none(source):
    shown = run_agent.gather_facts()
    assert set(shown["tree"]) == set(SOURCE)
    assert not C.in_text(json.dumps(shown), "facts")
    # what goes to the destination by ssh is whole, or the copy would be spoiled
    assert C.in_text(json.dumps(run_agent.gather_facts(secrets=True)), "facts")


def test_the_diff_of_the_fix_ups_has_none():
    root = PlannedPartition(1, "/", "ext4", 0, 0, "aaaa", "p1", None)
    context = Context((NicChange("w", MAC, NEW),), DiskLayout((), (root,)), "k")
    changes = plan_fixups(SOURCE, context)
    shown = fixups_diff(SOURCE, changes)
    assert [path for path in SOURCE if f"+++ master VM:{path}" not in shown] == []
    assert not C.in_text(shown, "diff")
    # and what check mode makes of masked facts says the same
    masked = {path: run_agent.mask_text(text, path) for path, text in SOURCE.items()}
    assert fixups_diff(masked, plan_fixups(masked, context)) == shown
    # the copy itself keeps its secrets
    assert {each.name for each in C.in_text(json.dumps({**SOURCE, **changes}), "copy")} == {each.name for each in C.in_text(json.dumps(SOURCE), "source")}
