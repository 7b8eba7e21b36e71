# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo of a cloud has the inventory of the guide, on the addresses of the lab. The demo itself is run by `make demo CLOUD=1`."""

from __future__ import annotations

import pathlib
import re
import shutil
import types
import typing as t

import pytest
import yaml

from tests.support.program import load

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: What is the same in the inventories of the guide and of the demo.
CLOUD = ("footprint_cloud", "load_balancer_virtual_address", "ovn_chassis_bridge_mappings", "ovn_chassis_uplinks", "master_migrate_temporary_address")


@pytest.fixture(name="demo")
def fixture_demo(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.setenv("LAB_RELEASE", "bookworm")
    monkeypatch.setenv("LAB_NETWORK", "10.0.0.0/24")
    monkeypatch.syspath_prepend(str(ROOT / "lab"))
    return load("lab/demo-cloud")


class Files(t.NamedTuple):
    """The content of both files of an inventory."""

    nodes: dict[str, t.Any]
    settings: dict[str, t.Any]


@pytest.fixture(name="inventory")
def fixture_inventory(demo: t.Any, tmp_path: pathlib.Path) -> t.Callable[..., Files]:
    """Return a function that writes the inventory of the demo, with the witness if wanted."""

    def write(witness: bool = False) -> Files:
        path = tmp_path / "inventory"
        shutil.copytree(ROOT / "lab" / "inventory", path)
        for file in path.rglob("*.yml"):
            file.write_text(file.read_text(encoding="utf-8").replace("10.213.0.", "10.0.0."), encoding="utf-8")
        it = demo.Inventory(demo.LAB)
        it.path = path
        it.write()
        if witness:
            it.add_witness()
        return Files(*[yaml.safe_load((path / name).read_text(encoding="utf-8")) for name in ("nodes.yml", "group_vars/all.yml")])

    return write


def blocks() -> dict[str, t.Any]:
    """The files of the guide by their names, which are the first line of each."""
    text = (ROOT / "docs" / "first-cloud.md").read_text("utf-8")
    found = re.findall(r"^```yaml\n# inventory/(\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return {name: yaml.safe_load(content) for name, content in found}


def placed(nodes: dict[str, t.Any]) -> dict[str, t.Any]:
    """Machine → its address, roles, and the roles of its VMs."""
    servers, common = nodes["servers"].items(), nodes.get("vm_defaults", {})
    return {name: (one["ansible_host"], one["roles"], [{**common, **vm}["roles"] for vm in one.get("vms", [])]) for name, one in servers}


def test_machines_are_those_of_the_guide(inventory: t.Callable[..., Files]) -> None:
    found = placed(inventory().nodes)
    assert found == placed(blocks()["nodes.yml"])
    assert [found[name][1:] for name in ("metal1", "metal2")] == [(["virt", "compute"], [["controller"]])] * 2


def test_settings_are_those_of_the_guide(inventory: t.Callable[..., Files]) -> None:
    found, guide = inventory().settings, blocks()["group_vars/all.yml"]
    assert {name: found[name] for name in CLOUD} == {name: guide[name] for name in CLOUD}
    assert guide["cloud_bootstrap_networks"][0] in found["cloud_bootstrap_networks"]
    # they would exclude services of the cloud
    assert "footprint_components" not in found


def test_laptop_is_a_witness_at_an_address_that_the_master_does_not_take(demo: t.Any, inventory: t.Callable[..., Files]) -> None:
    nodes, settings = inventory(witness=True)
    witness = nodes["servers"]["witness1"]
    assert witness["roles"] == ["witness"] and witness["ansible_host"] == settings["master_migrate_temporary_address"] != demo.MASTER_ADDRESS
    assert nodes["servers"]["metal1"]["standby_extra"][0]["standby"]["server"] == "metal2"
    tunnels = [one["ovn_chassis_address"] for one in nodes["servers"].values() if "ovn_chassis_address" in one]
    assert len(set(tunnels)) == 3


@pytest.mark.parametrize(
    ("reached", "gap"),
    [((1, 2, 3, 4), 1), ((), 5), ((1, 2), 3), ((4, 4.5), 4), ((-3, 9), 5)],
    ids=["always", "never", "not at the end", "not at the beginning", "only before and after"],
)
def test_a_server_that_is_not_reached_is_noticed(demo: t.Any, reached: tuple[float, ...], gap: float) -> None:
    from rflab.cloud_clients import longest_gap

    assert longest_gap(reached, 0, 5) == gap
