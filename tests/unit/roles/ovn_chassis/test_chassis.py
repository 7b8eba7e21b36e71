# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A chassis keeps its traffic when its controller is restarted, and has one uplink for each provider network."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ControlNode

CONTROLLER = "ovn-controller.service"


def connected(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, need: str, **groups: t.Sequence[str]) -> tuple[list[t.Any], list[str]]:
    """Run the tasks on metal2 with the NIC eno2 as the uplink; returns the units in the calls of service_files, and the calls of ovn-appctl.

    :arg groups: group → its hosts.
    """
    control = ControlNode(folder, "service_files", "ovn_chassis")
    control.answers = {"service_files metal2": {"needs": {CONTROLLER: need}}, "ovn_chassis metal2": {"datapath": "system", "proof": "the kernel"}}
    control.program(monkeypatch, "ovn-appctl", f'echo "$*" >> {folder}/asked\necho connected')
    devices = {"ansible_eno2": {"type": "ether", "device": "eno2"}, "ansible_br_admin": {"type": "bridge", "device": "br-admin"}}
    facts = {"ansible_interfaces": ["eno2", "br-admin"], **devices, "cacheable": True}
    role = {"ansible.builtin.include_role": {"name": "reduced.footprint.ovn_chassis", "tasks_from": "chassis"}}
    given = {
        "ovn_chassis_bridge_mappings": {"provider": "br-ex", "second": "br-b"}, "ovn_chassis_uplinks": {"br-ex": "eno2", "br-b": "br-admin"},
        "ovn_database_group": "virt", "footprint_secrets": str(folder / "secrets"), "__packages_there": {"ovn-host": "25.03"},
        **HERE,
    }  # fmt: skip
    (folder / "groups.yml").write_text(yaml.safe_dump({name: {"hosts": dict.fromkeys(hosts)} for name, hosts in groups.items()}), "utf-8")
    options = ["-i", str(folder / "groups.yml")] if groups else []
    code, output = control.play([{"ansible.builtin.set_fact": facts}, role], "metal2", *options, **given)
    assert code == 0, output
    units = [unit for call in control.calls("service_files") for unit in call["arguments"]["units"]]
    return units, (folder / "asked").read_text("utf-8").splitlines()


def test_a_bridge_with_another_uplink_is_disconnected_from_the_bridge_of_linux(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units, _asked = connected(tmp_path, monkeypatch, "")
    assert [(unit["name"], unit["enabled"], unit["started"]) for unit in units if "uplink" in unit["name"]] == [
        ("footprint-uplink-br-ex.service", False, False),
        ("footprint-uplink-br-b.service", True, True),
    ]


@pytest.mark.parametrize("need", ["", "restart"])
def test_the_controller_is_restarted_without_removing_its_flows(need: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units, asked = connected(tmp_path, monkeypatch, need)
    # systemd would stop it with a command that removes the chassis
    assert [unit["act"] for unit in units if unit["name"] == CONTROLLER] == [False]
    assert [words for words in asked if " exit" in words] == (["--timeout=15 -t ovn-controller exit --restart"] if need else [])


@pytest.mark.parametrize(
    "groups, options, observer, bridges",
    [
        ({"witness": ["metal2"], "compute": ["metal1"]}, None, "footprint-observer-metal2", {}),
        # one that is a gateway as well
        ({"witness": ["metal2"], "ovn_chassis": ["metal2"]}, "enable-chassis-as-gw", "", {"br-b": ["ov-br-b"], "br-ex": ["eno2"]}),
        ({"compute": ["metal2"]}, "enable-chassis-as-gw", "", {"br-b": ["ov-br-b"], "br-ex": ["eno2"]}),
    ],
)
def test_a_witness_has_no_provider_networks_and_observes(
    groups: dict[str, list[str]], options: str | None, observer: str, bridges: dict[str, list[str]], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units, _asked = connected(tmp_path, monkeypatch, "", **groups)
    (call,) = [json.loads(line) for line in (tmp_path / "calls").read_text("utf-8").splitlines() if '"name": "ovn_chassis"' in line]
    given = call["arguments"]
    assert (given["external_ids"]["ovn-cms-options"], given["observer"]) == (options, observer)
    assert {bridge["name"]: bridge["ports"] for bridge in given["bridges"]} == bridges and any("uplink" in unit["name"] for unit in units) == bool(bridges)
