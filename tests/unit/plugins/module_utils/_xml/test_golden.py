# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Templates in both syntaxes and the packaged ones, against golden files.

``GOLDEN=write pytest ...`` writes them anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._model.storage import DiskSource
from ansible_collections.reduced.footprint.plugins.module_utils._model.vm import VmDetails, parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._xml import domain as domain_xml
from ansible_collections.reduced.footprint.plugins.module_utils._xml.packaged import PACKAGED
from ansible_collections.reduced.footprint.plugins.module_utils._xml.template import Template
from ansible_collections.reduced.footprint.plugins.module_utils._xml.variables import variables_of

FOLDER = pathlib.Path(__file__).parent / "golden"
NASTY = {
    "id": "vm",
    "cpu": 2,
    "ram": 4,
    "title": "<b> & \"quotes\" 'single'",
    "note": "Grüße, 東京 😀 ]]> {id} {{ id }}",
    "nics": [{"bridge": "br0"}],
    "disks": [{"size": 1}],
}
FULL = {
    "id": "c1",
    "cpu": 2,
    "ram": 4,
    "machine": "q35",
    "nics": [{"bridge": "br-admin"}, {"bridge": "br-data", "vlan": 101, "virtualport": "openvswitch"}, {"network": "default", "model": "e1000"}],
    "disks": [{"size": 10}, {"size": "20 GiB", "format": "qcow2", "serial": "DATA-1", "cache": "none"}, {"size": 1, "pool": "vg0", "bus": "scsi"}],
}
CONTAINER = {
    "id": "c2",
    "cpu": 1,
    "ram": 1,
    "hypervisor": "lxc",
    "nics": [{"bridge": "br-admin"}],
    "disks": [{"image": "debian-12-root"}, {"mount": "/srv"}],
}
BARE = {"id": 0, "hypervisor": "qemu"}


def vm_of(details: dict[str, t.Any]) -> VmDetails:
    """The details of one VM."""
    return parse_vms([details], cluster="lab")[0]


def sources_of(vm: VmDetails) -> list[DiskSource]:
    """Where its disks would stand."""
    kinds = {"dir": "dir", "raw": "file", "qcow2": "file"}
    return [DiskSource("block" if disk.pool else kinds[disk.format], f"/pool/{disk.name}", disk.pool or "default") for disk in vm.disks]


def same_as_file(name: str, text: str) -> None:
    """Compare with a golden file, or write it."""
    path = FOLDER / name
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("details, hypervisor", [(FULL, "kvm"), (FULL, "qemu"), (CONTAINER, "lxc"), (BARE, "qemu")], ids=["kvm", "qemu", "lxc", "bare"])
def test_packaged_default(details: dict[str, t.Any], hypervisor: str, request: pytest.FixtureRequest) -> None:
    vm = vm_of(details)
    rendered = Template(PACKAGED["default"]).render(variables_of(vm, "lab", hypervisor, sources_of(vm)))
    document = domain_xml.parse(rendered.text)
    domain_xml.finish(document, vm, "lab", hypervisor)
    same_as_file(f"default-{request.node.callspec.id}-out.xml", domain_xml.canonical(document))


@pytest.mark.parametrize("syntax", ["braces", "jinja2"])
def test_hostile_values_in_both_syntaxes(syntax: str) -> None:
    vm = vm_of(NASTY)
    source = (FOLDER / f"{syntax}-in.xml").read_text(encoding="utf-8")
    rendered = Template(source).render(variables_of(vm, "lab", "qemu", sources_of(vm)))
    same_as_file(f"{syntax}-out.xml", rendered.text)
    document = domain_xml.parse(rendered.text)
    # libvirt reads back what the user wrote, to the letter
    assert document.findtext("title") == NASTY["title"]
    assert document.findtext("description").startswith(NASTY["note"])


def test_the_specifications_own_template_byte_for_byte() -> None:
    vm = vm_of({"id": 1, "cpu": 2, "ram": 4})
    source = (FOLDER / "spec-in.xml").read_text(encoding="utf-8")
    rendered = Template(source).render(variables_of(vm, "lab", "kvm", []))
    assert rendered.text == source.replace("{id}", "1").replace("{ram}", "4").replace("{cpu}", "2")
    assert not rendered.missing


def test_every_variable_of_the_packaged_template_is_exercised() -> None:
    used = Template(PACKAGED["default"]).variables
    given = set(variables_of(vm_of(FULL), "lab", "qemu", sources_of(vm_of(FULL)))) | {"boot"}
    assert used <= given
