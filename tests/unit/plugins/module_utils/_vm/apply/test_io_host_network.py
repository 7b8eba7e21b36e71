# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a name of the host's links stands for."""

from __future__ import annotations

import pathlib
import stat
import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_host_network import BRIDGE, LINK, OPEN_VSWITCH, kind_of, supports_tags
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse


def test_links(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net" / "br0" / "bridge").mkdir(parents=True)
    (tmp_path / "net" / "eno1").mkdir()
    (tmp_path / "net" / "ovs0").mkdir()
    tool = tmp_path / "bin" / "ovs-vsctl"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n[ \"$3\" = ovs0 ] || exit 2\n", encoding="utf-8")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    root = str(tmp_path / "net")
    kinds = {name: kind_of(name, root) for name in ("br0", "eno1", "ovs0", "none")}
    assert kinds == {"br0": BRIDGE, "eno1": LINK, "ovs0": LINK, "none": None}
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    assert {name: kind_of(name, root) for name in kinds} == {"br0": BRIDGE, "eno1": LINK, "ovs0": OPEN_VSWITCH, "none": None}


@pytest.mark.parametrize("port, supported", [("<virtualport type='openvswitch'/>", True), ("", False)])
@pytest.mark.parametrize("group", ["", "<portgroup name='all' default='yes'>{}</portgroup>"])
def test_a_network_is_switched_by_open_vswitch_also_if_only_its_port_groups_say_so(port: str, supported: bool, group: str) -> None:
    network = f"<network><forward mode='bridge'/><bridge name='ovsbr0'/>{group.format(port) if group else port}</network>"
    found = types.SimpleNamespace(XMLDesc=lambda flags: network)
    connection = types.SimpleNamespace(networkLookupByName=lambda name: found, getLibVersion=lambda: 9_000_000)
    nic = parse("<interface type='network'><source network='ovs'/><vlan><tag id='7'/></vlan></interface>")
    host: t.Any = types.SimpleNamespace(connection=connection)
    assert supports_tags(host, nic) is supported
