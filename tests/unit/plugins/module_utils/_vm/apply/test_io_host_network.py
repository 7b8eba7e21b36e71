# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a name of the host's links stands for."""

from __future__ import annotations

import json
import pathlib
import stat
import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_host_network
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_host_network import BRIDGE, LINK, OPEN_VSWITCH, kind_of, tag_problem
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
    assert (tag_problem(host, nic, True) is None) is supported


@pytest.mark.parametrize(
    "filtering, ports, carried, problem",
    [
        ("1", ("eno1", "vnet0"), {"eno1": [{"vlan": 1}, {"vlan": 40, "vlanEnd": 49}]}, None),
        ("1", ("vnet0", "veth1"), {}, None),
        ("0", ("eno1",), {"eno1": [{"vlan": 42}]}, "'br0' does not filter VLANs"),
        (None, (), {}, "'br0' does not filter VLANs"),
        ("1", ("eno1", "eno2", "vnet0"), {"eno1": [{"vlan": 1}], "vnet0": [{"vlan": 42}]}, "(eno1, eno2) carries VLAN 42"),
    ],
)
def test_a_linux_bridge_must_filter_vlans_and_let_the_tag_out(
    filtering: str | None,
    ports: tuple[str, ...],
    carried: dict[str, list[dict[str, int]]],
    problem: str | None,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for port in ports:
        (tmp_path / "net/br0/brif" / port).mkdir(parents=True)
    (tmp_path / "net/br0/brif").mkdir(parents=True, exist_ok=True)
    (tmp_path / "net/br0/bridge").mkdir()
    if filtering is not None:
        (tmp_path / "net/br0/bridge/vlan_filtering").write_text(f"{filtering}\n", encoding="utf-8")
    tool = tmp_path / "bin" / "bridge"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\necho '{json.dumps([{'ifname': name, 'vlans': vlans} for name, vlans in carried.items()])}'\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    monkeypatch.setattr(io_host_network, "_SYS_NET", str(tmp_path / "net"))
    host: t.Any = types.SimpleNamespace(connection=types.SimpleNamespace(getLibVersion=lambda: 11_003_000))
    nic = parse("<interface type='bridge'><source bridge='br0'/><vlan><tag id='42'/></vlan></interface>")
    found = tag_problem(host, nic, True)
    assert found is None if problem is None else found is not None and problem in found[0] and found[1]
    # the bridges of another machine cannot be read here
    assert tag_problem(host, nic, False) is None
    # what cannot be read is unknown
    tool.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    if filtering == "1":
        with pytest.raises(CommandError):
            tag_problem(host, nic, True)
