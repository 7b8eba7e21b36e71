# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slips of a user in an inventory file, VM details and plans, each with the whole message: where, what, and how to correct it.

``test_slips_of_playbooks.py`` has those that only a whole run of a playbook shows.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.run_plan import PlanRequest, plan_footprint
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import DiskSource
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_blame, xml_template
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_packaged import template_source
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_variables import unused_attributes, variables_of

ROOT = pathlib.Path(__file__).resolve().parents[2]

#: A line in the entry of the server metal1 → the message.
SERVER = {
    "rolse: [virt]": "servers.metal1.rolse: is not a known key. Did you mean roles?",
    "role: virt": "servers.metal1.role: is not a known key. Did you mean roles?",
    "node_role: [virt]": "servers.metal1.node_role: is not a known key. Did you mean node_roles?",
    "vm: []": "servers.metal1.vm: is not a known key. Did you mean vms?",
    "node_capacty: {memory: 8}": "servers.metal1.node_capacty: is not a known key. Did you mean node_capacity?",
    "ansible_hots: 192.0.2.1": "servers.metal1.ansible_hots: is not a known key. Did you mean ansible_host?",
    "ansible_usr: root": "servers.metal1.ansible_usr: is not a known key. Did you mean ansible_user?",
    "virt_host_bridgs: []": "servers.metal1.virt_host_bridgs: virt_host_bridgs is not a variable of this collection. Did you mean virt_host_bridges?",
    "footprint_adresses: []": "servers.metal1.footprint_adresses: footprint_adresses is not a variable of this collection. "
    "Did you mean footprint_addresses?",
    "roles: [contoller]": "servers.metal1.roles[0]: unknown role 'contoller'. Did you mean controller?",
    "roles: [compute, vrt]": "servers.metal1.roles[1]: unknown role 'vrt'. Did you mean virt?",
    "roles: {virt: yes}": "servers.metal1.roles: expected a list of roles, got {'virt': True}. Write a list of names, e.g. [virt, compute].",
    "vm_default: {ram: 4}": "servers.metal1.vm_default: is not a known key. Did you mean vm_defaults?",
    "vm_defaults: [ram]": "servers.metal1.vm_defaults: expected a mapping, got a list. "
    "Write the common keys of the VMs, e.g. {ram: 4, nics: [{bridge: br-admin}]}.",
    "ansible_host: 192.0.2.300": "servers.metal1.ansible_host: '192.0.2.300' is not an IP address. Write four numbers from 0 to 255, e.g. 192.0.2.10.",
    "virt_host_bridges: [{address: 192.0.2/24}, {address: 192.0.2.1/33}]": "servers.metal1.virt_host_bridges[1].address: '192.0.2.1/33' is not an IP address. "
    "Write four numbers from 0 to 255, e.g. 192.0.2.10.",
    "vms: [{id: c1}]": "servers.metal1.vms: metal1 has VM details but not the role virt. "
    "Add virt to its roles, or move the VM details to a server with this role.",
}
#: VM details of a virt host → the message after ``servers.metal1.``.
VMS = {
    "c1": "vms: is not valid JSON: Expecting value: line 1 column 1 (char 0). Correct the JSON text, or pass the value itself instead of a text.",
    "[c1]": "vms[0]: is text, not a mapping. Write each VM as a mapping, e.g. {id: 1, cpu: 2, ram: 4}.",
    "{id: c1}": "vms: is a mapping, not a list. Use a list of VM details, also for a single VM.",
    "[{idd: c1}]": "vms[0].idd: is not a known key. Did you mean id?",
    "[{name: c1}]": "vms[0].id: is missing. Set an id that is unique in the cluster.",
    "[{id: c1, ram: 4096}]": "vms[0].ram: 4096 GiB is more than a VM usually has. A number is in GiB. Did you mean 4096 MiB? "
    "Add the unit, '4096 MiB' or '4096 GiB'.",
    "[{id: c1, ram: 4 GB}, {id: c1}]": "vms[1].id: 'c1' is already used at servers.metal1.vms[0].id. Use an id that is unique in the cluster.",
    "[{id: c1, ram: lots}]": "vms[0].ram: 'lots' is not a size. Write a number or a number with a unit, for example 2, 1.5 or '512 MiB'.",
    "[{id: c1, cpu: two}]": "vms[0].cpu: 'two' is not a whole number of CPUs. Use a whole number, e.g. 2.",
    "[{id: c1, hypervisor: kmv}]": "vms[0].hypervisor: 'kmv' is not a valid hypervisor type. Use one of auto, kvm, qemu, lxc.",
    "[{id: c1, roles: [contoller]}]": "vms[0].roles[0]: unknown role 'contoller'. Did you mean controller?",
    "[{id: c1, nics: [{brigde: br0}]}]": "vms[0].nics[0].brigde: is not a known key. Did you mean bridge?",
    "[{id: c1, nics: [{bridge: br0, network: n}]}]": "vms[0].nics[0]: has both a bridge and a network. Set exactly one of the two.",
    "[{id: c1, disks: [{sise: 4}]}]": "vms[0].disks[0].sise: is not a known key. Did you mean size?",
    "[{id: c1, disks: [{imgae: debian}]}]": "vms[0].disks[0].imgae: is not a known key. Did you mean image?",
    "[{id: c1, host: metl1}]": "vms[0].host: no server is named metl1. Did you mean metal1?",
    "[{id: c1, address: 192.0.2.10/24}]": "vms[0].address: has a prefix, which is for the first NIC, but the VM has no NIC. "
    "Add nics, e.g. [{bridge: br-admin}].",
    "[{id: c1, address: 192.0.2.300}]": "vms[0].address: '192.0.2.300' is not an IP address. Use an address without prefix, e.g. 192.0.2.10.",
    "[{id: c1, address: 192.0.2.1, gateway: 192.0.2.2}]": "vms[0].gateway: requires an address with a prefix. Write the address as e.g. 192.0.2.10/24.",
}
#: Lines at the top level → the message.
OPTIONS = {
    "dhcp_lease: []": "dhcp_lease: is not a known key. Did you mean dhcp_leases?",
    "clusters: blue": "clusters: is not a known key. Did you mean cluster?",
    "server: {}": "server: is not a known key. Did you mean servers?",
    "vm_defaults: {id: c1}": "vm_defaults.id: is different for each VM. Write it in the entries of vms.",
    "{dhcp_lease: [], server: {}}": "2 errors:\n  dhcp_lease: is not a known key. Did you mean dhcp_leases?\n"
    "  server: is not a known key. Did you mean servers?",
    "nodes: {'metal1$': {role: [virt]}}": "nodes.metal1$.role: is not a known key. Did you mean roles?",
    "nodes: {'metal1$': {roles: [vitr]}}": "nodes.metal1$.roles[0]: unknown role 'vitr'. Did you mean virt?",
    "nodes: {'metal[': {}}": "nodes.metal[: invalid regular expression: unterminated character set at position 5. Correct the expression, e.g. node[1-3].",
    "roles: {db: [databse]}": "roles.db[0]: unknown service 'databse'. Did you mean database?",
    "replicas: {galra: 3}": "replicas.galra: unknown service 'galra'. Did you mean galera?",
    "services: {heat: {rolle: a.b.c}}": "services.heat.rolle: is not a known key. Did you mean role?",
    "services: {heat: {role: a.b.c, depends: [rcp]}}": "services.heat.depends[0]: unknown service 'rcp'. Did you mean rpc?",
    "services: {rpc: {service_def: rabitmq}}": "services.rpc.service_def: unknown real service 'rabitmq'. Did you mean rabbitmq?",
    "services: {galera: {configs: {setings: {}}}}": "services.galera.configs.setings: galera_setings is not a variable of this collection. "
    "Did you mean settings?",
    "configs: {galera: {setings: {}}}": "configs.galera.setings: galera_setings is not a variable of this collection. Did you mean settings?",
    "configs: {database: {setings: {}}}": "configs.database.setings: galera_setings is not a variable of this collection. Did you mean settings?",
    "global_configs: {keystone_admin_pasword: x}": "global_configs.keystone_admin_pasword: keystone_admin_pasword is not a variable of this collection. "
    "Did you mean keystone_admin_password?",
    "nodes: {'metal1$': {configs: {rabbitmq: {hearbeat: 5}}}}": "nodes.metal1$.configs.rabbitmq.hearbeat: rabbitmq_hearbeat is not a variable of "
    "this collection. See the variables of the role rabbitmq, or list it in footprint_other_variables if something else uses it.",
    "includes: [comon.yml]": "includes: comon.yml does not exist. Give the path of a file relative to this file.",
    "environment: a b": "environment: 'a b' is not a valid environment name. Use letters, digits, dots, hyphens and underscores.",
}
#: What looks like a slip and is none.
VALID = {
    "own roles": "servers: {metal1: {roles: [virt, storage, rack2]}}",
    "own variables": "servers: {metal1: {rack: 2, zone: a, ansible_ssh_common_args: -4, ansible_remote_tmp: /tmp}}",
    "memory with a unit": "servers: {metal1: {roles: [virt], vms: [{id: c1, ram: 4096 MiB}, {id: c2, ram: 768 GiB}, {id: c3, ram: 256}]}}",
    "keys for templates": "servers: {metal1: {roles: [virt], vms: [{id: c1, rack: 4, nics: [{bridge: br0, queues: 4}]}]}}",
    "own service with the name of an included one": "services: {keystone: {role: my.own.keystone, configs: {anything: 1}}}",
}


def inventories() -> dict[str, tuple[str, str]]:
    """The text of each inventory file, and the message it must cause, by a name for the test."""
    head = "plugin: reduced.footprint.nodes\n"
    found = {}
    for line, message in SERVER.items():
        found[line] = (f"{head}cluster: blue\nservers:\n  metal1: {{{line}}}\n", message)
    for details, message in VMS.items():
        found[f"vms: {details}"] = (f"{head}cluster: blue\nservers:\n  metal1:\n    roles: [virt]\n    vms: {details}\n", f"servers.metal1.{message}")
    for line, message in OPTIONS.items():
        found[line] = (f"{head}cluster: blue\n{line[1:-1].replace(', ', chr(10)) if line[0] == '{' else line}\n", message)
    for name, line in VALID.items():
        found[name] = (f"{head}cluster: blue\n{line}\n", "")
    return found


INVENTORIES = inventories()
READ = """
import json, sys
from ansible.plugins.loader import init_plugin_loader, inventory_loader

init_plugin_loader()
from ansible.errors import AnsibleError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader

messages = []
for path in sys.argv[1:]:
    try:
        inventory_loader.get("reduced.footprint.nodes").parse(InventoryData(), DataLoader(), path)
        messages.append("")
    except AnsibleError as error:
        messages.append(str(error).removeprefix(f"{path}: "))
print(json.dumps(messages))
"""


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The message of each inventory; one process of Ansible reads them all."""
    folder = tmp_path_factory.mktemp("slips")
    files = [folder / f"{number}.yml" for number in range(len(INVENTORIES))]
    for file, (text, unused) in zip(files, INVENTORIES.values()):
        file.write_text(text, "utf-8")
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"), "ANSIBLE_LOCAL_TEMP": str(folder)}
    done = subprocess.run([sys.executable, "-c", READ, *map(str, files)], env=env, check=True, stdout=subprocess.PIPE, text=True)
    return dict(zip(INVENTORIES, json.loads(done.stdout)))


@pytest.mark.parametrize("name", INVENTORIES)
def test_inventory(messages: dict[str, str], name: str) -> None:
    assert messages[name] == INVENTORIES[name][1]


# VM details that the template does not use

#: A key of VM details that neither the packaged template nor the collection knows → the end of the message, or a warning.
DETAILS: dict[str, tuple[dict[str, t.Any], str]] = {
    "memory": ({"memory": 4}, "vms[0].memory: is neither a known key nor used by the template. Did you mean ram?"),
    "cpus": ({"cpus": 4}, "vms[0].cpus: is neither a known key nor used by the template. Did you mean cpu?"),
    "disk": ({"disk": []}, "vms[0].disk: is neither a known key nor used by the template. Did you mean disks?"),
    "protcted": ({"protcted": True}, "vms[0].protcted: is neither a known key nor used by the template. Did you mean protected?"),
    "anti_afinity": ({"anti_afinity": "a"}, "vms[0].anti_afinity: is neither a known key nor used by the template. Did you mean anti_affinity?"),
    "user_date": ({"user_date": "x"}, "vms[0].user_date: is neither a known key nor used by the template. Did you mean user_data?"),
    "nic": ({"nics": [{"bridge": "br0", "vlna": 4}]}, "vms[0].nics[0].vlna: is neither a known key nor used by the template. Did you mean vlan?"),
    "image": (
        {"disks": [{"size": 4, "imgae": "debian"}]},
        "vms[0].disks[0].imgae: is neither a known key nor used by the template. Did you mean image?",
    ),
}


def unused(details: dict[str, t.Any], source: str = "") -> tuple[t.Any, tuple[str, ...]]:
    """The parsed VM, and what the template does not use of it."""
    (vm,) = parse_vms([{"id": "c1", **details}], cluster="blue")
    template = xml_template.Template(source or template_source("default"))
    sources = [DiskSource("file", "/srv/x.img", "default")] * len(vm.disks)
    rendered = template.render(variables_of(vm, "blue", "qemu", sources))
    return vm, unused_attributes(vm, template, rendered)


@pytest.mark.parametrize("name", DETAILS)
def test_detail_that_is_similar_to_a_known_one(name: str) -> None:
    details, message = DETAILS[name]
    with pytest.raises(InputError) as refused:
        run_blame.unknown_details(*unused(details))
    assert str(refused.value) == message


def test_detail_that_means_nothing_is_a_warning() -> None:
    found = run_blame.unknown_details(*unused({"rack": 4, "nics": [{"bridge": "br0", "queues": 2}]}))
    assert found == ("rack, nics[0].queues: not used by the template, and without any other meaning",)


def test_detail_that_the_template_uses_is_valid() -> None:
    assert run_blame.unknown_details(*unused({"memory": 4}, "<domain><name>{id}</name><memory>{memory}</memory></domain>")) == ()


# Plans

#: The request → the message.
PLANS: dict[str, tuple[dict[str, t.Any], str]] = {
    "server": ({"servers": [{"name": "m", "memry": 8}]}, "servers[0].memry: is not a known key. Did you mean memory?"),
    "cpus": ({"servers": [{"name": "m", "memory": 8}]}, "servers[0].cpus: is missing. Give both memory and cpus, or neither if the server was not measured."),
    "wanted": ({"wanted": [{"name": "c", "mach": "exact"}]}, "wanted[0].mach: is not a known key. Did you mean match?"),
    "host": (
        {"servers": {"metal1": {}, "metal2": {}}, "vms": [{"id": "c", "host": "metl2"}]},
        "vms[0].host: 'metl2' is not a server of this plan. Did you mean metal2?",
    ),
    "current": (
        {"servers": {"metal1": {}}, "vms": [{"id": "c"}], "current": {"c": "matel1"}},
        "current.c: 'matel1' is not a server of this plan. Did you mean metal1?",
    ),
    "ram": (
        {"vms": [{"id": "c", "ram": "8192"}]},
        "vms[0].ram: 8192 GiB is more than a VM usually has. A number is in GiB. Did you mean 8192 MiB? Add the unit, '8192 MiB' or '8192 GiB'.",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_plan(name: str) -> None:
    request, message = PLANS[name]
    with pytest.raises(InputError) as refused:
        plan_footprint(PlanRequest(cluster="blue", **request))
    assert str(refused.value) == message


def reasons(**request: t.Any) -> dict[str, tuple[str, str]]:
    """VM → its action and reason."""
    return {one["id"]: (one["action"], one["reason"]) for one in plan_footprint(PlanRequest(cluster="blue", **request)).report["placements"]}


def test_plan_calls_only_existing_vms_existing() -> None:
    metal = {"name": "metal1", "memory": 64, "cpus": 16, "vms": [{"id": "c1"}, {"id": "c2"}]}
    found = reasons(servers=[{**metal, "runs": ["c1"]}])
    assert found == {"c1": ("stay", "stays on its current server"), "c2": ("place", "listed on this server")}
    # not measured
    assert reasons(servers=[metal])["c1"] == ("stay", "listed on this server")


def test_plan_does_not_move_what_is_only_listed() -> None:
    listed = [{"id": f"c{number}", "roles": ["controller"]} for number in (1, 2)]
    machines = [{"name": "metal1", "memory": 64, "cpus": 16, "vms": listed, "runs": ["c1"]}, {"name": "metal2", "memory": 64, "cpus": 16, "runs": []}]
    found = plan_footprint(PlanRequest(cluster="blue", servers=machines)).report
    assert found["moves"] == []
    assert reasons(servers=machines)["c2"] == ("place", "is listed on metal1, planned here away from c1 on metal1")


def test_profile_adds_only_what_is_not_listed() -> None:
    machines = [{"name": f"metal{number}", "memory": 64, "cpus": 16} for number in (1, 2, 3)]
    machines[0]["vms"] = [{"id": "controller1", "roles": ["controller"]}, {"id": "db", "roles": ["controller"]}]
    assert set(reasons(servers=machines, profile="reduced")) == {"controller1", "db", "controller2", "master"}
    assert set(reasons(servers=machines, vms='[{"id": "boss", "roles": "master"}]', profile="reduced")) == {"controller1", "db", "controller2", "boss"}
