# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ipaddress
import uuid

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.bootstrap import plan_bootstrap

VMS = [str(uuid.uuid5(uuid.NAMESPACE_DNS, f"vm{number}")) for number in range(600)]
HOST = {
    "arch": "x86_64",
    "tools": {tool: f"/usr/bin/{tool}" for tool in (*plan_bootstrap.TOOLS, *plan_bootstrap.SERVING_TOOLS)},
    "kernel": "6.1.0-1-amd64",
    "missing_modules": [],
    "fuse": True,
    "ipv6": True,
    "rom": True,
}


def said(*, serve=True, bridge="br-admin", vlan=None, **host):
    return plan_bootstrap.problems({**HOST, **host}, serve=serve, bridge=bridge, vlan=vlan)


def test_a_fit_host_has_no_problem():
    assert said() == [] and said(serve=False) == [] and said(vlan=7) == []


@pytest.mark.parametrize(
    ("given", "words", "path"),
    [
        ({"arch": "aarch64"}, "not supported on aarch64", "boot"),
        ({"tools": {**HOST["tools"], "qemu-nbd": None, "dnsmasq": None}}, "qemu-nbd, dnsmasq on the destination", "destination.tools"),
        ({"fuse": False}, "no /dev/fuse", "boot"),
        ({"kernel": None}, "no kernel in /boot", "destination.tools"),
        ({"missing_modules": ["virtio_blk"]}, "6.1.0-1-amd64 has no module virtio_blk", "destination.tools"),
        ({"rom": False}, "no network boot ROM", "destination.tools"),
        ({"ipv6": False}, "IPv6 is disabled", "boot"),
        ({"bridge": None}, "a network card on a bridge", "vm.nics[0].bridge"),
        ({"serve": False, "vlan": 7}, "on VLAN 7 cannot be reached", "vm.nics[0].vlan"),
    ],
)
def test_what_is_missing_is_named_with_its_hint(given, words, path):
    ((message, hint, where),) = said(**given)
    assert words in message and hint.endswith(".") and where == path


def test_everything_missing_is_named_at_once():
    nothing = {"tools": {}, "kernel": None, "fuse": False, "rom": False, "ipv6": False}
    assert len(said(bridge=None, **nothing)) == 6


def test_a_source_that_serves_needs_no_server_here():
    assert said(serve=False, tools={**HOST["tools"], "dnsmasq": None}) == []


@pytest.mark.parametrize(
    ("mac", "address"),
    [("52:54:00:12:34:56", "fe80::5054:ff:fe12:3456"), ("02:00:00:00:00:01", "fe80::ff:fe00:1"), ("fe:ff:ff:ff:ff:ff", "fe80::fcff:ffff:feff:ffff")],
)
def test_a_card_is_found_by_its_mac(mac, address):
    assert plan_bootstrap.link_local(mac) == address


@pytest.mark.parametrize("vm", VMS[::20])
def test_a_wire_has_names_and_addresses_that_are_legal(vm):
    way = plan_bootstrap.wire(vm)
    assert way == plan_bootstrap.wire(vm)
    assert len(way.outer) <= 15 and len(way.inner) <= 15 and way.outer != way.inner
    server, client = ipaddress.IPv4Interface(f"{way.server}/{way.prefix}"), ipaddress.IPv4Interface(f"{way.client}/{way.prefix}")
    assert server.network == client.network and server != client
    assert {server.ip, client.ip} == set(server.network.hosts()) and server.ip.is_link_local
    # a bridge takes the lowest MAC of its ports for its own
    assert way.mac.startswith("fe:") and len(way.mac.split(":")) == 6


def test_no_wire_lies_where_others_have_their_addresses():
    for vm in VMS:
        third = plan_bootstrap.wire(vm).server.split(".")[2]
        assert third not in ("0", "255", "169")


def test_names_are_the_same_in_every_run():
    assert plan_bootstrap.stand_in_uuid(VMS[0]) == plan_bootstrap.stand_in_uuid(VMS[0]) != VMS[0]
    assert plan_bootstrap.stand_in_name("master") == "master-bootstrap" and plan_bootstrap.unit_name("master") == "reduced-footprint-pxe-master.service"


def test_the_server_answers_one_card_and_comes_first():
    way = plan_bootstrap.wire(VMS[0])
    argv = plan_bootstrap.serve_argv(way, "52:54:00:12:34:56", "/var/cache/x")
    assert f"--dhcp-host=52:54:00:12:34:56,{way.client}" in argv and "--dhcp-ignore=tag:!known" in argv
    assert f"--dhcp-range={way.client},static,255.255.255.252,10m" in argv and f"--interface={way.inner}" in argv
    # option 175: priority (1) of 127, no-pxedhcp (176)
    assert "--dhcp-option-force=175,01:01:7f:b0:01:01" in argv
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
    ("lines", "serve", "words", "hint"),
    [
        (["Kernel panic"], True, "console: Kernel panic", "boot_timeout"),
        ([], True, "found no boot image", "journalctl -u u.service"),
        ([], False, "found no boot image", "boot.ipxe, vmlinuz and initrd.img of /f by TFTP"),
    ],
)
def test_unreachable_bootstrap_system_is_explained(lines, serve, words, hint):
    message, advice = plan_bootstrap.unreached(300.4, lines, serve=serve, unit="u.service", folder="/f")
    assert "300 s" in message and words in message and hint in advice
