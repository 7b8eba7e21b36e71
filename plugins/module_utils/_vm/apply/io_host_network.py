# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a NIC can be connected to: bridges of this host and networks of libvirt."""

from __future__ import annotations

import os
import shutil
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command
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


def supports_tags(host: io_domains.DomainHost, interface: t.Any) -> bool:
    """Whether a NIC of type bridge or network can have a VLAN tag; otherwise libvirt refuses to start the guest, after it has accepted its definition."""
    ports = [interface.find("virtualport")]
    if interface.get("type") == "network":
        with io_domains.libvirt_errors("cannot read the network"):
            network = xml_domain.parse(host.connection.networkLookupByName(interface.find("source").get("network")).XMLDesc(0))
        mode = network.find("forward").get("mode") if network.find("forward") is not None else None
        if mode != "bridge" or network.find("bridge") is None:
            # network cards with SR-IOV; others are switched by libvirt or by macvtap
            return mode in ("hostdev", "passthrough")
        # also those of its port groups
        ports += network.iter("virtualport")
    return any(port is not None and port.get("type") == OPEN_VSWITCH for port in ports) or version(host) >= _TAGS_ON_BRIDGES


def networks(host: io_domains.DomainHost) -> dict[str, bool]:
    """Name of each network of libvirt → whether it is active."""
    with io_domains.libvirt_errors("cannot list the networks"):
        return {network.name(): bool(network.isActive()) for network in host.connection.listAllNetworks(0)}
