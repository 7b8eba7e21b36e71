# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Links of a host, the devices to create over them, and the change that creates them."""

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
    """A requested bond; ``None`` leaves a setting to the kernel."""

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
    """A requested VLAN on a link."""

    name: str
    link: str
    id: int
    mtu: int | None = None

    @property
    def ports(self) -> tuple[str, ...]:
        """The link of the VLAN."""
        return (self.link,)


@dataclasses.dataclass(frozen=True)
class Bridge:
    """A requested bridge; ``stp`` and ``vlan_filtering`` are off by default."""

    name: str
    ports: tuple[str, ...] = ()
    address: str = INHERIT
    stp: bool | None = None
    vlan_filtering: bool | None = None
    mtu: int | None = None


@dataclasses.dataclass(frozen=True)
class Wanted:
    """All devices requested by one call, created in one trial."""

    bonds: tuple[Bond, ...] = ()
    vlans: tuple[Vlan, ...] = ()
    bridges: tuple[Bridge, ...] = ()


@dataclasses.dataclass(frozen=True)
class Link:
    """An existing network interface.

    ``kind`` is ``nic``, ``bridge``, ``bond``, ``vlan`` or ``loopback``; ``ports`` are those of a bridge or bond;
    ``lower`` is the link of a VLAN; ``addresses`` are the global ones with prefix length. ``autoconf`` are those derived
    from a router's prefix, ``leased`` those with a limited lifetime.
    ``settings`` are the values that the kernel reports for its kind (``mode``, ``id``, ``stp_state``...).
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
        """The addresses that are not derived from a router's prefix."""
        return tuple(address for address in self.addresses if address not in self.autoconf)


@dataclasses.dataclass(frozen=True)
class Profile:
    """The network manager and the configuration of a link.

    ``manager`` is one of :data:`MANAGER_NAMES`, or ``None`` if unknown. ``path`` is the configuration file of
    the link, ``text`` its content (drop-ins appended). ``configured`` is whether the link gets addresses by it, now
    or when its cable is plugged in. ``identity`` is its DHCP client identity (an IAID), if that depends on the name
    of the link.
    """

    manager: str | None
    path: str | None = None
    text: str = ""
    configured: bool = False
    identity: int | None = None


@dataclasses.dataclass(frozen=True)
class Device:
    """A bridge, bond or VLAN to create.

    ``ports`` are the links below it, including devices of the same call. ``inherits`` is the existing link whose
    addresses, routes and DHCP settings the device takes over, ``mac`` its MAC address and
    ``mtu`` its MTU; ``None`` leaves each to the system. ``master`` is the bridge or bond of which it becomes a port.
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
    """The devices to create and the changes of existing links.

    ``devices`` are ordered from the bottom to the top. ``taken`` maps an existing link to the device of which it becomes a
    port, ``stacked`` an existing link that keeps its addresses to its new VLANs; ``mtus`` is the MTU to set
    on a taken link. ``paths`` maps each name to its path in the input.
    """

    devices: tuple[Device, ...]
    links: t.Mapping[str, Link]
    taken: t.Mapping[str, str]
    stacked: t.Mapping[str, tuple[str, ...]]
    mtus: t.Mapping[str, int]
    paths: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def touched(self) -> tuple[str, ...]:
        """The existing links whose configuration changes."""
        return (*self.taken, *(name for name in self.stacked if name not in self.taken))

    def device(self, name: str) -> Device | None:
        """Return the device to create with this name, if any."""
        return next((device for device in self.devices if device.name == name), None)

    def heir(self, name: str) -> Device | None:
        """Return the device that takes over the addresses of a link, if any."""
        return next((device for device in self.devices if device.inherits == name), None)


@dataclasses.dataclass(frozen=True)
class Change:
    """A change of the network for one network manager.

    ``trial`` are files that do not survive a reboot, ``keep`` those that make the change permanent; both map path to text,
    in the order of writing; ``modes`` are the modes of files that are not world-readable. ``apply``, ``revert`` and
    ``confirm`` are commands; in their arguments ``{folder}``, ``{python}`` and ``{timeout}`` are replaced by the folder
    of the trial, its Python interpreter and its timeout in seconds. ``scripts`` are written to that folder. ``shown``
    are diff entries in addition to the files of ``keep``: header → before and after.
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
