# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_instance
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse

INSTANCE = """<domain type="kvm"><name>instance-00000001</name><metadata>
  <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/%s">
    <nova:package version="31.0.0"/>
    <nova:name>web</nova:name>
    <nova:owner><nova:user uuid="1">alice</nova:user><nova:project uuid="2">shop</nova:project></nova:owner>
  </nova:instance></metadata></domain>"""


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_an_instance(version):
    found = xml_instance.read(parse(INSTANCE % version))
    assert (found.name, found.project, found.text) == ("web", "shop", "instance web of the project shop")


@pytest.mark.parametrize(
    "text",
    [
        "<domain/>",
        '<domain><metadata><x:instance xmlns:x="https://example.com/other"><x:name>a</x:name></x:instance></metadata></domain>',
        '<domain><metadata><x:other xmlns:x="http://openstack.org/xmlns/libvirt/nova/1.1"/></metadata></domain>',
    ],
)
def test_other_domains(text):
    assert xml_instance.read(parse(text)) is None
