# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``hardware`` of a server in the inventory."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_hardware, run_inventory

MAC = "52:54:00:12:34:56"


def test_everything_is_read_with_its_path() -> None:
    entry = {
        "memory": 64, "cpus": "16", "firmware": "uefi", "virtualization": True, "disks": [{"serial": "A1", "size": "960 GB"}, {"serial": "B 2"}],
        "nics": [{"mac": MAC.upper(), "link": False, "neighbor": "switch1", "port": "Eth1/3"}],
    }  # fmt: skip
    found = model_hardware.parse(entry, "h")
    assert (found.memory, found.cpus, found.firmware, found.virtualization) == (64 << 30, 16, "uefi", True)
    assert found.disks == (model_hardware.Disk("A1", 960 * 10**9, "h.disks[0]"), model_hardware.Disk("B 2", None, "h.disks[1]"))
    assert found.nics == (model_hardware.Nic("52:54:00:12:34:56".lower(), False, "switch1", "Eth1/3", "h.nics[0]"),)
    assert model_hardware.parse(None, "h") == model_hardware.Hardware("h") == model_hardware.parse({}, "h")


@pytest.mark.parametrize(
    "entry, path, words",
    [
        ([], "h", "a list, not a mapping"),
        ({"memroy": 64}, "h.memroy", "Did you mean memory?"),
        ({"memory": "much"}, "h.memory", "is not a size"),
        ({"cpus": 0}, "h.cpus", "not between 1"),
        ({"cpus": True}, "h.cpus", "not a whole number"),
        ({"firmware": "efi"}, "h.firmware", "Use one of uefi, bios"),
        ({"virtualization": "vmx"}, "h.virtualization", "text, not a boolean"),
        ({"disks": {"serial": "A"}}, "h.disks", "a list, got a mapping"),
        ({"disks": [{"size": 1}]}, "h.disks[0].serial", "is required"),
        ({"disks": [{"serial": 123}]}, "h.disks[0].serial", "123 is not text. Write the serial number in quotes"),
        ({"disks": [{"serial": " "}]}, "h.disks[0].serial", "is not text"),
        ({"disks": [{"serial": "A", "sizes": 1}]}, "h.disks[0].sizes", "Did you mean size?"),
        ({"disks": [{"serial": "A"}, {"serial": "A"}]}, "h.disks[1].serial", "already used at h.disks[0].serial"),
        ({"nics": ["eth0"]}, "h.nics[0]", "text, not a mapping"),
        ({"nics": [{"mac": "52-54"}]}, "h.nics[0].mac", "is not a MAC"),
        ({"nics": [{}]}, "h.nics[0].mac", "is required"),
        ({"nics": [{"mac": MAC, "port": 3}]}, "h.nics[0].port", "3 is not text"),
        ({"nics": [{"mac": MAC, "link": "up"}]}, "h.nics[0].link", "not a boolean"),
        ({"nics": [{"mac": MAC}, {"mac": MAC.upper()}]}, "h.nics[1].mac", "already used"),
    ],
)
def test_an_invalid_value_is_refused_with_its_path(entry: t.Any, path: str, words: str) -> None:
    with pytest.raises(InputError) as raised:
        model_hardware.parse(entry, "h")
    assert raised.value.path == path and words in str(raised.value) and raised.value.hint


def servers(**hardware: t.Any) -> dict[str, t.Any]:
    return {name: {"ansible_host": f"192.0.2.{number}", "hardware": entry} for number, (name, entry) in enumerate(hardware.items(), 11)}


def test_an_inventory_checks_the_hardware_of_its_servers() -> None:
    with pytest.raises(InputError, match=r"servers.metal1.hardware.memory: 'x' is not a size"):
        run_inventory.parse_servers(servers(metal1={"memory": "x"}))


@pytest.mark.parametrize("key, entry, words", [("disks", {"serial": "A1"}, "A disk is in one server only"), ("nics", {"mac": MAC}, "a different MAC")])
def test_two_servers_do_not_have_the_same_part(key: str, entry: t.Any, words: str) -> None:
    found = run_inventory.parse_servers(servers(metal1={key: [entry]}, metal2={key: [entry]}))
    with pytest.raises(InputError, match=words) as raised:
        run_inventory.parse("blue", found)
    assert raised.value.path and raised.value.path.startswith("servers.metal2.hardware.")
