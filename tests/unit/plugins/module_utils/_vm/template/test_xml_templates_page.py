# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/templates.md: its tables contain all variables, and its examples work."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import DiskSource
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_packaged import PACKAGED
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_template import Template
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_variables import unused_attributes, variables_of

PAGE = pathlib.Path(__file__).resolve().parents[6] / "docs" / "templates.md"
TEXT = PAGE.read_text(encoding="utf-8")
SEED = {"path": "/pool/c1-seed.iso", "type": "file", "format": "raw", "target": "vdz", "bus": "virtio"}
ALL = {
    "id": "controller1",
    "vcpus": 2,
    "mem": 4,
    "vda_size": 40,
    "address": "192.0.2.1",
    "machine": "q35",
    "user_data": "x",
    "rack": "r7",
    "shares": [{"dir": "/srv/images", "tag": "images"}],
    "nics": [{"bridge": "br-admin"}],
    "disks": [{"size": 40, "cache": "writeback"}],
}


def variables() -> dict[str, t.Any]:
    """Everything a VM can have."""
    vm = parse_vms([ALL], cluster="home")[0]
    return variables_of(vm, "home", "qemu", [DiskSource("file", "/pool/x", "default")], SEED)


def named(heading: str) -> set[str]:
    """The variables of the table below a heading, without what they belong to."""
    section = TEXT.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name.split(".")[-1] for cell in cells for name in re.findall("`([^`]+)`", cell)}


def test_vm_table_is_complete() -> None:
    free = {"rack", "shares"}
    flat = {name for name in variables() if re.match("(nic|disk)[0-9]+_|seed_", name)}
    assert named("VM variables") == set(variables()) - free - flat


@pytest.mark.parametrize("heading, kind", [("NIC variables", "nics"), ("Disk variables", "disks")])
def test_nic_and_disk_tables_are_complete(heading: str, kind: str) -> None:
    assert named(heading) == set(variables()[kind][0]) - {"cache"}


def test_seed_table_is_complete() -> None:
    assert named("Seed variables") == set(SEED) == set(variables()["seed"])


def test_table_of_packaged_templates_is_complete() -> None:
    section = TEXT.split("## Packaged templates\n", 1)[1].split("\n##", 1)[0]
    assert {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")} == set(PACKAGED)


def test_free_variables_of_the_packaged_templates_are_documented() -> None:
    for name in {name for source in PACKAGED.values() for name in Template(source).variables} - set(variables()):
        assert f"`{name}`" in TEXT


@pytest.mark.parametrize("number", [0, 1])
def test_examples_of_the_page_work(number: int) -> None:
    source = re.findall("```(?:xml|jinja)\n(.*?)```", TEXT, re.DOTALL)[number]
    vm = parse_vms([dict(ALL, vda_size=None, address=None, machine=None, user_data=None)], cluster="home")[0]
    template = Template(source)
    hypervisor = "qemu" if template.jinja2 else "kvm"
    rendered = template.render(variables_of(vm, "home", hypervisor, [DiskSource("file", "/pool/x", "default")]))
    document = xml_domain.parse(rendered.text)
    xml_domain.finish(document, vm, "home", hypervisor)
    assert rendered.missing == ()
    assert document.findtext("title") == "controller1 in rack r7"
    assert document.find("devices/disk/source").get("file") == "/pool/x"
    if template.jinja2:
        assert document.find("devices/filesystem/target").get("dir") == "images"
        assert document.find("devices/disk/driver").get("cache") == "writeback"
        assert not [key for key in unused_attributes(vm, template, rendered) if ALL.get(key) is not None and key in ("rack", "shares")]
