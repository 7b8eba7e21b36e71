# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a NIC can be connected to: bridges of this host and networks of libvirt."""

from __future__ import annotations

import os
import shutil

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains

BRIDGE = "bridge"
OPEN_VSWITCH = "openvswitch"
LINK = "link"

_SYS_NET = "/sys/class/net"


def kind_of(name: str, root: str = _SYS_NET) -> str | None:
    """The kind of the interface of that name: :data:`BRIDGE`, :data:`OPEN_VSWITCH`, another :data:`LINK`, or ``None``."""
    if os.path.isdir(os.path.join(root, name, "bridge")):
        return BRIDGE
    # an Open vSwitch bridge in user space is not a network link
    if shutil.which("ovs-vsctl") and io_command.run(["ovs-vsctl", "--timeout=5", "br-exists", name], timeout=10, ok=(0, 1, 2)).rc == 0:
        return OPEN_VSWITCH
    return LINK if os.path.exists(os.path.join(root, name)) else None


def networks(host: io_domains.DomainHost) -> dict[str, bool]:
    """Name of each network of libvirt → whether it is active."""
    with io_domains.libvirt_errors("cannot list the networks"):
        return {network.name(): bool(network.isActive()) for network in host.connection.listAllNetworks(0)}
