# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What we keep in a domain comes back as it was written, and beside other people's metadata."""

from __future__ import annotations


import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain, xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_metadata import Ownership

PLAIN = Ownership("lab", "a", False, "vm_define", "<domain>\n  <name>ä &amp; b</name>\n</domain>\n")
FULL = PLAIN._replace(
    protected=True, previous="<domain/>", echo={"os/type/@machine": "pc-1", "devices/x": None}, adopted=True, protected_disks=("p/a", "p/b"), back=True
)._replace(pending_disks=("/pool/a & b", "/pool/c"))
DOCUMENT = "<domain><name>a</name><metadata><x:y xmlns:x='urn:x'>z</x:y></metadata></domain>"


@pytest.mark.parametrize("ownership", [PLAIN, FULL, PLAIN._replace(echo={})], ids=["plain", "full", "no echo"])
def test_there_and_back(ownership: Ownership) -> None:
    document = xml_domain.parse(DOCUMENT)
    xml_metadata.attach(document, PLAIN._replace(applied="old"))
    xml_metadata.attach(document, ownership)
    again = xml_domain.parse(xml_domain.text_of(document))
    assert xml_metadata.read(again) == ownership
    assert again.findtext("metadata/{urn:x}y") == "z"
    xml_metadata.strip(again)
    assert xml_domain.text_of(again) == xml_domain.text_of(xml_domain.parse(DOCUMENT))


def test_metadata_without_other_content_is_removed() -> None:
    document = xml_domain.parse("<domain><name>a</name></domain>")
    xml_metadata.attach(document, PLAIN)
    xml_metadata.strip(document)
    xml_metadata.strip(document)
    assert document.find("metadata") is None
    assert xml_metadata.read(document) is None


def test_the_element_for_libvirt_bears_no_namespace() -> None:
    text = xml_metadata.element_text(xml_domain.parse("<domain/>"), FULL)
    assert text.startswith('<vm cluster="lab" id="a" protected="yes"')
    assert "xmlns" not in text


def test_notes_of_a_running_guest() -> None:
    noted = {"devices/disk[vdb]": None, "currentMemory": "4 KiB"}
    text = xml_metadata.note_text(xml_domain.parse("<domain/>"), noted).replace("<refused", f"<refused xmlns='{xml_metadata.LIVE_NAMESPACE}'")
    assert xml_metadata.noted_of(xml_domain.parse(f"<domain><metadata>{text}</metadata></domain>")) == noted
    assert xml_metadata.noted_of(xml_domain.parse("<domain/>")) == {}


def test_a_restart_is_noted_beside_other_things() -> None:
    assert not xml_metadata.is_restarting(xml_domain.parse(DOCUMENT))
    text = xml_metadata.RESTARTING_TEXT.replace("<restarting", f"<restarting xmlns='{xml_metadata.LIVE_NAMESPACE}'")
    assert xml_metadata.is_restarting(xml_domain.parse(f"<domain><metadata>{text}</metadata></domain>"))


@pytest.mark.parametrize("scribble", ["{", "[]", "7", '{"a": 1}'])
def test_scribbling_is_no_note(scribble: str) -> None:
    document = xml_domain.parse(f"<domain><metadata><r:refused xmlns:r='{xml_metadata.LIVE_NAMESPACE}'>{scribble}</r:refused></metadata></domain>")
    assert xml_metadata.noted_of(document) == {}
