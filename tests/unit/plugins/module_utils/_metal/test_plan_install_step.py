# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which servers are installed, and what is done with each."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.filter.metal_decision import install_plan, install_step
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_inventory

KEY = f"ssh-ed25519 AAAA{'B' * 64} operator"
DAY = 24 * 3600


@pytest.mark.parametrize(
    "given, action",
    [
        ({}, "ask"),
        ({"installed": True}, "installed"),
        ({"installed": True, "power": "on", "restart": True, "begun": 5}, "installed"),
        ({"power": "off"}, "boot"),
        ({"power": "off", "begun": 5}, "boot"),
        # it runs something unknown
        ({"power": "on"}, "refuse"),
        ({"power": "transition"}, "refuse"),
        ({"power": "on", "restart": True}, "restart"),
        ({"power": "on", "booted": True}, "write"),
        ({"power": "on", "booted": True, "restart": True, "begun": 5}, "write"),
        # an interrupted installation
        ({"power": "on", "begun": 0}, "restart"),
        ({"power": "on", "begun": DAY}, "restart"),
        ({"power": "on", "begun": DAY + 1}, "refuse"),
        ({"power": "on", "begun": DAY + 1, "restart": True}, "restart"),
    ],
)
def test_steps(given: dict[str, t.Any], action: str) -> None:
    found = install_step("metal1", **given)
    assert found["action"] == action and found["reason"]
    assert action != "refuse" or "install_server_restart: [metal1]" in found["reason"]


SERVERS = ["metal1", "metal2", "other"]


def variables(folder: pathlib.Path) -> dict[str, dict[str, t.Any]]:
    def one(number: int) -> dict[str, t.Any]:
        return {
            "ansible_host": f"192.0.2.1{number}", "bmc": {"address": "192.0.2.101", "boot_mac": f"52:54:00:00:00:0{number}"},
            "hardware": {"firmware": "uefi", "disks": [{"serial": f"S{number}", "size": "100 GiB"}]},
            "install": {"network": {"prefix": 24}, "keys": [KEY]}, "footprint_known_hosts": str(folder / "known_hosts.txt"),
        }  # fmt: skip

    return {"metal1": one(1), "metal2": one(2), "other": {"ansible_host": "192.0.2.50"}}


def test_all_servers_with_install_are_chosen(tmp_path: pathlib.Path) -> None:
    (tmp_path / "known_hosts.txt").write_text(f"metal2 ssh-ed25519 {'A' * 68}\n", "utf-8")
    found = install_plan(variables(tmp_path), SERVERS)
    assert list(found["servers"]) == ["metal1", "metal2"] and not found["restart"] and not found["erase"]
    one = found["servers"]["metal1"]
    assert one["options"]["disk"] == "S1" and one["lines"] == ["partition 1: 512 MiB, vfat at /boot/efi", "partition 2: 99.5 GiB, ext4 at /"]
    assert "HostKeyAlias=metal1" in one["connection"]["ansible_ssh_extra_args"] and "StrictHostKeyChecking=yes" in one["connection"]["ansible_ssh_extra_args"]
    assert not one["recorded"] and found["servers"]["metal2"]["recorded"]


def test_names_from_the_command_line(tmp_path: pathlib.Path) -> None:
    found = install_plan(variables(tmp_path), SERVERS, names="metal2", restart="metal2", erase="S2")
    assert list(found["servers"]) == ["metal2"] and found["restart"] == ["metal2"] and found["erase"] == ["S2"]


@pytest.mark.parametrize(
    ("change", "given", "words"),
    [
        ({}, {"names": "metal9"}, "install_server_names[0]: 'metal9' is not a server of the inventory"),
        ({}, {"names": ["other"]}, "servers.other.install: is required"),
        ({}, {"restart": "metal9"}, "install_server_restart[0]: 'metal9' is not one of the servers that are installed"),
        ({}, {"names": "metal1", "erase": "S2"}, "install_server_erase[0]: 'S2' is not the disk of a server that is installed"),
        ({"bmc": None}, {}, "servers.metal1.install.network.mac: is required"),
        ({"bmc": {}, "install": {"network": {"prefix": 24, "mac": "52:54:00:00:00:01"}, "keys": [KEY]}}, {}, "servers.metal1.bmc: is required"),
        ({"ansible_user": "debian"}, {}, "servers.metal1.ansible_user: 'debian' is not a user of the installed system"),
        ({"hardware": {"disks": 5}}, {}, "servers.metal1.hardware.disks: expected a list, got a number"),
        ({"hardware": {"disks": [{"serial": "S2"}]}}, {}, "servers.metal2.install.disk: S2 is also that of metal1"),
        ({"install": {}}, {}, "servers.metal1.install.network.prefix: is required"),
        ({"install": []}, {}, "servers.metal1.install: is a list, not a mapping"),
        ({"footprint_known_hosts": None}, {}, "footprint_known_hosts: is required"),
    ],
)
def test_invalid_requests_are_errors_with_a_path(tmp_path: pathlib.Path, change: dict[str, t.Any], given: dict[str, t.Any], words: str) -> None:
    values = variables(tmp_path)
    values["metal1"].update(change)
    found = install_plan(values, SERVERS, **given)
    assert words in found.get("error", ""), found
    assert not found["servers"]


def test_no_server_with_install() -> None:
    assert "servers: no server has the key install" in install_plan({"metal1": {}}, ["metal1"])["error"]


def test_an_installed_server_is_reached_with_its_host_key_only(tmp_path: pathlib.Path) -> None:
    """The inventory adds the options, unless the user has set others."""
    public = f"ssh-ed25519 {'A' * 68}"
    keys = run_inventory.HostKeys(tmp_path / "known_hosts.txt", {"metal1": public, "metal2": public})
    servers = run_inventory.parse_servers({"metal1": {}, "metal2": {"ansible_ssh_extra_args": "-4"}, "metal3": {}}, "servers")
    found = {host.name: host.variables for host in run_inventory.hosts(run_inventory.parse("blue", servers), {}, keys)}
    assert "HostKeyAlias=metal1" in found["metal1"]["ansible_ssh_extra_args"] and found["metal2"]["ansible_ssh_extra_args"] == "-4"
    assert "ansible_ssh_extra_args" not in found["metal3"]
