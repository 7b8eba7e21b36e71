# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elements that libvirt messages refer to, and parts that a schema does not allow."""

from __future__ import annotations

import typing as t

import pytest
from lxml import etree

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_blame import find_element, invalid_parts

DOCUMENT = """\
<domain type='qemu'><name>a</name><memory>1</memory><vcpu>1</vcpu>
<os><type machine='q35'>hvm</type></os>
<devices>
<disk><source file='/a'/>
<target dev='vda' bus='virtio'/></disk>
<disk><source file='/b'/>
<target dev='vda' bus='omni'/></disk>
<interface type='network'>
<mac address='52:54:00:00:00:01'/></interface>
<serial type='pty'>
<address type='pci' slot='0x1f'/></serial>
</devices></domain>
"""

# messages of various libvirt versions
MESSAGES = [
    ("XML error: Invalid value for attribute 'bus' in element 'target': 'omni'.", 7),
    ("unsupported configuration: unknown disk bus type 'omni'", 7),
    ("XML error: target 'vda' duplicated for disk sources '/a' and '/b'", 7),
    ("Attempted double use of PCI Address 0000:00:1f.0", 11),
    ("XML error: No PCI buses available", 2),
    ("unsupported configuration: Emulator does not support machine type 'q35'", 2),
    ("invalid argument: could not find capabilities for arch=x86_64 domaintype=xen", None),
    ("XML error: interface type='network' requires a 'source' element", 8),
    ("missing source information for device vda", 4),
    ("operation failed: domain 'a' already exists with uuid 2de8a73e-53c7-5dc1-bfd7-82a66f06ea9e", 1),
    ("internal error: something went wrong", None),
    ("", None),
]


@pytest.mark.parametrize("message, line", MESSAGES, ids=[case[0] for case in MESSAGES])
def test_element_of_a_message_is_found(message: str, line: int | None) -> None:
    found = find_element(parse(DOCUMENT), message)
    assert (found.sourceline if found is not None else None) == line


def valid(document: t.Any) -> bool:
    """A schema in small: no element and no attribute that begins with x."""
    return not any(each.tag.startswith("x") or any(key.startswith("x") for key in each.attrib) for each in document.iter())


def test_invalid_parts_are_found() -> None:
    text = DOCUMENT.replace("<serial", "<serial xa='1'").replace("</os>", "<xb/></os>")
    document = parse(text.replace("<mac ", "<xc><deep/></xc><mac ").replace("<vcpu>", "<vcpu xd=''>"))
    before = etree.tostring(document)
    # with two invalid required elements only the domain is reported; one at a time they are found
    assert [(element.tag, key) for element, key in invalid_parts(document, valid)] == [("domain", None)]
    document.find("vcpu").attrib.clear()
    assert [(element.tag, key) for element, key in invalid_parts(document, valid)] == [("xb", None)]
    document.find("os").remove(document.find("os/xb"))
    assert [(element.tag, key) for element, key in invalid_parts(document, valid)] == [("xc", None), ("serial", "xa")]
    assert etree.tostring(document) != before
    assert invalid_parts(parse(DOCUMENT), valid) == []


def test_document_is_not_modified() -> None:
    document = parse(DOCUMENT.replace("<serial", "<serial xa='1'"))
    before = etree.tostring(document)
    invalid_parts(document, valid)
    assert etree.tostring(document) == before
