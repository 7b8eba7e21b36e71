# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guide for the first footprint without servers: its inventory is read, its plan is made, its VMs fit. ``tests/guide`` runs all of it."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "guide"))

import guide  # noqa: E402

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import parse_size  # noqa: E402

NET = "10.0.0"
PAGE = guide.blocks(guide.PAGE.read_text(encoding="utf-8"))
GIB = 1 << 30


def ansible(tool: str, *arguments: str, folder: pathlib.Path) -> str:
    """Run a command of Ansible with this collection, as the reader does."""
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True, exist_ok=True)
    (home / ".ssh/id_ed25519.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs me\n")
    env = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    env.update(HOME=str(home), ANSIBLE_COLLECTIONS_PATH=str(ROOT / ".cache/collections"), ANSIBLE_NOCOLOR="1", ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED="true")
    done = subprocess.run([str(ROOT / ".venv/bin" / tool), *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{tool} {arguments}:\n{done.stdout}{done.stderr}"
    assert "[WARNING]" not in done.stderr, done.stderr
    return done.stdout


def hosts(folder: pathlib.Path) -> dict[str, t.Any]:
    """The variables of all hosts of the guide's inventory."""
    text = ansible("ansible-inventory", "-i", "inventory", "--list", folder=folder)
    return json.loads(text, object_hook=lambda one: one.get("__ansible_unsafe", one))["_meta"]["hostvars"]


@pytest.fixture(scope="module", name="variables")
def _variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, t.Any]:
    folder = tmp_path_factory.mktemp("guide")
    guide.write(folder)
    return hosts(folder)


def test_blocks_are_files_alternatives_and_commands() -> None:
    assert set(guide.files(PAGE)) == {"inventory/nodes.yml", "inventory/group_vars/all.yml"}
    assert {block.language for block in PAGE} == {"yaml", "console"}
    found = guide.commands(PAGE)
    assert len(found) >= 15 and all(command.split()[0] != "laptop#" for command in found)
    for name in ("provision_virt", "spawn_vms", "deploy_controllers", "migrate_master", "status", "plan_placement"):
        assert any(f"reduced.footprint.{name}" in command for command in found), name


def test_the_mapping_leaves_no_address_of_the_page() -> None:
    for block in PAGE:
        text = guide.mapped(block.text, "192.0.2")
        assert "10.0.0." not in text and "cloud.debian.org" not in text and "/path/to" not in text


def test_every_host_has_its_address(variables: dict[str, t.Any]) -> None:
    found = {name: values.get("ansible_host") for name, values in variables.items()}
    assert found == {
        "metal1": f"{NET}.11", "metal2": f"{NET}.12", "laptop": f"{NET}.2", "controller1": f"{NET}.21", "controller2": f"{NET}.22", "controller3": f"{NET}.23",
    }  # fmt: skip
    for vm in variables["metal1"]["vms"] + variables["metal2"]["vms"]:
        assert vm["network_config"]["ethernets"]["admin"]["addresses"] == [f"{vm['address']}/24"]


def test_images_are_those_that_debian_publishes(variables: dict[str, t.Any]) -> None:
    images = variables["metal1"]["virt_guests_images"]
    used = {disk["image"] for values in variables.values() for vm in values.get("vms", ()) for disk in vm["disks"]}
    assert used == {image["name"] for image in images}
    # the names as Debian publishes them; the number counts the days
    url = r"(https://cloud\.debian\.org/images/cloud/bookworm/(\d{8}-\d+)/)debian-12-genericcloud-amd64-\2\.qcow2"
    found = re.fullmatch(url, images[0]["url"])
    assert len(images) == 1 and found and images[0]["checksum"] == f"sha512:{found.group(1)}SHA512SUMS"
    (mirror,) = guide.alternatives(PAGE, "An image from the laptop")
    (other,) = yaml.safe_load(mirror)["virt_guests_images"]
    assert [other["url"].rpartition("/")[2], other["name"]] == [images[0]["url"].rpartition("/")[2], images[0]["name"]]


def test_the_virtual_machines_fit(variables: dict[str, t.Any]) -> None:
    everything = variables["metal1"]
    master = {"ram": everything["master_migrate_ram"], "cpu": everything["master_migrate_cpu"], "disks": [{"size": everything["master_migrate_disk_size"]}]}
    for name in ("metal1", "metal2"):
        server = variables[name]
        load = [*server["vms"], *([master] if name == everything["master_migrate_destination"] else [])]
        capacity = server["node_capacity"]
        assert sum(vm["ram"] for vm in load) <= capacity["memory"] - 1
        assert sum(vm["cpu"] for vm in load) <= capacity["cpus"] * 4
        disks = sum(parse_size(disk["size"], "GiB", "size") for vm in load for disk in vm["disks"])
        assert disks <= parse_size(capacity["pools"]["default"], "GiB", "pool")
    page = guide.PAGE.read_text(encoding="utf-8")
    cores, memory = re.search(r"\| two servers \| (\d+) cores, (\d+) GiB", page).groups()  # type: ignore[union-attr]
    assert (int(cores), int(memory)) == (capacity["cpus"], capacity["memory"])


def test_the_plan_of_the_guide(tmp_path: pathlib.Path) -> None:
    guide.write(tmp_path)
    (command,) = [one for one in guide.commands(PAGE) if "plan_placement" in one]
    tool, *arguments = command.split()
    output = ansible(tool, *arguments, folder=tmp_path)
    assert "failed=0" in output and "unreachable=0" in output
    for vm in ("controller1", "controller2", "controller3"):
        assert vm in output


LEASES = {
    "dnsmasq": "0 {mac} {address} controller *\n",
    "Kea": "{address},{mac},,4294967295,4294967295,1,0,0,controller,0,,0\n",
}
KEA_HEADER = "address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state,user_context,pool_id\n"


@pytest.mark.parametrize("server", LEASES)
def test_addresses_by_dhcp(server: str, variables: dict[str, t.Any], tmp_path: pathlib.Path) -> None:
    guide.write(tmp_path)
    nodes = tmp_path / "inventory/nodes.yml"
    text = yaml.safe_load(nodes.read_text())
    names = [vm["id"] for values in text["servers"].values() for vm in values.get("vms", ())]
    for values in text["servers"].values():
        for vm in values.get("vms", ()):
            del vm["address"], vm["network_config"]
    (alternative,) = [yaml.safe_load(one) for one in guide.alternatives(PAGE, "Addresses by DHCP") if server in one]
    leases = tmp_path / "leases"
    alternative["dhcp_leases"] = [str(leases)]
    nodes.write_text(yaml.safe_dump({**text, **alternative}))
    rows = [LEASES[server].format(mac=variables[name]["vm_macs"][0], address=f"{NET}.{50 + number}") for number, name in enumerate(names)]
    leases.write_text((KEA_HEADER if server == "Kea" else "") + "".join(rows))
    found = hosts(tmp_path)
    assert {name: found[name]["ansible_host"] for name in names} == {name: f"{NET}.{50 + number}" for number, name in enumerate(names)}
    assert {found[name]["vm_address_source"] for name in names} == {"lease"}


def test_every_alternative_is_yaml_of_a_known_option() -> None:
    plugin = (ROOT / "plugins/inventory/nodes.py").read_text(encoding="utf-8")
    found = guide.alternatives(PAGE, "Addresses by DHCP")
    assert len(found) == 3
    for text in found:
        (key,) = yaml.safe_load(text)
        assert f"\n  {key}:\n" in plugin
