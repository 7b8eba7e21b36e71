# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values of an inventory that no schema shows to be invalid."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import plan_names, run_inventory, run_names


@pytest.mark.parametrize("value", ["10.0.0.300", "256.1.1.1", "10.0.0.1/33", "1.2.3.999/8"])
def test_four_numbers_that_are_no_address(value: str) -> None:
    (error,) = plan_names.invalid_addresses({"a": [1, {"b": value}]}, "x")
    assert error.path == "x.a[1].b" and value in str(error)


@pytest.mark.parametrize("value", ["10.0.0.30", "10.0.0.0/24", "1.2.3", "1.2.3.4.5", "120.0.6099.129", "metal1", "2001:db8::1", 10, None, "{{ address }}"])
def test_other_values_are_valid(value: t.Any) -> None:
    assert plan_names.invalid_addresses([value], "x") == []


@pytest.mark.parametrize(("path", "count"), [("load_balancer_virtual_address", 1), ("x.address", 1), ("version", 0)])
def test_an_address_of_fewer_numbers_is_none(path: str, count: int) -> None:
    assert len(plan_names.invalid_addresses("10.0.2", path)) == count


def test_a_machine_that_is_migrated_is_in_the_inventory() -> None:
    hosts: dict[str, t.Any] = {"metal1": {"master_migrate_source": "labtop"}, "metal2": {"master_migrate_source": "labtop"}, "laptop": {}}
    expected = "master_migrate_source (set for metal1 and 1 more): the inventory has no host labtop. Did you mean laptop?"
    assert run_names.unknown_sources(hosts) == [expected]
    for value in ("laptop", "localhost", "", None, "{{ groups.master[0] }}"):
        assert run_names.unknown_sources({**hosts, **dict.fromkeys(("metal1", "metal2"), {"master_migrate_source": value})}) == []


@pytest.mark.parametrize("value", [None, "debian-99", 1, ["debian-99"], [{"name": None}, {"url": "x"}], [{"name": "debian-12"}, {"name": "a", "url": "x"}]])
def test_images_of_the_catalogue_and_with_a_url_are_valid(value: t.Any) -> None:
    assert run_names.images({"metal1": {"virt_guests_images": value}}, ["debian-12"]) == []


def test_an_image_without_a_url_is_in_the_catalogue() -> None:
    (error,) = run_names.images({"metal1": {"virt_guests_images": [{"name": "debian-12"}, {"name": "rocky"}]}}, ["debian-12"])
    assert error == "virt_guests_images[1].name: 'rocky' is not an image of the catalogue. Use one of debian-12, or add a url and a checksum."


@pytest.mark.parametrize("value", ["{{ a }}", ["{% if a %}b{% endif %}"], {"a": {"b": "x{{ c }}"}}, {"{{ a }}": 1}])
def test_templates_are_found(value: t.Any) -> None:
    assert plan_names.has_template(value) and not plan_names.has_template([1, "a", {"b": None}])


def test_values_of_variables_of_roles_by_the_hosts_that_have_them() -> None:
    known: plan_names.Known = {"galera": frozenset({"galera_x", "galera_y"}), "footprint": frozenset({"footprint_z"})}
    hosts = {"a": {"galera_x": [1], "galera_other": 1, "zone": 1}, "b": {"galera_x": [1], "galera_y": "{{ z }}"}, "c": {"galera_x": 2, "footprint_z": 3}}
    assert run_names.role_values(hosts, known) == {
        ("galera", "galera_x"): [([1], "set for a and 1 more"), (2, "set for c")],
        ("footprint", "footprint_z"): [(3, "set for c")],
    }


VMS = {"metal1": {"roles": ["virt"], "vms": [{"id": "c1", "memory": 4, "rack": 1}]}}


def test_slips_are_errors_unless_the_server_has_a_template_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = run_inventory.parse("blue", run_inventory.parse_servers(VMS))
    monkeypatch.setattr(run_names, "SLIPS", dict(plan.slips))
    message = "servers.metal1.vms[0].memory: is neither a known key nor used by the template. Did you mean ram?"
    assert run_names.slips({"metal1": {}, "metal2": {}}) == [message]
    assert run_names.slips({"metal1": {"virt_guests_template_file": "own.xml"}}) == []


def test_no_variable_of_a_packaged_template_is_a_slip() -> None:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_packaged import template_source
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_template import Template

    names = {name for kind in ("default", "bios", "uefi", "lxc") for name in Template(template_source(kind)).variables}
    own = names - {"name", "uuid", "id", "cpu", "ram", "hypervisor", "nics", "disks", "boot", "machine", "boot_firmware", "secure_boot", "memory_mb"}
    assert "root_ports" in own
    plan = run_inventory.parse("blue", run_inventory.parse_servers({"metal1": {"roles": ["virt"], "vms": [{"id": "c1", **dict.fromkeys(own, 1)}]}}))
    assert plan.slips == {"metal1": ()}
