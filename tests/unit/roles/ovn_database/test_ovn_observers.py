# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports of observers: in each provider network, of each chassis that is not a gateway, on databases that behave as the real ones do."""

from __future__ import annotations

import json
import pathlib
import runpy
import subprocess
import typing as t

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[4] / "roles" / "ovn_database" / "files" / "ovn_observers.py"
main = runpy.run_path(str(SCRIPT))["main"]
GATEWAY = {"ovn-cms-options": "availability-zones=a,enable-chassis-as-gw"}


class Databases:
    """Both databases in memory.

    :arg chassis: host name → other_config.
    :arg switches: switch → port → type.
    """

    def __init__(self, chassis: dict[str, dict[str, str]], switches: dict[str, dict[str, str]]) -> None:
        self.chassis, self.switches = chassis, switches
        self.parents: dict[str, tuple[str, str]] = {}
        self.changes = 0

    def run(self, argv: t.Sequence[str], **unused: object) -> subprocess.CompletedProcess[str]:
        """Answer as ovn-nbctl and ovn-sbctl do: a set with one element is that element."""
        if "list" in argv:
            columns = next(word for word in argv if word.startswith("--columns=")).partition("=")[2].split(",")
            rows = [[row[column] for column in columns] for row in self.rows(argv[-1])]
            return subprocess.CompletedProcess(argv, 0, json.dumps({"headings": columns, "data": rows}), "")
        self.changes += 1
        words = " ".join(argv).partition(" -- ")[2]
        for command in words.split(" -- "):
            option, name, *rest = command.split()
            assert (option, name) in {("--may-exist", "ls-add"), ("--may-exist", "lsp-add"), ("--if-exists", "lsp-del")}
            if name == "ls-add":
                self.switches.setdefault(rest[0], {})
            elif name == "lsp-add":
                self.switches[rest[0].removeprefix("id-")][rest[1]] = ""
                self.parents.update({rest[1]: (rest[2], rest[3])} if rest[2:] else {})
            else:
                for ports in self.switches.values():
                    ports.pop(rest[0], None)
        return subprocess.CompletedProcess(argv, 0, "", "")

    def rows(self, table: str) -> list[dict[str, t.Any]]:
        """Return the rows of a table, as JSON has them."""
        if table == "Chassis":
            return [{"hostname": name, "other_config": ["map", [*map(list, config.items())]]} for name, config in self.chassis.items()]
        if table == "Logical_Switch_Port":
            return [{"_uuid": ["uuid", f"id-{name}"], "name": name, "type": kind} for ports in self.switches.values() for name, kind in ports.items()]
        ports = {name: [["uuid", f"id-{port}"] for port in found] for name, found in self.switches.items()}
        return [{"_uuid": ["uuid", f"id-{name}"], "name": name, "ports": ids[0] if len(ids) == 1 else ["set", ids]} for name, ids in ports.items()]


def compare(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Run the script; return switch → its ports of observers, where it has some."""
    monkeypatch.setattr(subprocess, "run", databases.run)
    main()
    found = {switch: sorted(port for port in ports if port.startswith("footprint-observer-")) for switch, ports in databases.switches.items()}
    return {switch: ports for switch, ports in found.items() if ports}


def networks() -> dict[str, dict[str, str]]:
    """Return two provider networks, one with a single port, and a network of a tenant."""
    return {"public": {"provnet-1": "localnet", "lrp-1": "router"}, "second": {"provnet-2": "localnet"}, "tenant": {"vm": "", "other": "router"}}


def test_a_chassis_that_is_not_a_gateway_gets_a_port_in_each_provider_network(monkeypatch: pytest.MonkeyPatch) -> None:
    databases = Databases({"metal1": GATEWAY, "metal2": GATEWAY, "witness1": {}}, networks())
    found = compare(databases, monkeypatch)
    port = "footprint-observer-witness1"
    assert found == {"footprint-observers": [port], "public": [f"{port}-id-public"], "second": [f"{port}-id-second"]}
    # parts of the interface, each with a tag that OVN chooses
    assert databases.parents == {f"{port}-id-public": (port, "0"), f"{port}-id-second": (port, "0")}
    assert compare(databases, monkeypatch) == found and databases.changes == 1


def test_a_new_network_gets_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    databases = Databases({"metal1": GATEWAY, "witness1": {}, "metal3": {"ovn-cms-options": "enable-chassis-as-extport-host"}}, {})
    hosts = ["footprint-observer-metal3", "footprint-observer-witness1"]
    assert compare(databases, monkeypatch) == {"footprint-observers": hosts}
    databases.switches["public"] = {"provnet-1": "localnet"}
    assert compare(databases, monkeypatch) == {"footprint-observers": hosts, "public": [f"{host}-id-public" for host in hosts]}


def test_a_chassis_that_becomes_a_gateway_or_leaves_has_no_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    databases = Databases({"metal1": {}, "metal2": GATEWAY, "witness1": {}}, networks())
    compare(databases, monkeypatch)
    databases.chassis = {"metal1": GATEWAY, "metal2": GATEWAY}
    assert compare(databases, monkeypatch) == {}
    assert databases.switches["public"] == networks()["public"]
    changes = databases.changes
    compare(databases, monkeypatch)
    assert databases.changes == changes


def test_with_gateways_only_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    databases = Databases({"metal1": GATEWAY, "metal2": GATEWAY}, networks())
    assert compare(databases, monkeypatch) == {} and databases.switches == networks() and databases.changes == 0
