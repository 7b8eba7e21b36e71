# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Links of a host, those that are to be made of them, and the change that makes them."""

from __future__ import annotations

import dataclasses
import typing as t

NIC = "nic"
BRIDGE = "bridge"
BOND = "bond"
VLAN = "vlan"
LOOPBACK = "loopback"

INHERIT = "inherit"
NO_ADDRESS = "none"

NETWORKD = "networkd"
NETPLAN = "netplan"
IFUPDOWN = "ifupdown"
NETWORKMANAGER = "networkmanager"
MANAGER_NAMES = {
    NETWORKD: "systemd-networkd",
    NETPLAN: "netplan",
    IFUPDOWN: "ifupdown",
    NETWORKMANAGER: "NetworkManager",
}


@dataclasses.dataclass(frozen=True)
class Bond:
    """A bond the user wants; what is ``None`` is the kernel's own choice."""

    name: str
    ports: tuple[str, ...]
    mode: str = "active-backup"
    miimon: int = 100
    lacp_rate: str | None = None
    hash_policy: str | None = None
    primary: str | None = None
    mtu: int | None = None


@dataclasses.dataclass(frozen=True)
class Vlan:
    """A VLAN the user wants on top of a link."""

    name: str
    link: str
    id: int
    mtu: int | None = None

    @property
    def ports(self) -> tuple[str, ...]:
        """What it stands on."""
        return (self.link,)


@dataclasses.dataclass(frozen=True)
class Bridge:
    """A bridge the user wants; ``stp`` and ``vlan_filtering`` are off where nothing was said."""

    name: str
    ports: tuple[str, ...] = ()
    address: str = INHERIT
    stp: bool | None = None
    vlan_filtering: bool | None = None
    mtu: int | None = None


@dataclasses.dataclass(frozen=True)
class Wanted:
    """All that one call asks for, made in one trial."""

    bonds: tuple[Bond, ...] = ()
    vlans: tuple[Vlan, ...] = ()
    bridges: tuple[Bridge, ...] = ()


@dataclasses.dataclass(frozen=True)
class Link:
    """A network interface that is there.

    ``kind`` is ``nic``, ``bridge``, ``bond``, ``vlan`` or ``loopback``; ``ports`` are those of a bridge or bond;
    ``lower`` is what a VLAN stands on; ``addresses`` the global ones with their prefix length, those in
    ``autoconf`` made from a router's prefix, which anything on that network gets without being told to, those in ``leased``
    for a time only;
    ``settings`` what the kernel tells of its kind (``mode``, ``id``, ``stp_state``...).
    """

    name: str
    index: int
    mac: str
    kind: str = NIC
    mtu: int = 1500
    master: str | None = None
    lower: str | None = None
    ports: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    autoconf: tuple[str, ...] = ()
    leased: tuple[str, ...] = ()
    settings: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)

    @property
    def own(self) -> tuple[str, ...]:
        """The addresses that somebody gave it."""
        return tuple(address for address in self.addresses if address not in self.autoconf)


@dataclasses.dataclass(frozen=True)
class Profile:
    """Who configures a link, and with what.

    ``manager`` is one of :data:`MANAGER_NAMES`, or ``None`` for nobody known. ``path`` is the file that speaks
    of the link, ``text`` its content (drop-ins appended). ``configured`` tells whether the link would have
    addresses by it, now or when its cable is plugged in. ``identity`` is what a DHCP server knows it by, where
    that hangs on the name of the link (an IAID).
    """

    manager: str | None
    path: str | None = None
    text: str = ""
    configured: bool = False
    identity: int | None = None


@dataclasses.dataclass(frozen=True)
class Device:
    """A bridge, bond or VLAN that is to be made.

    ``ports`` are what it stands on, also those made in the same call. ``inherits`` names the link that is there
    now whose addresses, routes and DHCP settings the device takes over, ``mac`` the address it gets and
    ``mtu`` its MTU; ``None`` leaves each to the system. ``master`` is the bridge or bond it becomes a port of.
    """

    kind: str
    name: str
    ports: tuple[str, ...]
    wanted: Bond | Vlan | Bridge
    inherits: str | None = None
    mac: str | None = None
    mtu: int | None = None
    master: str | None = None
    vlans: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Layout:
    """What has to be made and what happens to the links that are there.

    ``devices`` come from the bottom to the top. ``taken`` maps a link that is there to the device it becomes a
    port of, ``stacked`` one that keeps its addresses to the VLANs that are made on it; ``mtus`` is the MTU
    of a taken link where it has to be set. ``paths`` maps each name to where the user wrote it.
    """

    devices: tuple[Device, ...]
    links: t.Mapping[str, Link]
    taken: t.Mapping[str, str]
    stacked: t.Mapping[str, tuple[str, ...]]
    mtus: t.Mapping[str, int]
    paths: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def touched(self) -> tuple[str, ...]:
        """The links that are there and whose configuration changes."""
        return (*self.taken, *(name for name in self.stacked if name not in self.taken))

    def device(self, name: str) -> Device | None:
        """The device with this name, if it is to be made."""
        return next((device for device in self.devices if device.name == name), None)

    def heir(self, name: str) -> Device | None:
        """The device that takes over the addresses of a link."""
        return next((device for device in self.devices if device.inherits == name), None)


@dataclasses.dataclass(frozen=True)
class Change:
    """A change of the network as one manager makes it.

    ``trial`` are files that a reboot forgets, ``keep`` those that make the change last; both map path to text,
    in the order in which they are written; ``modes`` are those of files that are not for everybody. ``apply``, ``revert`` and
    ``confirm`` are commands; in their words ``{folder}``, ``{python}`` and ``{timeout}`` stand for the folder
    of the trial, the Python that runs it and the seconds it has. ``scripts`` are put into that folder. ``shown``
    is what a diff shows beside the files of ``keep``: headline → before and after.
    """

    manager: str
    trial: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    keep: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    apply: tuple[tuple[str, ...], ...] = ()
    revert: tuple[tuple[str, ...], ...] = ()
    confirm: tuple[tuple[str, ...], ...] = ()
    scripts: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    shown: t.Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    modes: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
