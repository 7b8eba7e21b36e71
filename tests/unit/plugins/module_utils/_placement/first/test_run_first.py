# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers and facts in, files out."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.module_utils._placement.first import plan_files, run_first
from tests.support.facts import facts_of
from tests.unit.plugins.module_utils._placement.first.test_model_answers import GIVEN

FILES = ("ansible.cfg", "inventory/group_vars/all.yml", "inventory/nodes.yml")
LAPTOP = "laptop=192.0.2.2"
KEY = "{{ lookup('ansible.builtin.file', '~/.ssh/id_ed25519.pub') }}"
BRIDGE = [{"name": "br-admin", "port": "eno1"}]


@pytest.fixture(name="home", autouse=True)
def fixture_home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    for name in ("id_ecdsa.pub", "id_ed25519.pub", "id_ed25519", "known_hosts"):
        (home / ".ssh" / name).touch()
    monkeypatch.setenv("HOME", str(home))
    return home


class World:
    """A directory, and the servers that the answers name."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder / "footprint"
        #: Machine → arguments of ``facts_of``.
        self.more: dict[str, dict[str, t.Any]] = {}

    def run(self, check: bool = False, diff: bool = False, **changes: t.Any) -> Plan:
        given = {**GIVEN, "directory": str(self.folder), **changes}
        machines = run_first.machines(given)
        facts = [{"item": one, "ansible_facts": facts_of(one["ansible_host"], **self.more.get(one["name"], {}))} for one in machines]
        return run_first.write(given, facts, check, diff)

    def read(self, name: str) -> t.Any:
        return yaml.safe_load((self.folder / name).read_text("utf-8"))


@pytest.fixture(name="world")
def fixture_world(tmp_path: pathlib.Path) -> World:
    return World(tmp_path)


def test_a_control_plane_with_the_laptop_as_master(world: World) -> None:
    plan = world.run(source=LAPTOP, expert_mode=True)
    assert plan.values["changed"] and [one["after_header"] for one in plan.values["diff"]] == [str(world.folder / name) for name in FILES]
    assert world.read("inventory/nodes.yml") == {
        "plugin": "reduced.footprint.nodes",
        "cluster": "home",
        "exclude_addresses": ["192.0.2.20"],
        "vm_defaults": {
            "cpu": 2, "ram": 4, "roles": ["controller"], "nics": [{"bridge": "br-admin"}], "disks": [{"size": "12GiB", "image": "debian-12"}],
            "gateway": "192.0.2.1", "nameservers": ["192.0.2.1"],
        },
        "servers": {
            "metal1": {
                "ansible_host": "192.0.2.11", "roles": ["virt"], "virt_host_bridges": BRIDGE,
                "vms": [{"id": "controller1", "address": "192.0.2.21/24"}, {"id": "controller3", "address": "192.0.2.23/24"}],
            },
            "metal2": {
                "ansible_host": "192.0.2.12", "roles": ["virt"], "virt_host_bridges": BRIDGE, "vms": [{"id": "controller2", "address": "192.0.2.22/24"}],
            },
            "laptop": {"ansible_host": "192.0.2.2", "roles": ["master"]},
        },
    }  # fmt: skip
    found = world.read("inventory/group_vars/all.yml")
    assert found.pop("master_migrate_destination") in ("metal1", "metal2")
    assert found == {
        "expert_mode": True, "ansible_user": "root", "ansible_python_interpreter": "auto_silent", "virt_guests_images": [{"name": "debian-12"}],
        "virt_guests_authorized_keys": [KEY], "load_balancer_virtual_address": "192.0.2.20", "master_migrate_source": "laptop",
        "master_migrate_temporary_address": "192.0.2.24", "master_migrate_services": "all", "master_migrate_disk_size": "8GiB",
        "master_migrate_bridge": "br-admin",
    }  # fmt: skip
    text = "\n".join(plan.lines)
    assert "all 4 VMs have a server" in text and "If metal1 is lost: controller loses its majority" in text
    assert [line.split("reduced.footprint.")[1] for line in plan.lines[-2:]] == ["site --check --diff", "site"]


def test_the_server_with_more_memory_has_two_controllers(world: World) -> None:
    world.more = {"metal1": {"memory": 7900}, "metal2": {"memory": 15900}}
    world.run()
    servers = world.read("inventory/nodes.yml")["servers"]
    assert {name: len(one["vms"]) for name, one in servers.items()} == {"metal1": 1, "metal2": 2}


def test_ports_are_those_of_each_server(world: World) -> None:
    world.more = {"metal2": {"port": "enp3s0"}}
    world.run()
    found = {name: one["virt_host_bridges"] for name, one in world.read("inventory/nodes.yml")["servers"].items()}
    assert found == {"metal1": BRIDGE, "metal2": [{"name": "br-admin", "port": "enp3s0"}]}


def test_a_cloud_has_floating_addresses_after_the_others(world: World) -> None:
    world.run(wanted="cloud", source=LAPTOP)
    found = world.read("inventory/group_vars/all.yml")
    (subnet,) = found["cloud_bootstrap_networks"][0]["subnets"]
    assert subnet == {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "pool": ["192.0.2.25", "192.0.2.40"]}
    assert (found["footprint_cloud"], found["ovn_chassis_uplinks"]) == (True, {"br-ex": "br-admin"})
    nodes = world.read("inventory/nodes.yml")
    assert nodes["servers"]["metal2"]["roles"] == ["virt", "compute"] and nodes["vm_defaults"]["disks"] == [{"size": "20GiB", "image": "debian-13"}]


def test_a_machine_that_moves_has_its_memory_and_space_for_its_files(world: World, home: pathlib.Path) -> None:
    # no VM accepts a key
    (home / ".ssh/id_ed25519.pub").unlink()
    (home / ".ssh/id_ecdsa.pub").unlink()
    world.more = {"old": {"memory": 3900, "disk": 40}}
    plan = world.run(servers=["metal1=192.0.2.11"], wanted="move", source="old=192.0.2.2", addresses="192.0.2.20-192.0.2.20")
    found = world.read("inventory/group_vars/all.yml")
    picked = {name.removeprefix("master_migrate_"): value for name, value in found.items() if name.startswith("master_migrate_")}
    assert picked == {
        "source": "old", "temporary_address": "192.0.2.20", "services": "all", "ram": 4, "name": "old-vm", "disk_size": "8GiB", "bridge": "br-admin",
        "destination": "metal1",
    }  # fmt: skip
    assert "vm_defaults" not in world.read("inventory/nodes.yml")
    assert plan.lines[-1].endswith("reduced.footprint.migrate_master")


def test_a_first_vm(world: World) -> None:
    plan = world.run(wanted="vms", user="admin", servers=["metal1=192.0.2.11"])
    assert world.read("inventory/nodes.yml")["servers"]["metal1"]["vms"] == [{"id": "vm1", "address": "192.0.2.20/24"}]
    found = world.read("inventory/group_vars/all.yml")
    assert (found["ansible_user"], found["ansible_become"], found["expert_mode"]) == ("admin", True, False)
    assert plan.lines[-1].endswith("reduced.footprint.spawn_vms")


def test_a_second_run_changes_nothing_and_shows_what_was_edited(world: World) -> None:
    world.run()
    plan = world.run()
    assert not plan.values["changed"] and [line.partition(": ")[2] for line in plan.lines[:3]] == ["kept, as the answers require it"] * 3
    nodes = world.folder / "inventory/nodes.yml"
    nodes.write_text(nodes.read_text("utf-8").replace("ram: 4", "ram: 8"), "utf-8")
    (world.folder / "ansible.cfg").unlink()
    edited = nodes.read_bytes()
    plan = world.run(diff=True)
    assert nodes.read_bytes() == edited and (world.folder / "ansible.cfg").is_file()
    assert f"{nodes}: kept; it differs from what the answers require" in plan.lines
    assert "-  ram: 8" in plan.lines and "+  ram: 4" in plan.lines
    # it would be that of other files
    assert "Plan for cluster" not in "\n".join(plan.lines)
    assert "-  ram: 8" not in world.run().lines


def test_check_mode_writes_nothing(world: World) -> None:
    plan = world.run(check=True)
    assert not world.folder.exists() and [line.partition(": ")[2] for line in plan.lines[:3]] == ["would be written"] * 3
    done = world.run()
    assert plan.values == done.values and (world.folder / FILES[2]).read_text("utf-8") == plan.values["diff"][2]["after"]


@pytest.mark.parametrize(
    ("more", "changes", "message"),
    [
        ({"metal1": {"memory": 3000}, "metal2": {"memory": 3000}}, {}, "VM controller1 has no server"),
        ({"metal1": {"disk": 10}, "metal2": {"disk": 10}}, {}, "in pool default"),
        ({}, {"source": "vm1=192.0.2.2", "wanted": "vms"}, "vm1 is the name of a group or VM"),
    ],
)
def test_what_does_not_fit_is_not_written(world: World, more: dict[str, t.Any], changes: dict[str, t.Any], message: str) -> None:
    world.more = more
    try:
        plan = world.run(**changes)
        assert message in str(plan.problems[0]) and plan.lines
    except FootprintError as error:
        assert message in str(error)
    assert not world.folder.exists()


def test_vms_require_a_key(world: World, home: pathlib.Path) -> None:
    (home / ".ssh/id_ed25519.pub").unlink()
    world.run()
    assert "id_ecdsa.pub" in (world.folder / FILES[1]).read_text("utf-8")
    (home / ".ssh/id_ecdsa.pub").unlink()
    with pytest.raises(FootprintError, match="has no public key for the VMs. Create one: ssh-keygen -t ed25519"):
        world.run()


def test_a_file_that_cannot_be_written_leaves_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real = io_files.write_atomic

    def full(path: pathlib.Path, *args: t.Any, **options: t.Any) -> None:
        if path.name == "nodes.yml":
            raise OSError(28, "No space left on device", str(path))
        real(path, *args, **options)

    monkeypatch.setattr(run_first, "write_atomic", full)
    with pytest.raises(FootprintError, match="nodes.yml cannot be written: No space left on device"):
        world.run()
    assert not [path for path in world.folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("value", ["yes", "No", "null", "12", "1e3", "a: b", "#", "", "0x10", "x y", "{a}", "-"])
def test_texts_remain_texts(value: str) -> None:
    common = {"master_migrate_source": value, "list": [value], "map": {"key": value}}
    text = "\n".join(plan_files._block(common, ()))  # pylint: disable=protected-access
    assert list(yaml.safe_load(text).values()) == [value, [value], {"key": value}]
