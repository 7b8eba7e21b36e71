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
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import DefineRequest, VmResult  # noqa: E402
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms  # noqa: E402
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_seed_check  # noqa: E402

NET = "10.0.0"
PAGE = guide.blocks(guide.PAGE.read_text(encoding="utf-8"))


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
        device = vm["network_config"]["ethernets"]["nic0"]
        assert device == {
            "match": {"macaddress": variables[vm["id"]]["vm_macs"][0]},
            "addresses": [f"{vm['address']}/24"],
            "routes": [{"to": "0.0.0.0/0", "via": f"{NET}.1"}],
            "nameservers": {"addresses": [f"{NET}.1"]},
        }


def test_images_are_those_of_the_catalogue(variables: dict[str, t.Any]) -> None:
    used = {disk["image"] for values in variables.values() for vm in values.get("vms", ()) for disk in vm["disks"]}
    assert [{"name": name} for name in used] == variables["metal1"]["virt_guests_images"]
    catalogue = yaml.safe_load((ROOT / "roles/images/vars/main.yml").read_text("utf-8"))["__images_catalogue"]
    assert guide.LAB_SETTINGS["virt_guests_images"] == [{"name": name, **catalogue[name]} for name in used]
    (mirror,) = guide.alternatives(PAGE, "An image from the laptop")
    (other,) = yaml.safe_load(mirror)["virt_guests_images"]
    assert other["url"].rpartition("/")[2] == catalogue[other["name"]]["url"].rpartition("/")[2]


@pytest.mark.parametrize("release, number", [("bookworm", 12), ("trixie", 13)])
def test_names_of_the_catalogue_are_those_that_debian_publishes(release: str, number: int) -> None:
    entry = yaml.safe_load((ROOT / "roles/images/vars/main.yml").read_text("utf-8"))["__images_catalogue"][f"debian-{number}"]
    # the number counts the days
    url = rf"(https://cloud\.debian\.org/images/cloud/{release}/(\d{{8}}-\d+)/)debian-{number}-genericcloud-amd64-\2\.qcow2"
    found = re.fullmatch(url, entry["url"])
    assert found and entry["checksum"] == f"sha512:{found.group(1)}SHA512SUMS"


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
            del vm["address"]
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


# The smallest inventory, in README.md

SMALLEST = guide.files(guide.blocks(guide.README.read_text(encoding="utf-8")))


def test_the_smallest_inventory_is_small_and_the_readme_short() -> None:
    assert sum(len(text.splitlines()) for text in SMALLEST.values()) <= 30
    assert len(guide.README.read_text(encoding="utf-8").splitlines()) <= 110


def test_the_smallest_inventory_has_three_controllers_and_the_master(tmp_path: pathlib.Path) -> None:
    guide.write(tmp_path, page=guide.README)
    found = hosts(tmp_path)
    assert {name: found[name]["ansible_host"] for name in ("controller1", "controller2", "controller3")} == {
        f"controller{number}": f"{NET}.2{number}" for number in (1, 2, 3)
    }
    for name in ("metal1", "metal2"):
        vms = parse_vms(found[name]["vms"], cluster="home")
        assert [vm.roles for vm in vms] == [("controller",)] * len(vms) and all(vm.memory_mib == 4096 for vm in vms)
        for vm in vms:
            assert vm.cloud_init
            io_seed_check.check(vm.cloud_init, vm.path)
    assert found["metal1"]["master_migrate_source"] == "laptop" and found["laptop"]["node_roles"] == ["master"]
    # the plan measures the servers, which do not exist here
    capacity = "node_capacity: {memory: 16, cpus: 4, pools: {default: 100 GiB}, bridges: [br-admin], hypervisors: [kvm]}\n"
    for name in ("metal1", "metal2"):
        (tmp_path / f"inventory/host_vars/{name}.yml").parent.mkdir(exist_ok=True)
        (tmp_path / f"inventory/host_vars/{name}.yml").write_text(capacity)
    text = ansible("ansible-playbook", "-i", "inventory", "reduced.footprint.plan_placement", "-e", "plan_placement_measure=false", folder=tmp_path)
    assert "all 4 VMs have a server" in text and "failed=0" in text


def test_servers_of_another_inventory_have_roles_and_vms(tmp_path: pathlib.Path) -> None:
    found = guide.files(guide.blocks((ROOT / "docs/faq.md").read_text(encoding="utf-8")))
    # the server of NetBox cannot exist here: what its plugin returns
    source = {"metal1": {"ansible_host": "192.0.2.11", "device_roles": ["hypervisor"]}, "rack1": {"ansible_host": "192.0.2.5", "device_roles": ["pdu"]}}
    for name, text in {**found, "inventory/01-netbox.yml": yaml.safe_dump({"all": {"hosts": source}})}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "ansible.cfg").write_text("[inventory]\nenable_plugins = reduced.footprint.nodes, ansible.builtin.constructed, ansible.builtin.yaml\n")
    given = hosts(tmp_path)
    assert given["metal1"]["node_roles"] == ["virt", "compute"] and given["rack1"]["node_roles"] == []
    assert given["web"]["vm_host"] == "metal1" and given["web"]["ansible_host"] == "10.0.0.40"


def test_a_vm_on_any_host_is_few_lines_and_ends_with_its_address() -> None:
    page = guide.blocks((ROOT / "docs/just-vms.md").read_text(encoding="utf-8"))
    play, *others = [block.text for block in page if block.heading == "A complete play"]
    assert len(play.splitlines()) <= 18 and not any("virsh" in text for text in (play, *others))
    [[task, shown]] = [one["tasks"] for one in yaml.safe_load(play)]
    given = task["reduced.footprint.vm_define"]
    assert DefineRequest(**given).wait == "ssh" and [vm.id for vm in parse_vms(given["vms"], cluster=given["cluster"])] == ["web"]
    # what is shown is returned
    [named] = re.findall(r"attribute='(a\w+)'", shown["ansible.builtin.debug"]["msg"])
    assert task["register"] == "created" and hasattr(VmResult("", "", "", []), named)


#: Five typing errors in nodes.yml of the smallest inventory, and five in its variables.
TYPOS = {
    "nodes.yml": (
        ("ram: 4", "ram: 4096"), ("10.0.0.12", "10.0.0.300"), ("roles: [master]", "rolse: [master]"), ("10.0.0.23/24", "10.0.0.23/42"),
        ("disks: [{size: 12GiB", "disks: [{size: 12GB1"),
    ),
    "group_vars/all.yml": (
        ("virt_host_bridges: [{name: br-admin, port:", "virt_host_bridges: [{name: br-admin, prot:"),
        ("virt_guests_images: [{name: debian-12}]", "virt_guests_imagse: [{name: debian-12}]"),
        ("10.0.0.20", "10.0.0.256"), ("10.0.0.3 ", "10.0.0.333 "), ("ansible_user: root", "ansible_user: root\nvirt_guests_parallel: some"),
    ),
}  # fmt: skip
#: A part of the line of each.
FOUND = {
    "nodes.yml": ("Did you mean 4096 MiB", "rolse", "10.0.0.300", "10.0.0.23/42", "12GB1"),
    "group_vars/all.yml": ("prot", "imagse", "10.0.0.256", "10.0.0.333", "some"),
}


@pytest.mark.parametrize("file", TYPOS)
def test_five_typing_errors_are_five_lines(file: str, tmp_path: pathlib.Path) -> None:
    guide.write(tmp_path, page=guide.README)
    checks = guide.blocks((ROOT / "docs/inventory-checks.md").read_text(encoding="utf-8"))
    (tmp_path / "ansible.cfg").write_text(next(block.text for block in checks if block.text.startswith("# ansible.cfg")))
    path = tmp_path / "inventory" / file
    text = path.read_text()
    for right, wrong in TYPOS[file]:
        assert right in text
        text = text.replace(right, wrong, 1)
    path.write_text(text)
    env = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    env.update(HOME=str(tmp_path), ANSIBLE_COLLECTIONS_PATH=str(ROOT / ".cache/collections"), ANSIBLE_NOCOLOR="1")
    argv = [str(ROOT / ".venv/bin/ansible-playbook"), "reduced.footprint.site"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    assert done.returncode != 0 and len(lines) <= 12, done.stdout
    for word in FOUND[file]:
        assert sum(word in line for line in lines[-5:]) == 1, done.stdout
