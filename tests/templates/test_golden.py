# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every golden document defined on real libvirt and read back without loss; libvirt's schema knows all of it."""

from __future__ import annotations

import pathlib
import re

import pytest
from conftest import Host

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_compare import compare, echo_of
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.io_schema import domain_schema

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "unit/plugins/module_utils/_vm/template/golden"
# the name of a machine type stands for its newest version
ALIASES = {"os/type/@machine"}


def text_of(path: pathlib.Path) -> str:
    """A golden document for this host, where no KVM is to be had."""
    text = path.read_text(encoding="utf-8")
    text = re.sub("<domain type=([\"'])kvm", "<domain type=\\1qemu", text)
    return text.replace("host-passthrough", "maximum")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*-out.xml")), ids=lambda path: path.stem)
def test_defined_and_read_back(host: Host, path: pathlib.Path) -> None:
    document = xml_domain.parse(text_of(path))
    vm = parse_vms([{"id": document.findtext("name"), "uuid": document.findtext("uuid")}], cluster="lab")[0]
    # some are shown as they were rendered; a NIC without a MAC would get another one each time
    xml_domain.finish(document, vm, "lab", document.get("type"))
    assert domain_schema()(document)
    connection = host.connections["lxc" if document.get("type") == "lxc" else "qemu"]
    domain = connection.defineXML(xml_domain.text_of(document))
    found = xml_domain.parse(domain.XMLDesc(2))
    # nothing of it was dropped or altered
    assert set(echo_of(document, found)) <= ALIASES
    assert domain.name() == document.findtext("name")
    # and what libvirt added is no difference
    assert not compare(document, document, found, echo=echo_of(document, found)).differences
