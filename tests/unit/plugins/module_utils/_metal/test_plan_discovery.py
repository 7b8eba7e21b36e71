# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is done with a server, whether it is the right one, and what differs."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.filter.metal_decision import discovery_problems, discovery_report, discovery_servers, discovery_step
from ansible_collections.reduced.footprint.plugins.filter.state_text import state_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_hardware
from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_hardware_compare

GIB = 1 << 30
FACTS: dict[str, t.Any] = {
    "system": {"uuid": "u-1", "serial": "s-1", "vendor": "", "product": ""},
    "memory_bytes": 31 * GIB,
    "memory_installed_bytes": 32 * GIB,
    "cpus": 8,
    "cpu_model": "",
    "disks": [
        {"name": "sda", "serial": "A", "size_bytes": 960197124096, "removable": False, "content": []},
        {"name": "sdb", "serial": "B", "size_bytes": 480103981056, "removable": False, "content": ["gpt"]},
        {"name": "sdz", "serial": "usb", "size_bytes": 8 * GIB, "removable": True, "content": []},
    ],
    "nics": [
        {"name": "eno1", "mac": "52:54:00:00:00:01", "link": True, "neighbor": "switch1", "port": "Eth1"},
        {"name": "eno2", "mac": "52:54:00:00:00:02", "link": False, "neighbor": None, "port": None},
    ],
    "firmware": "uefi",
    "virtualization": "vmx",
    "iommu": True,
}
READ = "2026-01-02T03:04:05Z"


def kept(hardware: t.Any = None, **more: t.Any) -> str:
    return state_text({"name": "x", "read": READ, "hardware": hardware or FACTS, **more}, "discovered_server")


def folder(path: pathlib.Path, texts: t.Mapping[str, str]) -> str:
    for name, text in texts.items():
        (path / f"{name}.json").write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize(
    "given, action",
    [
        ({}, "ask"),
        ({"power": "off"}, "boot"),
        ({"power": "off", "restart": True}, "boot"),
        # it runs something unknown
        ({"power": "on"}, "refuse"),
        ({"power": "transition"}, "refuse"),
        ({"power": "on", "restart": True}, "restart"),
        ({"power": "on", "booted": True}, "read"),
        ({"power": "on", "booted": True, "restart": True}, "read"),
        # an interrupted run booted it
        ({"power": "on", "begun": 60}, "wait"),
        ({"power": "off", "begun": 60}, "boot"),
        ({"power": "on", "begun": 60, "booted": True}, "read"),
        ({"power": "on", "begun": 60, "restart": True}, "restart"),
        ({"power": "on", "begun": 0}, "wait"),
        # long ago: someone may use it
        ({"power": "on", "begun": 1801}, "refuse"),
        ({"power": "on", "begun": 1801, "limit": 1800}, "wait"),
        ({"power": "on", "begun": 1801, "booted": True}, "read"),
        # its hardware is known
        ({"kept": kept()}, "known"),
        ({"kept": kept(), "restart": True}, "known"),
        ({"kept": kept(), "begun": 60}, "ask"),
        ({"kept": kept(), "again": True}, "ask"),
        ({"kept": kept(), "again": True, "power": "on"}, "refuse"),
        ({"kept": kept(), "again": True, "power": "off"}, "boot"),
        # of a newer version
        ({"kept": '{"schema": 99, "read": "x"}', "power": "off"}, "boot"),
    ],
)
def test_a_server_that_runs_something_else_is_never_restarted_unasked(given: dict[str, t.Any], action: str) -> None:
    found = discovery_step("metal1", **given)
    assert found["action"] == action and found["reason"]
    if action == "refuse":
        assert "discover_servers_restart: [metal1]" in found["reason"]


BMCS = {"metal1": {"bmc": {"address": "a"}}, "metal2": {}, "metal3": {"bmc": {"address": "b"}}}


@pytest.mark.parametrize(
    "names, restart, servers",
    [
        ((), (), ["metal1", "metal3"]),
        ("metal3, metal1", "", ["metal1", "metal3"]),
        (["metal3"], ["metal3"], ["metal3"]),
        (None, "metal1", ["metal1", "metal3"]),
    ],
)
def test_servers_with_a_controller_are_chosen(names: t.Any, restart: t.Any, servers: list[str]) -> None:
    assert discovery_servers(BMCS, list(BMCS), names, restart)["servers"] == servers


@pytest.mark.parametrize(
    "known, names, restart, words",
    [
        (BMCS, ["metal9"], (), "discover_servers_names[0]: 'metal9' is not a server"),
        (BMCS, ["metal1", "metal2"], (), "servers.metal2.bmc: is required"),
        (BMCS, ["metal1"], ["metal3"], "discover_servers_restart[0]: 'metal3' is not one of the servers"),
        ({"metal2": {}}, (), (), "no server has a management controller"),
    ],
)
def test_invalid_names_are_refused(known: t.Any, names: t.Any, restart: t.Any, words: str) -> None:
    found = discovery_servers(known, list(known), names, restart)
    assert words in found["error"] and not found["servers"]


def other(**changes: t.Any) -> dict[str, t.Any]:
    return {**FACTS, **changes}


@pytest.mark.parametrize(
    "name, hardware, mac, before, words",
    [
        ("metal1", FACTS, "52:54:00:00:00:01", {}, []),
        ("metal1", FACTS, None, {"metal1": FACTS}, []),
        ("metal1", FACTS, "52:54:00:00:00:09", {}, ["bmc.boot_mac: the machine that answers at 192.0.2.11 has no network card 52:54:00:00:00:09"]),
        ("metal1", FACTS, None, {"metal1": other(system={"uuid": "u-2"})}, ["with uuid u-1; that of metal1 had uuid u-2", "/metal1.json"]),
        ("metal1", FACTS, None, {"metal2": FACTS}, ["uuid u-1, which is metal2", "/metal2.json"]),
        # boards of one vendor with the same UUID
        ("metal1", FACTS, None, {"metal2": other(nics=[{"mac": "52:54:00:00:00:99"}])}, []),
        ("metal1", FACTS, None, {"metal2": other(nics=[])}, ["uuid u-1, which is metal2"]),
        # a board without an identity is known by its cards
        ("metal1", other(system={"uuid": "", "serial": ""}), None, {"metal1": FACTS}, ["with MAC 52:54:00:00:00:01"]),
        ("metal1", other(system={"uuid": "", "serial": "s"}), None, {"metal2": other(system={"uuid": "", "serial": "t"})}, []),
        ("metal1", other(system={}, nics=[]), None, {"metal2": other(system={}, nics=[])}, []),
    ],
)
def test_another_machine_is_recognized(tmp_path: pathlib.Path, name: str, hardware: t.Any, mac: str | None, before: t.Any, words: list[str]) -> None:
    found = discovery_problems(hardware, name, "192.0.2.11", folder(tmp_path, {each: kept(its) for each, its in before.items()}), mac)
    assert bool(found) is bool(words), found
    assert all(word in " ".join(found) for word in words), found


@pytest.mark.parametrize(
    "declared, words",
    [
        ({}, None),
        ({"memory": 32, "cpus": 8, "firmware": "uefi", "virtualization": True}, None),
        ({"memory": 64}, "hardware.memory: 64 GiB are declared, 32 GiB are installed. Check the memory modules"),
        ({"memory": 16}, "hardware.memory: 16 GiB are declared, 32 GiB"),
        ({"cpus": 16}, "hardware.cpus: 16 are declared, 8 are present"),
        ({"firmware": "bios"}, "hardware.firmware: bios is declared, the server booted with uefi"),
        ({"virtualization": False}, "hardware.virtualization: hardware virtualization is declared as absent"),
        ({"disks": [{"serial": "A", "size": "960 GB"}, {"serial": "B", "size": "480 GB"}]}, None),
        ({"disks": [{"serial": "B"}]}, None),
        ({"disks": [{"serial": "C"}]}, "hardware.disks[0].serial: the server has no disk C; not declared are sda (A, 960.2 GB), sdb (B, 480.1 GB)."),
        ({"disks": [{"serial": "A", "size": "1920 GB"}]}, "hardware.disks[0].size: 1920.0 GB are declared, sda (A, 960.2 GB) was found"),
        ({"disks": [{"serial": "A"}, {"serial": "B"}, {"serial": "C"}]}, "disks[2].serial: the server has no disk C; all disks of the server are declared"),
        ({"nics": [{"mac": "52:54:00:00:00:01", "link": True, "neighbor": "switch1", "port": "Eth1"}]}, None),
        ({"nics": [{"mac": "52:54:00:00:00:03"}]}, "hardware.nics[0].mac: the server has no network card 52:54:00:00:00:03; not declared are eno1"),
        ({"nics": [{"mac": "52:54:00:00:00:02", "link": True}]}, "hardware.nics[0].link: eno2 has no link"),
        ({"nics": [{"mac": "52:54:00:00:00:01", "neighbor": "switch2"}]}, "nics[0].neighbor: switch2 is declared, eno1 is connected to switch1"),
        ({"nics": [{"mac": "52:54:00:00:00:02", "port": "Eth2"}]}, "nics[0].port: Eth2 is declared, eno2 is without an answer by LLDP"),
    ],
)
def test_differences_have_the_path_of_the_declaration(declared: dict[str, t.Any], words: str | None) -> None:
    found = plan_hardware_compare.compare(model_hardware.parse(declared, "servers.metal1.hardware"), None, FACTS)
    assert len(found.differences) == (words is not None), found
    if words:
        assert found.differences[0].startswith("servers.metal1.hardware.") and words in found.differences[0], found.differences


@pytest.mark.parametrize(
    "capacity, installed, used, words",
    [
        ({"memory": 32, "cpus": 8}, 32, 31, None),
        ({"memory": 16, "cpu": 4}, 32, 31, None),
        ({"ram": 64}, 32, 31, "servers.metal1.node_capacity.memory: 64 GiB are declared, 32 GiB are installed"),
        ({"cpus": 16}, 32, 31, "servers.metal1.node_capacity.cpus: 16 are declared, 8 are present"),
        # the firmware does not list its modules, and keeps a part of the memory
        ({"memory": 32}, None, 31, None),
        ({"memory": 32}, None, 24, "32 GiB are declared, the kernel has 24 GiB"),
    ],
)
def test_capacity_is_the_least_that_must_be_present(capacity: t.Any, installed: int | None, used: int, words: str | None) -> None:
    facts = other(memory_installed_bytes=installed and installed * GIB, memory_bytes=used * GIB)
    found = plan_hardware_compare.compare(model_hardware.Hardware("servers.metal1.hardware"), capacity, facts)
    assert ([] if words is None else [words]) == [words for one in found.differences if words and words in one] and len(found.differences) == bool(words)


@pytest.mark.parametrize("wanted, used, same", [(32, 31, True), (32, 24, False), (16, 31, False)])
def test_memory_without_a_list_of_modules_may_be_a_little_less(wanted: int, used: int, same: bool) -> None:
    facts = other(memory_installed_bytes=None, memory_bytes=used * GIB)
    assert bool(plan_hardware_compare.compare(model_hardware.parse({"memory": wanted}, "h"), None, facts).differences) is not same


def test_a_server_that_is_installed_has_the_declared_hardware(tmp_path: pathlib.Path) -> None:
    found = discovery_problems(FACTS, "metal1", "192.0.2.11", folder(tmp_path, {"metal2": kept()}), None, {"hardware": {"memory": 64}})
    assert len(found) == 2 and "uuid u-1, which is metal2" in found[0] and "servers.metal1.hardware.memory: 64 GiB are declared" in found[1]


def test_a_damaged_file_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match="cannot parse the file with the hardware of metal2: .* Remove it."):
        discovery_problems(FACTS, "metal1", "192.0.2.11", folder(tmp_path, {"metal2": "{"}))


def test_the_report_names_what_differs_what_failed_and_what_is_unknown(tmp_path: pathlib.Path) -> None:
    texts = {"metal1": kept(), "metal3": kept(other(system={"uuid": "u-3"})), "metal4": kept(other(system={"uuid": "u-4"}))}
    declared = {
        "metal1": {"hardware": {"memory": 64, "disks": [{"serial": "A"}]}}, "metal3": {"hardware": {"cpus": 8}},
        "metal4": {"node_capacity": {"memory": "much"}},
    }  # fmt: skip
    hostvars = {name: declared.get(name, {}) for name in ("metal1", "metal2", "metal3", "metal4")}
    found = discovery_report(hostvars, list(hostvars), folder(tmp_path, texts), {"metal2": "no answer", "metal1": ""})
    assert not found["ok"] and set(found["differences"]) == {"metal1", "metal4"}
    assert "FAILED metal2: no answer" in found["lines"] and "metal1: disks that are not declared: sdb (B, 480.1 GB)" in found["lines"]
    assert [line.rpartition("  ")[2].strip() for line in found["table"]] == ["state", "differs", "failed", "as declared", "differs"]
    assert "eno1 (52:54:00:00:00:01, link, switch1 Eth1); eno2 (52:54:00:00:00:02, no link)" in found["table"][1] and "usb" not in found["table"][1]
    assert "servers.metal4.node_capacity.memory: 'much' is not a size" in found["differences"]["metal4"][0]


def test_two_servers_that_are_one_machine_differ(tmp_path: pathlib.Path) -> None:
    texts, hostvars = {"metal1": kept(), "metal2": kept()}, {"metal1": {}, "metal2": {}}
    found = discovery_report(hostvars, list(hostvars), folder(tmp_path, texts), {})
    assert found["differences"]["metal1"] == ["servers.metal1.bmc: metal1 and metal2 are one machine (uuid u-1). Correct the address of their BMCs."]
    assert set(found["differences"]) == {"metal1", "metal2"}
    alone = discovery_report(hostvars, ["metal1"], str(tmp_path), {})
    assert alone["ok"] and "nothing declared" in alone["table"][1] and json.loads(kept())["schema"] == 1
