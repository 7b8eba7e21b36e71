# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._placement.first import model_answers, plan_machines
from tests.support.facts import facts_of
from tests.unit.plugins.module_utils._placement.first.test_model_answers import GIVEN

ANSWERS = model_answers.parse(GIVEN)
BRIDGED = {
    "ansible_default_ipv4": {**facts_of("192.0.2.11")["ansible_default_ipv4"], "interface": "br-admin", "type": "bridge"},
    "ansible_br_admin": {"device": "br-admin", "type": "bridge", "interfaces": ["vnet0", "eno1"]},
}


def read(metal1: t.Any = None, metal2: t.Any = None) -> plan_machines.Found:
    """Read two servers; the arguments are facts that differ, or the results without any."""
    results = []
    for name, address, change in (("metal1", "192.0.2.11", metal1), ("metal2", "192.0.2.12", metal2)):
        whole = {"ansible_facts": {**facts_of(address), **(change or {})}}
        results.append({"item": {"name": name}, **(change if change and "msg" in change else whole)})
    return plan_machines.read(ANSWERS, results)


def test_the_port_is_that_of_the_default_route() -> None:
    found = read(metal2=facts_of("192.0.2.12", port="enp3s0"))
    assert found.ports == {"metal1": "eno1", "metal2": "enp3s0"}
    assert (str(found.network.network), found.network.gateway, found.network.bridge) == ("192.0.2.0/24", "192.0.2.1", "br-admin")


def test_a_server_that_has_the_bridge_gets_the_same_again() -> None:
    assert read(BRIDGED).ports == {"metal1": "eno1", "metal2": "eno1"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["192.0.2.53", "2001:db8::53"], ("192.0.2.53", "2001:db8::53")),
        # of systemd-resolved, and of a router that advertises itself
        (["127.0.0.53", "fe80::1%eno1", "fe80::1"], ("192.0.2.1",)),
        ([], ("192.0.2.1",)),
        (["no: address"], ("192.0.2.1",)),
    ],
)
def test_nameservers_are_those_that_a_vm_reaches(given: list[str], expected: tuple[str, ...]) -> None:
    assert read({"ansible_dns": {"nameservers": given}}).network.nameservers == expected


@pytest.mark.parametrize(
    ("metal1", "message"),
    [
        ({"msg": "Task failed: Failed to connect to the host via ssh: No route to host", "unreachable": True},
         "metal1 (192.0.2.11) does not answer: No route to host. Test it with: ssh root@192.0.2.11"),
        ({"msg": "no sudo.", "failed": True}, "metal1 (192.0.2.11) could not be inspected: no sudo. Test it with: ssh root@192.0.2.11"),
        # a fact module that timed out is not a server without disks
        ({"ansible_mounts": None}, "metal1 (192.0.2.11) could not be inspected: it returned no facts."),
        ({"ansible_default_ipv4": {}}, "metal1: has no default route by IPv4"),
        ({"ansible_default_ipv4": {"address": "x", "netmask": "y", "gateway": "z", "interface": "eno1"}}, "metal1: has no default route by IPv4"),
        (facts_of("192.0.2.11", port="wlp2s0"), "metal1: its default route is on the Wi-Fi card wlp2s0"),
        (facts_of("192.0.2.11", port="a b: {c}"), "metal1: 'a b: {c}' is not the name of an interface."),
        ({**BRIDGED, "ansible_br_admin": {"interfaces": ["vnet0"]}}, "metal1: its default route is on the bridge br-admin, which has no NIC."),
        (facts_of("198.51.100.11", gateway="198.51.100.1"), "2 errors:\n  metal2: its default route is in 192.0.2.0/24, that of metal1 198.51.100.0/24."),
        (facts_of("192.0.2.11", netmask="255.255.255.240"), "metal2: its default route is in 192.0.2.0/24, that of metal1 192.0.2.0/28."),
        ({"ansible_all_ipv4_addresses": ["192.0.2.11", "192.0.2.30"]}, "init_addresses: contains 192.0.2.30, which is in use by metal1."),
    ],
)  # fmt: skip
def test_what_cannot_be_a_server_is_refused_with_a_hint(metal1: dict[str, t.Any], message: str) -> None:
    with pytest.raises(FootprintError) as raised:
        read(metal1)
    assert str(raised.value).startswith(message), raised.value


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ("198.51.100.1-198.51.100.9", "198.51.100.1 is not the address of a host in 192.0.2.0/24, the network of metal1."),
        ("192.0.2.200-192.0.2.255", "192.0.2.255 is not the address of a host in 192.0.2.0/24"),
        ("192.0.2.1-192.0.2.9", "contains 192.0.2.1, which is in use by the gateway."),
    ],
)
def test_addresses_are_free_ones_of_the_network(addresses: str, message: str) -> None:
    answers = model_answers.parse({**GIVEN, "addresses": addresses})
    results = [{"item": {"name": one.name}, "ansible_facts": facts_of(one.address)} for one in answers.machines]
    with pytest.raises(FootprintError, match=message):
        plan_machines.read(answers, results)


def test_two_bridges_of_different_names_are_refused() -> None:
    changed = {"ansible_default_ipv4": {**BRIDGED["ansible_default_ipv4"], "interface": "br0"}, "ansible_br0": BRIDGED["ansible_br_admin"]}
    with pytest.raises(FootprintError, match="metal2: its default route is on br-admin, that of metal1 br0."):
        read(changed)


def test_all_servers_that_do_not_answer_are_named() -> None:
    silent = {"msg": "timed out", "unreachable": True}
    with pytest.raises(FootprintError, match=r"2 errors:\n  metal1 .*\n  metal2 "):
        read(silent, silent)


def test_files_on_disks_count_once() -> None:
    gib = 1 << 30
    mount = {"mount": "/", "device": "/dev/sda1", "size_total": 20 * gib, "size_available": 12 * gib + 1}
    mounts = [mount, {**mount, "mount": "/var/snap"}, {**mount, "mount": "/net", "device": "nas:/x"}, {"mount": "/x", "device": "/dev/sdb1"}]
    assert plan_machines.used_gib({"mounts": mounts}) == 8


def test_the_pool_is_on_the_file_system_of_its_folder() -> None:
    mounts = [{"mount": mount, "size_total": size, "size_available": size // 2} for mount, size in (("/", 10), ("/var/lib/libvirt", 20), ("/var/lib/lib", 30))]
    assert plan_machines.pool({"mounts": mounts})["default"]["capacity_bytes"] == 20
    assert plan_machines.pool({"mounts": []}) == {}


@pytest.mark.parametrize(("total", "used", "expected"), [(16000, 2500, 4), (16000, 100, 2), (1000, 900, 1), (8000, 7000, 8), (8000, None, 8)])
def test_memory_is_from_what_the_programs_use(total: int, used: int | None, expected: int) -> None:
    assert plan_machines.memory_gib({"memtotal_mb": total, **({"memory_mb": {"nocache": {"used": used}}} if used else {})}) == expected
