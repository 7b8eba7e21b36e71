# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and addresses of a lab.

Several labs can run at the same time with different ``LAB_NAME`` and ``LAB_NETWORK``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import os
import pathlib
import re

from .say import LabError

LAB_DIR = pathlib.Path(__file__).resolve().parent.parent
REPO = LAB_DIR.parent
FILES = LAB_DIR / "files"
CACHE = pathlib.Path(os.environ.get("LAB_CACHE") or REPO / ".cache" / "lab")
# Registry of the labs of all checkouts on this machine; removed with the last lab.
REGISTRY = pathlib.Path("/run/rflab")

DEFAULT_NETWORK = "10.213.0.0/24"
MIRROR_PORT = 8099
# Releases of Debian that the machines can run, the default first.
RELEASES = ("bookworm", "trixie")
MAX_SERVERS = 3
LOOPS = 32


@dataclasses.dataclass(frozen=True)
class Machine:
    """One simulated machine: ``kind`` is ``server`` or ``laptop``."""

    name: str
    kind: str
    nic: str
    address: str
    mac: str


@dataclasses.dataclass(frozen=True)
class Lab:
    """``name`` is empty for the default lab; ``net`` is its first three octets.

    ``home`` is the state directory of a lab that belongs to another checkout. ``release`` is Debian's name of what the machines run.
    """

    name: str
    net: str
    home: pathlib.Path | None = None
    release: str = RELEASES[0]

    @property
    def title(self) -> str:
        return self.name or "default"

    @property
    def state(self) -> pathlib.Path:
        return self.home or REPO / (f".lab-{self.name}" if self.name else ".lab")

    @property
    def tag(self) -> str:
        """Short unique prefix, for names that the kernel limits to 15 characters."""
        if not self.name:
            return "rf"
        return "rf" + hashlib.sha256(self.name.encode()).hexdigest()[:4]

    @property
    def bridge(self) -> str:
        return "rflab0" if not self.name else f"rflab-{self.tag[2:]}"

    @property
    def host_address(self) -> str:
        return f"{self.net}.1"

    @property
    def temporary_address(self) -> str:
        """Address of the laptop after the master's VM has taken its admin address."""
        return f"{self.net}.3"

    @property
    def cidr(self) -> str:
        return f"{self.net}.0/24"

    @property
    def mirror_url(self) -> str:
        return f"http://{self.host_address}:{MIRROR_PORT}"

    @property
    def key(self) -> pathlib.Path:
        return self.state / "id_ed25519"

    def unit(self, part: str) -> str:
        """Name of a process of this lab: systemd unit, cgroup and nspawn machine."""
        return f"rflab-{self.title}-{part}"

    def host_nic(self, machine: str) -> str:
        return f"{self.tag}-{machine}"

    def machine(self, name: str) -> Machine:
        if name == "laptop":
            return Machine("laptop", "laptop", "enp0s31f6", f"{self.net}.2", "02:52:46:00:00:02")
        if name == "laptop2":
            return Machine("laptop2", "laptop", "enp0s31f6", f"{self.net}.4", "02:52:46:00:00:04")
        found = re.fullmatch(r"metal([1-3])", name)
        if not found:
            raise LabError(f"unknown machine {name!r}", "use metal1, metal2, metal3 or laptop")
        number = 10 + int(found.group(1))
        return Machine(name, "server", "eno1", f"{self.net}.{number}", f"02:52:46:00:00:{number:02x}")

    def words(self, machine: Machine | None = None) -> dict[str, str]:
        """Return the values of ``@WORD@`` in the files under ``lab/files``."""
        words = {"NET": self.net, "MIRROR": self.mirror_url, "ADMIN": machine.address if machine and machine.kind == "laptop" else f"{self.net}.2"}
        if machine:
            words.update(NAME=machine.name, NIC=machine.nic, ADDRESS=machine.address, MAC=machine.mac)
        return words


def current() -> Lab:
    """Return the lab selected by the environment variables.

    :raises LabError: an invalid name or network.
    """
    name = os.environ.get("LAB_NAME", "")
    if name == "default":
        name = ""
    if name and not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,15}", name):
        raise LabError(f"LAB_NAME={name!r} is not a valid name", "use up to 16 of a-z, 0-9 and -")
    text = os.environ.get("LAB_NETWORK") or DEFAULT_NETWORK
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as exc:
        raise LabError(f"LAB_NETWORK={text!r}: {exc}", "use a private /24, e.g. 10.214.0.0/24") from exc
    if network.prefixlen != 24 or not network.is_private:
        raise LabError(f"LAB_NETWORK={text!r} is not a private /24", "use one such as 10.214.0.0/24")
    release = os.environ.get("LAB_RELEASE") or RELEASES[0]
    if release not in RELEASES:
        raise LabError(f"LAB_RELEASE={release!r} is not supported", f"use {' or '.join(RELEASES)}")
    return Lab(name, str(network.network_address).rpartition(".")[0], release=release)
