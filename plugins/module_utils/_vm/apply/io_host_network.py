# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a NIC can be connected to: bridges of this host and networks of libvirt."""

from __future__ import annotations

import json
import os
import re
import shutil
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command, io_files
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain

BRIDGE = "bridge"
OPEN_VSWITCH = "openvswitch"
LINK = "link"

_SYS_NET = "/sys/class/net"
# libvirt 11.0.0
_TAGS_ON_BRIDGES = 11_000_000


def kind_of(name: str, root: str = _SYS_NET) -> str | None:
    """The kind of the interface of that name: :data:`BRIDGE`, :data:`OPEN_VSWITCH`, another :data:`LINK`, or ``None``."""
    if os.path.isdir(os.path.join(root, name, "bridge")):
        return BRIDGE
    # an Open vSwitch bridge in user space is not a network link
    if shutil.which("ovs-vsctl") and io_command.run(["ovs-vsctl", "--timeout=5", "br-exists", name], timeout=10, ok=(0, 1, 2)).rc == 0:
        return OPEN_VSWITCH
    return LINK if os.path.exists(os.path.join(root, name)) else None


def version(host: io_domains.DomainHost) -> int:
    """The version of the libvirt daemon: 1,000,000 * major + 1,000 * minor + release."""
    with io_domains.libvirt_errors("cannot read the version of libvirt"):
        return int(host.connection.getLibVersion())


def tag_problem(host: io_domains.DomainHost, interface: t.Any, local: bool) -> tuple[str, str] | None:
    """Why a NIC of type bridge or network cannot have its VLAN tag, and a hint; libvirt accepts the definition in any case.

    :arg local: whether libvirt runs on this host, so that its bridges can be read.
    """
    network, bridge = interface.find("source").get("network"), interface.find("source").get("bridge")
    where = f"the libvirt network {network!r}" if network else f"the Linux bridge {bridge!r}"
    refused = (
        f"the libvirt of this host does not support VLAN tags of NICs on {where}.",
        "Remove vlan, and use a bridge on the VLAN interface of the host, an Open vSwitch bridge, or for Linux bridges libvirt 11.0 or newer.",
    )
    ports = [interface.find("virtualport")]
    if network:
        with io_domains.libvirt_errors("cannot read the network"):
            known = xml_domain.parse(host.connection.networkLookupByName(network).XMLDesc(0))
        mode = known.find("forward").get("mode") if known.find("forward") is not None else None
        if mode != "bridge" or known.find("bridge") is None:
            # network cards with SR-IOV; others are switched by libvirt or by macvtap
            return None if mode in ("hostdev", "passthrough") else refused
        bridge = known.find("bridge").get("name")
        # also those of its port groups
        ports += known.iter("virtualport")
    if any(port is not None and port.get("type") == OPEN_VSWITCH for port in ports):
        return None
    if version(host) < _TAGS_ON_BRIDGES:
        return refused
    return _untagged(bridge, {int(tag.get("id")) for tag in interface.iterfind("vlan/tag")}) if local else None


def _untagged(bridge: str, tags: set[int]) -> tuple[str, str] | None:
    """Why frames with these tags would not leave a Linux bridge, whose settings libvirt does not check."""
    home = os.path.join(_SYS_NET, bridge)
    if (io_files.read_text(os.path.join(home, "bridge", "vlan_filtering")) or "0").strip() != "1":
        hint = "Create the bridge with vlan_filtering: true (virt_host_bridges), or use a bridge on the VLAN interface of the host."
        return f"the Linux bridge {bridge!r} does not filter VLANs, so a tag has no effect there.", hint
    # taps and pairs lead to guests
    outside = [port for port in sorted(os.listdir(os.path.join(home, "brif"))) if not re.match(r"vnet|veth|tap", port)]
    carried: dict[str, set[int]] = {}
    for port in json.loads(io_command.run(["bridge", "-json", "vlan", "show"], timeout=10).stdout or "[]"):
        carried[port["ifname"]] = {tag for each in port["vlans"] for tag in range(each["vlan"], each.get("vlanEnd", each["vlan"]) + 1)}
    missing = sorted(tags.difference(*(carried.get(port, ()) for port in outside))) if outside else []
    if missing:
        hint = f"Add it, for example: bridge vlan add dev {outside[0]} vid {missing[0]}. docs/networks.md describes how it is kept."
        return f"no port of the Linux bridge {bridge!r} that leads out of this host ({', '.join(outside)}) carries VLAN {missing[0]}.", hint
    return None


def networks(host: io_domains.DomainHost) -> dict[str, bool]:
    """Name of each network of libvirt → whether it is active."""
    with io_domains.libvirt_errors("cannot list the networks"):
        return {network.name(): bool(network.isActive()) for network in host.connection.listAllNetworks(0)}
