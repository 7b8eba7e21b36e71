# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines as the input of deployers."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_export, plan_machines

VM = {"id": "controller1", "cpu": 2, "ram": 8, "boot_firmware": "efi", "nics": [{"bridge": "br-admin"}], "disks": [{"size": "40GiB"}]}


def hostvars(**server: t.Any) -> dict[str, t.Any]:
    bmc = {"address": "192.0.2.101:444", "user": "admin", "secret": "bmc/metal2", "system": "Self", "boot_mac": "52:54:00:AA:00:01", "verify_ca": "/ca.pem"}
    return {
        "metal1": {"ansible_host": "192.0.2.11", **server},
        "metal2": {"ansible_host": "192.0.2.12", "bmc": bmc, "node_capacity": {"memory": 64, "cpus": 16}},
        "controller1": {"vm_details": VM, "vm_host": "metal1", "footprint_cluster": "blue"},
        "box": {"vm_details": {"id": "box", "hypervisor": "lxc"}, "vm_host": "metal1", "footprint_cluster": "blue"},
    }


def find(known: dict[str, t.Any], account: str | None = None) -> plan_machines.Found:
    return plan_machines.find(known, list(known), account, "secret of {}".format, "secret of {1}".format)


def test_machines_are_vms_behind_the_emulator_and_servers_with_a_controller() -> None:
    found = find(hostvars())
    assert {one.name: (one.url, one.user, one.password, one.boot_mode) for one in found.machines} == {
        "metal2": ("https://192.0.2.101:444", "admin", "secret of bmc/metal2", "uefi"),
        "controller1": ("https://192.0.2.11:8443", "operator", "secret of redfish/operator", "uefi"),
    }
    assert found.skipped == {"metal1": "no bmc is set", "box": "a container cannot boot what a deployer provides"}


def test_a_vm_is_exported_with_an_account_that_may_use_it() -> None:
    accounts = [{"name": "other", "vms": ["controller2"]}, {"name": "mine", "vms": ["Controller1"], "secret": "s"}]
    known = hostvars(redfish_emulator_accounts=accounts, redfish_emulator_port=9443, redfish_emulator_address="2001:db8::1")
    one = next(each for each in find(known).machines if each.name == "controller1")
    assert (one.user, one.password, one.url) == ("mine", "secret of s", "https://[2001:db8::1]:9443")
    assert find(known, "other").skipped["controller1"] == "no account of redfish_emulator_accounts on metal1 may use it"
    with pytest.raises(InputError, match="has no account unknown-one"):
        find(known, "unknown-one")


def test_an_unknown_host_is_named_with_a_similar_one() -> None:
    with pytest.raises(InputError, match=r"export_metal_hosts\[1\]: the inventory has no host metal3") as raised:
        plan_machines.find(hostvars(), ["metal2", "metal3"], None, str, "{} {}".format)
    assert "Did you mean metal" in str(raised.value)


def test_ironic() -> None:
    nodes = {node["name"]: node for node in plan_export.export(find(hostvars()).machines, "ironic")["nodes"]}
    assert nodes["metal2"]["driver_info"] == {
        "redfish_address": "https://192.0.2.101:444",
        "redfish_system_id": "/redfish/v1/Systems/Self",
        "redfish_username": "admin",
        "redfish_password": "secret of bmc/metal2",
        "redfish_verify_ca": "/ca.pem",
    }
    assert nodes["controller1"]["driver_info"]["redfish_auth_type"] == "basic"
    assert nodes["metal2"]["ports"] == [{"address": "52:54:00:aa:00:01"}]
    assert nodes["controller1"]["properties"] == {
        "cpus": 2, "memory_mb": 8192, "local_gb": 39, "cpu_arch": "x86_64", "capabilities": "boot_mode:uefi"
    }  # fmt: skip


def test_the_only_system_of_a_controller_has_any_id() -> None:
    # System.Embedded.1 of an iDRAC, for example: Ironic and MAAS find it
    known = hostvars()
    del known["metal2"]["bmc"]["system"]
    machines = find(known).machines
    assert "redfish_system_id" not in plan_export.export(machines, "ironic")["nodes"][0]["driver_info"]
    assert "node_id" not in plan_export.export(machines, "maas")[0]["power_parameters"]
    assert plan_export.export(machines, "metal3")[1]["spec"]["bmc"]["address"].endswith("/redfish/v1/Systems/1")


def test_the_firmware_of_a_server_is_the_declared_one() -> None:
    known = hostvars()
    known["metal2"]["hardware"] = {"firmware": "bios"}
    machines = find(known).machines
    assert plan_export.export(machines, "ironic")["nodes"][0]["properties"]["capabilities"] == "boot_mode:bios"
    assert plan_export.export(machines, "metal3")[1]["spec"]["bootMode"] == "legacy"


def test_metal3() -> None:
    objects = plan_export.export(find(hostvars()).machines, "metal3")
    assert [(one["kind"], one["metadata"]["name"]) for one in objects] == [
        ("Secret", "metal2-bmc"), ("BareMetalHost", "metal2"), ("Secret", "controller1-bmc"), ("BareMetalHost", "controller1")
    ]  # fmt: skip
    spec = objects[1]["spec"]
    assert spec["bmc"]["address"] == "redfish-virtualmedia+https://192.0.2.101:444/redfish/v1/Systems/Self" and spec["bootMode"] == "UEFI"
    twin = [one._replace(name=name) for one, name in zip(find(hostvars()).machines, ("a_b", "a.b"))]
    with pytest.raises(InputError, match="are both a-b in Kubernetes"):
        plan_export.export(twin, "metal3")


def test_maas() -> None:
    machines = find(hostvars()).machines
    assert plan_export.export(machines, "maas")[0] == {
        "hostname": "metal2",
        "architecture": "amd64/generic",
        "mac_addresses": ["52:54:00:aa:00:01"],
        "power_type": "redfish",
        "power_parameters": {"power_address": "https://192.0.2.101:444", "power_user": "admin", "power_pass": "secret of bmc/metal2", "node_id": "Self"},
    }
    with pytest.raises(InputError, match="is not supported"):
        plan_export.export(machines, "cobbler")


@pytest.mark.parametrize(
    ("address", "system", "ip"),
    [
        ("192.0.2.101", None, "192.0.2.101"),
        ("[2001:db8::1]:443", None, "2001:db8::1"),
        # the proxy of Foreman has no port, requires an address, and would control the first system instead of this one
        ("192.0.2.101:444", None, None),
        ("bmc1.example.org", None, None),
        ("192.0.2.101", "Self", None),
    ],
)
def test_foreman_gets_only_controllers_that_it_can_use(address: str, system: str | None, ip: str | None) -> None:
    known = hostvars()
    known["metal2"]["bmc"].update(address=address, system=system)
    hosts = {one["name"]: one["interfaces_attributes"] for one in plan_export.export(find(known).machines, "foreman", "example.org")}
    assert [one["ip"] for one in hosts["metal2.example.org"] if one["type"] == "bmc"] == [ip] * bool(ip)
    # VMs behind an emulator are systems of one controller
    assert [one["type"] for one in hosts["controller1.example.org"]] == ["interface"]


def test_foreman_requires_names_with_a_domain() -> None:
    machines = [one._replace(name=f"{one.name}.example.net") for one in find(hostvars()).machines]
    assert {one["name"] for one in plan_export.export(machines, "foreman", "example.org")} == {"metal2.example.net", "controller1.example.net"}
    for domain, words in ((None, "requires a domain for metal2"), ("exa mple", "is not the name of a domain"), ("-", "is not the name of a domain")):
        with pytest.raises(InputError, match=words) as raised:
            plan_export.export(find(hostvars()).machines, "foreman", domain)
        assert str(raised.value).startswith("export_metal_domain: ")
