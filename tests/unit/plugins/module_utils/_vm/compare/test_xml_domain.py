# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domain documents: added values, equality."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import TemplateError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import nic_mac
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import DiskSource
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_template import Template
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_variables import unused_attributes, variables_of

WHOLE = "<domain type='qemu'><name>a</name><memory unit='GiB'>1</memory><vcpu>1</vcpu><os><type>hvm</type></os>{}</domain>"


def finished(text: str, hypervisor: str = "qemu", **details: t.Any) -> tuple[t.Any, tuple[str, ...]]:
    """A document after its completion, and what was notices."""
    vm = parse_vms([dict({"id": "a"}, **details)], cluster="lab")[0]
    document = xml_domain.parse(text)
    return document, xml_domain.finish(document, vm, "lab", hypervisor)


def test_empty_memory_and_vcpu_get_defaults_with_a_notice() -> None:
    document, notices = finished("<domain type='qemu'><name/><memory unit='GiB'></memory><vcpu placement='static'> </vcpu><os><type>hvm</type></os></domain>")
    assert (document.findtext("memory"), document.find("memory").get("unit"), document.findtext("vcpu")) == ("2048", "MiB", "2")
    assert notices == ("the memory was empty and is set to 2048 MiB", "the number of CPUs was empty and is set to 2")


def test_a_whole_document_is_left_alone() -> None:
    document, notices = finished(WHOLE.format(""))
    assert not notices
    assert document.findtext("uuid") == parse_vms([{"id": "a"}], cluster="lab")[0].uuid


def test_fractions_of_memory_become_whole_kibibytes() -> None:
    document, notices = finished(WHOLE.format("").replace(">1</memory>", ">1.5</memory>"))
    assert (document.findtext("memory"), document.find("memory").get("unit")) == ("1572864", "KiB")
    assert not notices


def test_interfaces_without_mac_get_the_ones_of_the_details_then_derived_ones() -> None:
    nics = "<devices><interface type='bridge'/><interface type='bridge'><mac address='52:54:00:00:00:09'/></interface><interface type='user'/></devices>"
    document, unused = finished(WHOLE.format(nics), nics=[{"bridge": "br0", "mac": "52:54:00:00:00:01"}])
    assert xml_domain.macs_of(document) == ["52:54:00:00:00:01", "52:54:00:00:00:09", nic_mac("lab", "a", 2)]


def test_kvm_in_a_template_yields_to_the_type_the_vm_gets() -> None:
    document, notices = finished(WHOLE.format("").replace("'qemu'", "'kvm'"))
    assert document.get("type") == "qemu"
    assert "type kvm" in notices[0]


@pytest.mark.parametrize(
    "text, hypervisor, message",
    [
        ("<network/>", "qemu", "the outermost element is <network>"),
        (WHOLE.format(""), "lxc", "the template defines a domain of type 'qemu', but the VM's hypervisor is 'lxc'"),
        (WHOLE.format("<uuid>6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11</uuid>"), "qemu", "the template sets the UUID"),
    ],
)
def test_documents_of_another_vm_are_refused(text: str, hypervisor: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        finished(text, hypervisor)


def test_entities_are_never_fetched() -> None:
    for text in ("<!DOCTYPE d [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><domain><name>&x;</name></domain>", "<!DOCTYPE d SYSTEM 'x'><domain/>"):
        with pytest.raises(xml_domain.DocumentSyntaxError, match="document type"):
            xml_domain.parse(text)


def test_the_line_of_a_syntax_error_counts_leading_empty_lines() -> None:
    with pytest.raises(xml_domain.DocumentSyntaxError) as raised:
        xml_domain.parse("\n\n<a>\n<b>\n</a>")
    assert raised.value.line == 5


def test_order_of_attributes_and_white_space_do_not_count_order_of_elements_does() -> None:
    one = xml_domain.canonical(xml_domain.parse("<a x='1' y='2'>\n  <b> t </b><c/>\n</a>"))
    assert one == xml_domain.canonical(xml_domain.parse("<a y='2' x='1'><b>t</b><c></c></a>"))
    assert one != xml_domain.canonical(xml_domain.parse("<a y='2' x='1'><c/><b>t</b></a>"))


def test_disks_of_a_document() -> None:
    devices = "<devices><disk><source file='/a'/></disk><filesystem><source dir='/b'/></filesystem><interface><source bridge='c'/></interface></devices>"
    assert xml_domain.disks_of(xml_domain.parse(WHOLE.format(devices))) == ["/a", "/b"]


UNUSED = [
    ("<a>{id}</a>", {"cpu": 1, "ram": 1, "rack": "x", "address": "10.0.0.1", "autostart": True}, ("cpu", "ram", "rack")),
    ("<a>{vcpus}{ram}</a>", {"cpu": 1, "memory_mb": 1024}, ()),
    # what footprint_plan goes by
    ("<a/>", {"host": "metal1", "anti_affinity": "db", "nested": True}, ()),
    ("<a>{nic0_mac}</a>", {"nics": [{"bridge": "b"}], "disks": [{"size": 1}]}, ("disks",)),
    ("<a>{disk0_path}</a>", {"vda_size": 1}, ()),
    ("{% for d in disks %}{{ d.cache }}{% endfor %}", {"disks": [{"size": 1, "cache": "none", "io": "native"}]}, ("disks[0].io",)),
]


@pytest.mark.parametrize("source, details, unused", UNUSED, ids=[case[0] for case in UNUSED])
def test_unused_attributes(source: str, details: dict[str, t.Any], unused: tuple[str, ...]) -> None:
    vm = parse_vms([dict({"id": "a"}, **details)], cluster="lab")[0]
    template = Template(source)
    rendered = template.render(variables_of(vm, "lab", "qemu", [DiskSource("file", "/x", "default") for unused_disk in vm.disks]))
    assert unused_attributes(vm, template, rendered) == unused
