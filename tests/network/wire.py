# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network of a server, in a separate network namespace.

``port0`` and ``port1`` are connected to one switch with the operator at 10.222.0.1 and a DHCP
server; VLAN 42 passes that switch as well, its other end is 10.222.42.1. ``port2`` is connected to
a switch without other machines: it has a carrier and receives nothing.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import typing as t

from tests.support import leftovers

HERE = pathlib.Path(__file__).resolve().parent
#: Ends a child with this process, also if this process is killed.
WITH_ME = ("setpriv", "--pdeathsig", "KILL")
OPERATOR = "10.222.0.1"
SERVER = "10.222.0.10"
VLAN = 42
VLAN_PEER = "10.222.42.1"
VLAN_GUEST = "10.222.42.10"


class Wire:
    """The namespace and its processes."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.name = f"rfwire-{os.getpid()}"
        self.folder = folder
        self.leases = folder / "leases"
        self._children: list[subprocess.Popen[bytes]] = []

    def inside(self, *argv: str) -> list[str]:
        """Return the command line that runs a command in the namespace of the operator."""
        return ["nsenter", f"--net=/run/netns/{self.name}", *argv]

    def start(self) -> None:
        """Create namespace, switches and ports."""
        leftovers.note("netns", self.name)
        _ip("netns", "add", self.name)
        for switch in ("wire", "nowhere"):
            self._link("add", switch, "type", "bridge", "forward_delay", "0")
        for port, switch in (("port0", "wire"), ("port1", "wire"), ("port2", "nowhere")):
            _ip("-n", self.name, "tuntap", "add", "dev", port, "mode", "tap")
            self._link("set", port, "master", switch)
        self._link("add", "trunk0", "type", "veth", "peer", "name", "trunk1")
        self._link("set", "trunk1", "master", "wire")
        _ip("-n", self.name, "tuntap", "add", "dev", f"vlan{VLAN}", "mode", "tap")
        for name in ("lo", "wire", "nowhere", "port0", "port1", "port2", "trunk0", "trunk1", f"vlan{VLAN}"):
            self._link("set", name, "up")
        _ip("-n", self.name, "address", "add", f"{OPERATOR}/24", "dev", "wire")
        _ip("-n", self.name, "address", "add", f"{VLAN_PEER}/24", "dev", f"vlan{VLAN}")
        self._child(sys.executable, str(HERE / "vlan_wire.py"), "trunk0", f"vlan{VLAN}", str(VLAN))
        self._child(
            "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--interface=wire", "--bind-interfaces", "--user=root",
            "--dhcp-authoritative", "--dhcp-range=10.222.0.100,10.222.0.199,1h", f"--dhcp-leasefile={self.leases}",
            f"--pid-file={self.folder / 'dnsmasq.pid'}",
        )  # fmt: skip

    def leased(self, mac: str) -> str | None:
        """Return the last DHCP address of a MAC; servers with the same MAC may use different client ids."""
        lines = [line.split() for line in self.leases.read_text().splitlines()] if self.leases.exists() else []
        found = [(int(line[0]), line[2]) for line in lines if line[1:2] == [mac]]
        return max(found)[1] if found else None

    def stop(self) -> None:
        """Remove namespace and processes."""
        for child in self._children:
            child.kill()
            child.wait()
        _ip("netns", "delete", self.name)

    def _link(self, *words: str) -> None:
        _ip("-n", self.name, "link", *words)

    def _child(self, *argv: str) -> None:
        with open(self.folder / f"{os.path.basename(argv[0])}.log", "ab") as log:
            child = subprocess.Popen([*WITH_ME, *self.inside(*argv)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._children.append(child)


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def commands(wire: Wire, argv: t.Sequence[str], **options: t.Any) -> subprocess.CompletedProcess[str]:
    """Run a command in the namespace of the operator."""
    return subprocess.run(wire.inside(*argv), check=False, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
