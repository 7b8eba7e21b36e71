# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Defaults below VM details, addresses with a prefix, and all errors with the path at which they are written."""

from __future__ import annotations

import json
import typing as t

import pytest
import yaml
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_inventory
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import nic_mac

NIC = [{"bridge": "br-admin"}]


def read(text: str) -> run_inventory.Inventory:
    """The inventory of a file with ``servers`` and ``vm_defaults``."""
    content = yaml.safe_load(text)
    return run_inventory.parse("blue", run_inventory.parse_servers(content["servers"], vm_defaults=content.get("vm_defaults")))


def vms(text: str) -> dict[str, dict[str, t.Any]]:
    """The complete entries of all VMs by id, as the variable ``vms`` of their server has them."""
    return {vm["id"]: vm for host in run_inventory.hosts(read(text), {}) for vm in host.variables.get("vms", ())}


def errors(text: str) -> list[str]:
    """Each error of a file."""
    with pytest.raises(InputError) as refused:
        read(text)
    lines = str(refused.value).split("\n  ")
    return lines[1:] if len(lines) > 1 else lines


LAYERS = """
vm_defaults:
  ram: 4
  roles: [controller]
  nics: [{bridge: br-admin}]
  note: {a: 1, b: 1}
servers:
  metal1:
    roles: [virt]
    vm_defaults: {ram: 6, rack: 1}
    vms:
      - {id: c1}
      - {id: c2, ram: 8, roles: [db], note: {b: 2}}
      - {id: c3, mem: 2, rack: null, nics: null}
  metal2:
    roles: [virt]
    vms: '[{"id": "c4"}]'
"""


def test_values_of_the_vm_then_of_its_server_then_of_the_cluster() -> None:
    found = vms(LAYERS)
    assert found["c1"] == {"id": "c1", "ram": 6, "roles": ["controller"], "nics": NIC, "note": {"a": 1, "b": 1}, "rack": 1}
    assert found["c2"] == {"id": "c2", "ram": 8, "roles": ["db"], "nics": NIC, "note": {"a": 1, "b": 2}, "rack": 1}
    # another name of the same value replaces it; null removes a default
    assert found["c3"] == {"id": "c3", "mem": 2, "roles": ["controller"], "nics": None, "note": {"a": 1, "b": 1}, "rack": None}
    assert found["c4"] == {"id": "c4", "ram": 4, "roles": ["controller"], "nics": NIC, "note": {"a": 1, "b": 1}}


def test_input_is_not_changed() -> None:
    content = yaml.safe_load(LAYERS)
    before = json.dumps(content)
    run_inventory.parse("blue", run_inventory.parse_servers(content["servers"], vm_defaults=content["vm_defaults"]))
    assert json.dumps(content) == before


ADDRESS = """
vm_defaults: {nics: [{bridge: br-admin}, {bridge: br-data}], gateway: 192.0.2.1, nameservers: [192.0.2.1, 192.0.2.2]}
servers:
  metal1:
    roles: [virt]
    vms:
      - {id: c1, address: 192.0.2.21/24}
      - {id: c2, address: "2001:db8::2/64", gateway: "2001:db8::1", nameservers: null}
      - {id: c3, address: 192.0.2.23, network_config: {version: 2}}
      - {id: c4}
"""


def test_address_with_a_prefix_becomes_the_network_configuration_of_the_first_nic() -> None:
    found = vms(ADDRESS)
    device = {
        "match": {"macaddress": nic_mac("blue", "c1", 0)},
        "addresses": ["192.0.2.21/24"],
        "routes": [{"to": "0.0.0.0/0", "via": "192.0.2.1"}],
        "nameservers": {"addresses": ["192.0.2.1", "192.0.2.2"]},
    }
    assert found["c1"]["address"] == "192.0.2.21"
    assert found["c1"]["network_config"] == {"version": 2, "ethernets": {"nic0": device}}
    six = found["c2"]["network_config"]["ethernets"]["nic0"]
    assert six["routes"] == [{"to": "::/0", "via": "2001:db8::1"}] and "nameservers" not in six
    assert found["c2"]["address"] == "2001:db8::2"
    assert found["c3"]["network_config"] == {"version": 2} and found["c3"]["address"] == "192.0.2.23"
    assert "network_config" not in found["c4"]
    assert not [vm for vm in found.values() if "gateway" in vm or "nameservers" in vm]
    assert [machine.vm.address for machine in read(ADDRESS).machines] == ["192.0.2.21", "2001:db8::2", "192.0.2.23", None]


def test_router_with_a_link_local_address() -> None:
    found = vms("servers: {m: {roles: [virt], vms: [{id: c1, nics: [{bridge: b}], address: '2001:db8::2/64', gateway: 'fe80::1'}]}}")
    assert found["c1"]["network_config"]["ethernets"]["nic0"]["routes"] == [{"to": "::/0", "via": "fe80::1"}]


def test_complete_details_are_read_again_unchanged() -> None:
    """Playbooks read the variables of a server again."""
    complete = {"metal1": {"roles": ["virt"], "vms": list(vms(ADDRESS).values())}}
    again = run_inventory.parse("blue", run_inventory.parse_servers(complete))
    assert [machine.vm for machine in again.machines] == [machine.vm for machine in read(ADDRESS).machines]


HEAD = "servers: {metal1: {roles: [virt], vm_defaults: {SERVER}, vms: [{id: c0}, {id: c1, VM}]}}\nvm_defaults: {CLUSTER}"
#: What is written for the cluster, the server and the VM → the error.
WRONG = {
    ("ram: 4096", "", ""): "vm_defaults.ram: 4096 GiB is more than a VM usually has.",
    ("", "ram: lots", ""): "servers.metal1.vm_defaults.ram: 'lots' is not a size.",
    ("ram: 4", "", "ram: many"): "servers.metal1.vms[1].ram: 'many' is not a size.",
    ("disks: [{size: 4}]", "", "disks: [{sise: 4}]"): "servers.metal1.vms[1].disks[0].sise: is not a known key. Did you mean size?",
    ("disks: [{sise: 4}]", "", ""): "vm_defaults.disks[0].sise: is not a known key. Did you mean size?",
    ("id: c9", "", ""): "vm_defaults.id: is different for each VM. Write it in the entries of vms.",
    ("", "address: 192.0.2.1", ""): "servers.metal1.vm_defaults.address: is different for each VM.",
    ("gateway: 192.0.2.300", "nics: [{bridge: b}]", "address: 192.0.2.2/24"): "vm_defaults.gateway: '192.0.2.300' is not an IP address.",
    ("gateway: 198.51.100.1", "nics: [{bridge: b}]", "address: 192.0.2.2/24"): "vm_defaults.gateway: 198.51.100.1 is not in the network 192.0.2.0/24",
    ("gateway: 192.0.2.2", "nics: [{bridge: b}]", "address: 192.0.2.2/24"): "vm_defaults.gateway: 192.0.2.2 is the address of the VM itself.",
    ("", "nics: [{bridge: b}], nameservers: 192.0.2.1", "address: 192.0.2.2/24"): "servers.metal1.vm_defaults.nameservers: expected a list, got text.",
    ("nameservers: [x]", "nics: [{bridge: b}]", "address: 192.0.2.2/24"): "vm_defaults.nameservers[0]: 'x' is not an IP address.",
    ("", "nics: [{bridge: b}]", "address: 192.0.2.300/24"): "servers.metal1.vms[1].address: '192.0.2.300/24' is not an IP address with a prefix.",
    ("", "nics: [{bridge: b}]", "address: 192.0.2.0/24"): "servers.metal1.vms[1].address: 192.0.2.0/24 is the address of the network",
    ("", "", "address: 192.0.2.2/24"): "servers.metal1.vms[1].address: has a prefix, which is for the first NIC, but the VM has no NIC.",
    ("", "", "address: 192.0.2.2, gateway: 192.0.2.1"): "servers.metal1.vms[1].gateway: requires an address with a prefix.",
    ("", "nics: [{bridge: b}]", "address: 192.0.2.2/24, network_config: {version: 2}"): "servers.metal1.vms[1].network_config: is derived from an address",
    ("network_config: {version: 2}", "nics: [{bridge: b}]", "address: 192.0.2.2/24"): "vm_defaults.network_config: is derived from an address",
}


@pytest.mark.parametrize("written", WRONG)
def test_error_names_the_place_where_the_value_is_written(written: tuple[str, str, str]) -> None:
    text = HEAD
    for name, value in zip(("CLUSTER", "SERVER", "VM"), written):
        text = text.replace(f"{{{name}}}", f"{{{value}}}").replace(f", {name}", f", {value}" if value else "")
    (found,) = set(errors(text))
    assert found.startswith(WRONG[written])


def test_all_errors_at_once() -> None:
    found = errors(
        """
        servers:
          metal1:
            roles: [virt]
            vms:
              - {id: c1, ram: 4096, cpu: two, address: 192.0.2.300, nics: [{brigde: b}]}
              - c2
              - {id: -1, disks: 40, autostart: perhaps}
              - {id: c4, hypervisor: lcx, disks: [{size: 1, format: dir}]}
          metal2: {vms: [{id: c5, ram: 1}]}
        """
    )
    assert [one.partition(": ")[0].removeprefix("servers.") for one in found] == [
        *(f"metal1.vms[0].{key}" for key in ("nics[0].brigde", "cpu", "ram", "address")),
        "metal1.vms[1]",
        *(f"metal1.vms[2].{key}" for key in ("id", "disks", "autostart")),
        # what else there is depends on the type of the hypervisor
        "metal1.vms[3].hypervisor",
        "metal2.vms",
    ]


def test_an_error_hides_no_other_and_causes_none() -> None:
    text = "vm_defaults: {gateway: 192.0.2.1}\nservers: {metal1: {roles: [virt], vms: [{id: c1, VM}]}}"
    assert len(errors(text.replace("VM", "nics: [{bridge: -}], address: 192.0.2.2/24"))) == 1
    assert len(errors(text.replace("VM", "nics: [{bridge: b}], address: 192.0.2.256/24, gateway: 192.0.2.3"))) == 1
    assert len(errors(text.replace("id: c1, VM", "idd: c1"))) == 1
    assert errors(text.replace("id: c1, VM", "idd: c1, nics: [{bridge: b}], address: 192.0.2.2/24")) == [
        "servers.metal1.vms[0].idd: is not a known key. Did you mean id?"
    ]
    assert len(errors(text.replace("id: c1, VM", "id: -1, nics: [{bridge: b}], address: 192.0.2.2/24"))) == 1
