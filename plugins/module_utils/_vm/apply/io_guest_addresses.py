# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What libvirt knows of the addresses of guests, and whether something answers there."""

from __future__ import annotations

import contextlib
import socket
import typing as t

try:
    import libvirt
except ImportError:
    libvirt = None

LEASE, AGENT, ARP = "lease", "agent", "arp"
SOURCES = (LEASE, AGENT, ARP)
_BANNER = b"SSH-"


class Reported(t.NamedTuple):
    """An address of an interface, as one source of libvirt reports it."""

    mac: str
    address: str


def reported(connection: t.Any, uuid: str, source: str) -> list[Reported] | None:
    """Return the addresses of a domain from one source.

    :arg connection: of libvirt; the source ``agent`` needs one that may write.
    :returns: ``None`` if the source does not answer for this domain, for example because the guest has no agent or does not run.
    """
    kinds = {
        LEASE: libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE,
        AGENT: libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT,
        ARP: libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP,
    }
    try:
        interfaces = connection.lookupByUUIDString(uuid).interfaceAddresses(kinds[source], 0)
    except libvirt.libvirtError:
        return None
    return [
        Reported(interface["hwaddr"].lower(), entry["addr"])
        for interface in (interfaces or {}).values()
        for entry in interface.get("addrs") or ()
        if interface.get("hwaddr")
    ]


def ssh_answers(address: str, timeout: float) -> bool:
    """Whether a server for ssh introduces itself at an address; a port that only accepts the connection is not one."""
    with contextlib.suppress(OSError):
        with socket.create_connection((address, 22), timeout) as connection:
            connection.settimeout(timeout)
            return connection.recv(len(_BANNER), socket.MSG_WAITALL) == _BANNER
    return False
