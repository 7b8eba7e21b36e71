# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that configure the common image as a server with one network manager."""

from __future__ import annotations

import dataclasses
import io
import pathlib
import tarfile

#: By manager and addressing: the files that configure eth0. eth1 and eth2 are not configured unless a manager requires it.
FILES = {
    ("networkd", "static"): {
        "etc/systemd/network/20-admin.network": "[Match]\nName=eth0\n\n[Network]\nAddress=10.222.0.10/24\nGateway=10.222.0.1\n",
    },
    ("networkd", "dhcp"): {
        "etc/systemd/network/20-admin.network": "[Match]\nName=eth0\n\n[Network]\nDHCP=ipv4\n",
    },
    ("ifupdown", "static"): {
        "etc/network/interfaces.d/admin": "allow-hotplug eth0\niface eth0 inet static\n    address 10.222.0.10/24\n    gateway 10.222.0.1\n",
    },
    ("ifupdown", "dhcp"): {
        "etc/network/interfaces.d/admin": "auto eth0\niface eth0 inet dhcp\n",
    },
    # another address with a name of its own, as after `ifconfig eth0:0`, and a gateway that is in no network of the first one
    ("ifupdown", "alias"): {
        "etc/network/interfaces.d/admin": (
            "auto eth0 eth0:0\niface eth0 inet static\n    address 10.222.0.10\n    netmask 255.255.255.255\n    pointopoint 10.222.0.1\n"
            "    gateway 10.222.0.1\niface eth0:0 inet static\n    address 10.222.0.50/24\n"
        ),
    },
    ("netplan", "static"): {
        "etc/netplan/50-installer.yaml": (
            "network:\n  version: 2\n  renderer: networkd\n  ethernets:\n    eth0:\n      addresses: [10.222.0.10/24]\n"
            "      routes:\n        - to: default\n          via: 10.222.0.1\n    eth1:\n      optional: true\n"
        ),
    },
    ("netplan", "dhcp"): {
        "etc/netplan/50-installer.yaml": "network:\n  version: 2\n  ethernets:\n    eth0:\n      dhcp4: true\n",
    },
    ("netplan-nm", "static"): {
        "etc/netplan/01-network-manager-all.yaml": (
            "network:\n  version: 2\n  renderer: NetworkManager\n  ethernets:\n    eth0:\n      addresses: [10.222.0.10/24]\n"
            "      routes:\n        - to: default\n          via: 10.222.0.1\n"
        ),
        "etc/NetworkManager/conf.d/proof.conf": "[main]\nno-auto-default=*\n",
    },
    ("networkmanager", "static"): {
        "etc/NetworkManager/system-connections/admin.nmconnection": (
            "[connection]\nid=admin\nuuid=6c1f1f0e-3c3f-4f6e-9d0e-0f7c2a1b3c4d\ntype=ethernet\ninterface-name=eth0\n\n[ipv4]\nmethod=manual\n"
            "address1=10.222.0.10/24,10.222.0.1\nroute1=10.223.0.0/16,10.222.0.1,50\ndns-search=example.org;\n\n[ipv6]\nmethod=disabled\n"
        ),
        "etc/NetworkManager/conf.d/proof.conf": "[main]\nno-auto-default=*\n",
    },
    # no profile: NetworkManager creates one for every NIC, as on a new desktop
    ("networkmanager", "dhcp"): {},
}
#: The units of each manager; those of the others are masked.
UNITS = {
    "networkd": ("systemd-networkd.service", "systemd-networkd.socket"),
    "ifupdown": ("networking.service", "ifup@.service"),
    "networkmanager": ("NetworkManager.service", "NetworkManager-wait-online.service"),
}
#: Managers without own units → the manager whose units they use.
RENDERERS = {"netplan": "networkd", "netplan-nm": "networkmanager"}
WANTED = {"networkd": "systemd-networkd.service"}
SYSTEM = "etc/systemd/system"


@dataclasses.dataclass(frozen=True)
class Seed:
    """A tar archive that the first boot of the server extracts to its root."""

    manager: str
    addressing: str
    public_key: str

    def write(self, path: pathlib.Path) -> None:
        """Write the archive to a separate disk."""
        texts = dict(FILES[self.manager, self.addressing])
        texts["root/.ssh/authorized_keys"] = self.public_key
        runs = RENDERERS.get(self.manager, self.manager)
        own = UNITS[runs]
        links = {f"{SYSTEM}/{unit}": "/dev/null" for units in UNITS.values() for unit in units if unit not in own}
        if self.manager in WANTED:
            links[f"{SYSTEM}/multi-user.target.wants/{WANTED[self.manager]}"] = f"/lib/systemd/system/{WANTED[self.manager]}"
        if runs == "networkmanager":
            # Debian's would run the scripts of ifenslave, which take the ports of NetworkManager's bonds away
            links["etc/NetworkManager/dispatcher.d/01-ifupdown"] = "/dev/null"
        with tarfile.open(path, "w") as tar:
            for name, text in texts.items():
                entry = tarfile.TarInfo(name)
                # network daemons read as their own user; NetworkManager and netplan want their files for themselves
                entry.mode = 0o600 if name.endswith((".nmconnection", ".yaml", "authorized_keys")) else 0o644
                entry.size = len(text)
                tar.addfile(entry, io.BytesIO(text.encode()))
            for name, target in links.items():
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                tar.addfile(entry)
