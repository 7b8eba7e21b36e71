# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Templates in both syntaxes and the packaged ones, against golden files.

``GOLDEN=write pytest tests/unit/plugins/module_utils/_vm/template/test_xml_golden.py`` writes them again; read the
difference before you commit it. Each one is also defined on real libvirt, see ``tests/templates``.
"""

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails, parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import DiskSource
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_packaged import PACKAGED
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_template import Template
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_variables import variables_of

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
    "disks": [{"image": "debian-root"}, {"mount": "/srv"}],
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


SEED = {"path": "/pool/c1-seed.iso", "type": "file", "format": "raw", "target": "vdz", "bus": "virtio"}
EFI = dict(FULL, boot_firmware="efi", user_data="#cloud-config\n", root_ports=6)
SECURE = {"id": "c3", "cpu": 2, "ram": 4, "boot_firmware": "efi", "secure_boot": True, "boot": "cdrom", "disks": [{"size": 10}]}
SEEDED = dict(FULL, user_data="#cloud-config\n", boot=["hd"])
# of one disk and one card: what the single-brace form can say without a loop
ONE = {"id": "c1", "cpu": 2, "memory_mb": 4096, "nics": [{"bridge": "br-admin"}], "disks": [{"size": 10}]}
ONE_CONTAINER = dict(ONE, hypervisor="lxc", disks=[{"image": "debian-root"}])

PACKAGED_CASES = {
    "default-kvm": ("default", FULL, "kvm"),
    "default-qemu": ("default", FULL, "qemu"),
    "default-lxc": ("default", CONTAINER, "lxc"),
    "default-bare": ("default", BARE, "qemu"),
    "default-efi": ("default", EFI, "qemu"),
    "bios-full": ("bios", FULL, "qemu"),
    "bios-seeded": ("bios", SEEDED, "kvm"),
    "bios-bare": ("bios", BARE, "qemu"),
    "uefi-full": ("uefi", EFI, "kvm"),
    "uefi-secure": ("uefi", SECURE, "qemu"),
    "uefi-bare": ("uefi", BARE, "qemu"),
    "lxc-full": ("lxc", CONTAINER, "lxc"),
    "lxc-bare": ("lxc", BARE | {"hypervisor": "lxc"}, "lxc"),
}


def document_of(source: str, details: dict[str, t.Any], hypervisor: str) -> str:
    """The canonical document of a template and a VM."""
    vm = vm_of(details)
    seed = SEED if vm.cloud_init is not None else None
    rendered = Template(source).render(variables_of(vm, "lab", hypervisor, sources_of(vm), seed))
    document = xml_domain.parse(rendered.text)
    xml_domain.finish(document, vm, "lab", hypervisor)
    return xml_domain.canonical(document)


@pytest.mark.parametrize("name", PACKAGED_CASES)
def test_packaged(name: str) -> None:
    template, details, hypervisor = PACKAGED_CASES[name]
    same_as_file(f"{name}-out.xml", document_of(PACKAGED[template], details, hypervisor))


@pytest.mark.parametrize(
    "template, details, hypervisor",
    [("bios", FULL, "kvm"), ("bios", BARE, "qemu"), ("bios", SEEDED, "qemu"), ("uefi", EFI, "kvm"), ("uefi", SECURE, "qemu"), ("lxc", CONTAINER, "lxc")],
    ids=["bios", "bios-bare", "bios-seeded", "uefi", "uefi-secure", "lxc"],
)
def test_default_equals_the_template_that_fits(template: str, details: dict[str, t.Any], hypervisor: str) -> None:
    assert document_of(PACKAGED["default"], details, hypervisor) == document_of(PACKAGED[template], details, hypervisor)


@pytest.mark.parametrize("template", ["bios", "uefi", "lxc"])
def test_single_brace_form_renders_the_same(template: str) -> None:
    source = (FOLDER / f"{template}-braces-in.xml").read_text(encoding="utf-8")
    details, hypervisor = (ONE_CONTAINER, "lxc") if template == "lxc" else (ONE, "qemu")
    text = document_of(source, details, hypervisor)
    same_as_file(f"{template}-braces-out.xml", text)
    assert text == document_of(PACKAGED[template], details, hypervisor)


@pytest.mark.parametrize("syntax", ["braces", "jinja2"])
def test_hostile_values_in_both_syntaxes(syntax: str) -> None:
    vm = vm_of(NASTY)
    source = (FOLDER / f"{syntax}-in.xml").read_text(encoding="utf-8")
    rendered = Template(source).render(variables_of(vm, "lab", "qemu", sources_of(vm)))
    same_as_file(f"{syntax}-out.xml", rendered.text)
    document = xml_domain.parse(rendered.text)
    # libvirt reads back what the user wrote, to the letter
    assert document.findtext("title") == NASTY["title"]
    assert document.findtext("description").startswith(NASTY["note"])


def test_the_specifications_own_template_byte_for_byte() -> None:
    vm = vm_of({"id": 1, "cpu": 2, "ram": 4})
    source = (FOLDER / "spec-in.xml").read_text(encoding="utf-8")
    rendered = Template(source).render(variables_of(vm, "lab", "kvm", []))
    assert rendered.text == source.replace("{id}", "1").replace("{ram}", "4").replace("{cpu}", "2")
    assert not rendered.missing


def test_every_variable_of_the_packaged_templates_is_exercised() -> None:
    used = {name for source in PACKAGED.values() for name in Template(source).variables}
    given = set(variables_of(vm_of(FULL), "lab", "qemu", sources_of(vm_of(FULL)))) | {"boot", "root_ports"}
    assert used <= given
