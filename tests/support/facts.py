# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of a server, in the form in which the module ``setup`` returns them; recorded on Debian 12, the rest is left out."""

from __future__ import annotations

import ipaddress
import typing as t

_GIB = 1 << 30


def facts_of(
    address: str, *, gateway: str = "192.0.2.1", port: str = "eno1", netmask: str = "255.255.255.0", memory: int = 15989, disk: int = 100
) -> dict[str, t.Any]:
    """Return the facts of a server with one network card.

    :arg memory: MiB.
    :arg disk: GiB of the root file system, of which 2 are used.
    """
    network = ipaddress.IPv4Network(f"{address}/{netmask}", strict=False)
    link = {"address": address, "gateway": gateway, "interface": port, "macaddress": "52:54:00:00:00:01", "mtu": 1500, "type": "ether"}
    return {
        "ansible_all_ipv4_addresses": [address],
        "ansible_architecture": "x86_64",
        "ansible_default_ipv4": {**link, "netmask": netmask, "network": str(network.network_address), "prefix": str(network.prefixlen), "alias": port},
        "ansible_dns": {"nameservers": ["192.0.2.1"]},
        "ansible_interfaces": ["lo", port.replace("-", "_")],
        f"ansible_{port.replace('-', '_')}": {"device": port, "type": "ether", "active": True},
        "ansible_memory_mb": {"nocache": {"free": memory - 2500, "used": 2500}},
        "ansible_memtotal_mb": memory,
        "ansible_mounts": [
            {"mount": "/", "device": "/dev/sda2", "fstype": "ext4", "size_total": disk * _GIB, "size_available": (disk - 2) * _GIB},
            {"mount": "/boot/efi", "device": "/dev/sda1", "fstype": "vfat", "size_total": _GIB // 2, "size_available": _GIB // 2},
        ],
        "ansible_processor_nproc": 4,
    }
