# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import uuid

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.bootstrap import plan_bootstrap

VMS = [str(uuid.uuid5(uuid.NAMESPACE_DNS, f"vm{number}")) for number in range(600)]
HOST = {
    "arch": "x86_64",
    "tools": {tool: f"/usr/bin/{tool}" for tool in plan_bootstrap.TOOLS},
    "kernel": "6.1.0-1-amd64",
    "missing_modules": [],
    "fuse": True,
    "ipv6": True,
    "rom": True,
}


def said(*, from_source=False, bridge="br-admin", vlan=None, **host):
    return list(plan_bootstrap.problems({**HOST, **host}, types.SimpleNamespace(bridge=bridge, vlan=vlan), from_source=from_source))


def test_a_fit_host_has_no_problem():
    assert said() == [] and said(from_source=True) == [] and said(vlan=7) == [] and said(bridge=None) == []


@pytest.mark.parametrize(
    ("given", "words", "path"),
    [
        ({"arch": "aarch64"}, "not supported on aarch64", "boot"),
        ({"tools": {**HOST["tools"], "qemu-nbd": None, "dnsmasq": None}}, "dnsmasq, qemu-nbd on the destination", "destination.tools"),
        ({"fuse": False}, "no /dev/fuse", "boot"),
        ({"kernel": None}, "no kernel in /boot", "destination.tools"),
        ({"missing_modules": ["virtio_blk"]}, "6.1.0-1-amd64 has no module virtio_blk", "destination.tools"),
        ({"rom": False}, "no network boot ROM", "destination.tools"),
        ({"ipv6": False}, "IPv6 is disabled", "boot"),
        ({"from_source": True, "bridge": None}, "a network card on a bridge", "vm.nics[0].bridge"),
        ({"from_source": True, "vlan": 7}, "on VLAN 7 cannot be reached", "vm.nics[0].vlan"),
    ],
)
def test_what_is_missing_is_named_with_its_hint(given, words, path):
    ((message, hint, where),) = said(**given)
    assert words in message and hint.endswith(".") and where == path


def test_everything_missing_is_named_at_once():
    nothing = {"tools": {}, "kernel": None, "fuse": False, "rom": False, "ipv6": False}
    assert len(said(from_source=True, bridge=None, **nothing)) == 6


@pytest.mark.parametrize(
    ("mac", "address"),
    [("52:54:00:12:34:56", "fe80::5054:ff:fe12:3456"), ("02:00:00:00:00:01", "fe80::ff:fe00:1"), ("fe:ff:ff:ff:ff:ff", "fe80::fcff:ffff:feff:ffff")],
)
def test_a_card_is_found_by_its_mac(mac, address):
    assert plan_bootstrap.link_local(mac) == address


def test_names_of_taps_are_legal_and_differ():
    names = {plan_bootstrap.tap_name(vm) for vm in VMS}
    assert len(names) == len(VMS) and max(map(len, names)) <= 15
    assert {plan_bootstrap.SERVER.ip, plan_bootstrap.CLIENT} == set(plan_bootstrap.SERVER.network.hosts())


def test_names_are_the_same_in_every_run():
    assert plan_bootstrap.stand_in_uuid(VMS[0]) == plan_bootstrap.stand_in_uuid(VMS[0]) != VMS[0]
    assert plan_bootstrap.stand_in_name("master") == "master-bootstrap" and plan_bootstrap.unit_name("master") == "reduced-footprint-pxe-master.service"


def test_the_server_answers_one_card():
    argv = plan_bootstrap.serve_argv("rfb0", "52:54:00:12:34:56", "/var/cache/x")
    assert "--dhcp-host=52:54:00:12:34:56,169.254.1.2" in argv and "--dhcp-ignore=tag:!known" in argv
    assert "--dhcp-range=169.254.1.2,static,255.255.255.252,10m" in argv and "--interface=rfb0" in argv
    assert "--port=0" in argv and "--tftp-root=/var/cache/x" in argv


def test_the_system_holds_no_secret_and_its_seed_no_more_than_the_keys():
    files = plan_bootstrap.files(["/lib/x"], ["/lib/modules/a.ko", "/lib/modules/b.ko"])
    assert not any("PRIVATE" in text for _mode, text in files.values())
    assert files["/modules"][1] == "/lib/modules/a.ko\n/lib/modules/b.ko\n"
    assert "@" not in files["/init"][1].replace("$@", "") and "LD_LIBRARY_PATH=/lib/x" in files["/init"][1]
    content = plan_bootstrap.seed("-----BEGIN\nabc\n-----END\n", "ssh-ed25519 AAAA x\n")
    lines = content.rstrip(b"\0").decode("ascii").splitlines()
    assert lines == ["host -----BEGIN", "host abc", "host -----END", 'client restrict,port-forwarding,command="/bin/ready" ssh-ed25519 AAAA x', "end"]
    assert len(content) % 512 == 0


def test_sshd_config_allows_access_to_the_disks_only():
    config = plan_bootstrap.files([], [])["/etc/ssh/sshd_config"][1].splitlines()
    for line in ("PermitRootLogin forced-commands-only", "PasswordAuthentication no", "AllowStreamLocalForwarding local", "PermitTTY no"):
        assert line in config


def test_programs_go_where_they_are_called():
    found = plan_bootstrap.places({name: f"/usr/bin/{name}" for name in plan_bootstrap.PROGRAMS})
    assert found["/bin/insmod"] == "/usr/bin/kmod" and found["/usr/sbin/sshd"] == "/usr/bin/sshd" and found["/bin/sh"] == "/usr/bin/sh"
    assert "/bin/kmod" not in found


def test_what_it_exports_is_read():
    assert plan_bootstrap.exported("disk 0 1024\ndisk 1 2048\nwarning: x\n") == {0: 1024, 1: 2048}
    assert plan_bootstrap.exported("") == {}


@pytest.mark.parametrize(
    ("lines", "from_source", "words", "hint"),
    [
        (["Kernel panic"], False, "console: Kernel panic", "boot_timeout"),
        ([], False, "found no boot image", "journalctl -u u.service"),
        ([], True, "found no boot image", "boot.ipxe, vmlinuz and initrd.img of /f by TFTP"),
    ],
)
def test_unreachable_bootstrap_system_is_explained(lines, from_source, words, hint):
    message, advice = plan_bootstrap.unreached(300.4, lines, from_source=from_source, unit="u.service", folder="/f")
    assert "300 s" in message and words in message and hint in advice
