# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fence of the cutover on real bridges: a virt host, its VM with two NICs, a client and another host, each in a network namespace."""

from __future__ import annotations

import os
import pathlib
import socket
import struct
import subprocess
import sys
import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import io_fence
from tests.support import leftovers

HERE = f"f{os.getpid() % 100000}"
HOST, VM, CLIENT, OTHER = (f"{HERE}-{each}" for each in ("host", "vm", "client", "other"))
MACS = ["52:54:00:aa:00:01", "52:54:00:aa:00:02"]
PORTS = ["tap0", "tap1"]

# the word, the number and what follows
_TAIL = 26
# listens on all cards, prints the number at the end of every frame that came from the sender
LISTEN = """
import socket, sys, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.settimeout(0.1)
print("ready", flush=True)
until = time.monotonic() + float(sys.argv[1])
seen = set()
while time.monotonic() < until:
    try:
        frame = s.recv(4096)
    except TimeoutError:
        continue
    if frame[6:12] == bytes.fromhex(sys.argv[2]) and b"FENCE" in frame:
        seen.add(frame[frame.index(b"FENCE") + 5])
print(sorted(seen))
"""
SEND = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
for each in sys.argv[2:]:
    s.send(bytes.fromhex(each))
"""


def sh(namespace: str, *argv: str, **more: t.Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a namespace."""
    return subprocess.run(["ip", "netns", "exec", namespace, *argv], check=more.pop("check", True), capture_output=True, text=True, **more)


def mac(namespace: str, interface: str) -> str:
    """Return the MAC of an interface."""
    return sh(namespace, "cat", f"/sys/class/net/{interface}/address").stdout.strip()


@pytest.fixture(name="network")
def fixture_network(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> t.Iterator[None]:
    """Create two bridges of the host; the VM is connected to both, the others to the first."""
    for each in (HOST, VM, CLIENT, OTHER):
        leftovers.note("netns", each)
        subprocess.run(["ip", "netns", "add", each], check=True)
    for bridge in ("br0", "br1"):
        sh(HOST, "ip", "link", "add", bridge, "type", "bridge")
        sh(HOST, "ip", "link", "set", bridge, "up")
    for number, (namespace, port, bridge) in enumerate([(CLIENT, "c0", "br0"), (OTHER, "o0", "br0"), (CLIENT, "c1", "br1")]):
        plug(namespace, f"e{number}", port, bridge)
    sh(HOST, "ip", "address", "add", "10.9.0.1/24", "dev", "br0")
    sh(CLIENT, "ip", "address", "add", "10.9.0.3/24", "dev", "e0")
    sh(OTHER, "ip", "address", "add", "10.9.0.4/24", "dev", "e1")
    monkeypatch.setattr(io_fence, "HOME", tmp_path / "fences")
    monkeypatch.setattr(io_fence, "UNITS", tmp_path / "units")
    real = io_fence.run
    monkeypatch.setattr(io_fence, "run", lambda argv, **how: real(["ip", "netns", "exec", HOST, *argv], **how))
    monkeypatch.setattr(io_fence, "ports_of", lambda bridge: sh(HOST, "ls", f"/sys/class/net/{bridge}/brif").stdout.split())
    yield
    for each in (HOST, VM, CLIENT, OTHER):
        subprocess.run(["ip", "netns", "delete", each], check=False)


def plug(namespace: str, interface: str, port: str, bridge: str, address: str | None = None) -> None:
    """Connect a NIC of a machine to a bridge."""
    sh(HOST, "ip", "link", "add", port, "type", "veth", "peer", "name", interface, "netns", namespace)
    if address:
        sh(namespace, "ip", "link", "set", interface, "address", address)
    sh(HOST, "ip", "link", "set", port, "master", bridge, "up")
    sh(namespace, "ip", "link", "set", interface, "up")


def start_vm() -> None:
    """Create the NICs of the VM, as libvirt does at its start."""
    for number, (port, bridge) in enumerate(zip(PORTS, ("br0", "br1"))):
        plug(VM, f"eth{number}", port, bridge, MACS[number])
    sh(VM, "ip", "address", "add", "10.9.0.2/24", "dev", "eth0")


def frames(target: str, sender: str) -> dict[int, str]:
    """Return one frame of every kind, to a NIC, to broadcast and to multicast; its number follows the word FENCE."""
    to, own = target.replace(":", ""), sender.replace(":", "")

    def ipv4(protocol: int, payload: bytes, destination: str = "10.9.0.2") -> bytes:
        addresses = socket.inet_aton("10.9.0.3") + socket.inet_aton(destination)
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload) + _TAIL, 0, 0, 9, protocol, 0) + addresses
        total = sum(struct.unpack("!10H", head))
        total = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
        return head[:10] + struct.pack("!H", total) + head[12:] + payload

    def tcp(flags: int) -> bytes:
        return struct.pack("!HHIIBBHHH", 40000, 3306, 1, 1, 0x50, flags, 1000, 0, 0)

    def udp(port: int) -> bytes:
        return struct.pack("!HHHH", 40000, port, 8 + _TAIL, 0)

    def ipv6(following: int) -> bytes:
        own_address, other = socket.inet_pton(socket.AF_INET6, "fe80::3"), socket.inet_pton(socket.AF_INET6, "fe80::2")
        return struct.pack("!IHBB", 0x60000000, _TAIL, following, 255) + own_address + other

    kinds = [
        (to, "0800", ipv4(6, tcp(0x02))), (to, "0800", ipv4(6, tcp(0x18))), (to, "0800", ipv4(17, udp(53))), (to, "0800", ipv4(17, udp(40001))),
        (to, "0800", ipv4(1, b"\x08\0\0\0")), (to, "0800", ipv4(132, bytes(12))), (to, "86dd", ipv6(17)), (to, "86dd", ipv6(58)),
        (to, "8864", b"\x11\0\0\1"), (to, "88b5", b""), ("ffffffffffff", "0800", ipv4(17, udp(67), "255.255.255.255")),
        ("01005e0000fb", "0800", ipv4(17, udp(5353), "224.0.0.251")), ("333300000001", "86dd", ipv6(58)), ("0180c200000f", "88b5", b""),
    ]  # fmt: skip
    return {number: f"{first}{own}{kind}{(payload + b'FENCE' + bytes([number]) + bytes(20)).hex()}" for number, (first, kind, payload) in enumerate(kinds)}


def arrives(sender: str, interface: str, receiver: str, numbered: dict[int, str]) -> set[int]:
    """Return the numbers of the frames that one machine sends and another receives."""
    own = mac(sender, interface).replace(":", "")
    argv = ["ip", "netns", "exec", receiver, sys.executable, "-c", LISTEN, "1.5", own]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as listening:
        assert listening.stdout and listening.stdout.readline() == "ready\n"
        sh(sender, sys.executable, "-c", SEND, interface, *numbered.values())
        return set(eval(listening.stdout.read()))  # pylint: disable=eval-used  # a list of numbers that LISTEN prints


def ping(sender: str, address: str) -> bool:
    """Whether a machine answers a ping of another."""
    return sh(sender, "ping", "-c1", "-W1", address, check=False).returncode == 0


def test_only_arp_passes_and_the_host_is_answered(network: None) -> None:
    start_vm()
    known, second = frames(MACS[0], mac(CLIENT, "e0")), frames(MACS[1], mac(CLIENT, "e2"))
    # link-local groups of 802.1 end at any bridge
    every = set(known) - {13}
    assert arrives(CLIENT, "e0", VM, known) == every
    assert arrives(CLIENT, "e2", VM, second) == every
    assert ping(CLIENT, "10.9.0.2") and ping(HOST, "10.9.0.2")

    io_fence.tighten("master", MACS, PORTS)
    assert arrives(CLIENT, "e0", VM, known) == set()
    assert arrives(CLIENT, "e2", VM, second) == set()
    out = frames(mac(CLIENT, "e0"), MACS[0])
    assert arrives(VM, "eth0", CLIENT, out) == set()
    assert not ping(CLIENT, "10.9.0.2")
    assert ping(HOST, "10.9.0.2"), "the virt host's own health checks would fail"
    sh(CLIENT, "ip", "neighbour", "flush", "all")
    ping(CLIENT, "10.9.0.2")
    assert MACS[0] in sh(CLIENT, "ip", "neighbour").stdout, "ARP does not pass"
    # other hosts on the bridge are not affected
    assert ping(CLIENT, "10.9.0.4")
    others = frames(mac(OTHER, "e1"), mac(CLIENT, "e0"))
    assert arrives(CLIENT, "e0", OTHER, others) == every

    io_fence.open_up("master")
    assert arrives(CLIENT, "e0", VM, known) == every
    assert ping(CLIENT, "10.9.0.2")


def test_no_frame_passes_during_the_start(network: None) -> None:
    io_fence.close("master", MACS, ["br0", "br1"])
    start_vm()
    assert arrives(CLIENT, "e0", VM, frames(MACS[0], mac(CLIENT, "e0"))) == set()
    assert arrives(CLIENT, "e2", VM, frames(MACS[1], mac(CLIENT, "e2"))) == set()
    assert ping(HOST, "10.9.0.2") and ping(CLIENT, "10.9.0.4")


def test_rules_kept_for_a_reboot_block_unicast_to_the_vm(network: None, tmp_path: pathlib.Path) -> None:
    io_fence.close("master", MACS, ["br0"])
    sh(HOST, "nft", "flush", "ruleset")
    start_vm()
    assert ping(CLIENT, "10.9.0.2")
    # what the unit does before libvirt starts
    kept = next((tmp_path / "fences").iterdir())
    sh(HOST, "nft", "-f", str(kept))
    assert not ping(CLIENT, "10.9.0.2") and ping(HOST, "10.9.0.2")
    # broadcasts reach the VM until the worker, started with the host, knows the ports; the VM cannot answer
    assert arrives(CLIENT, "e0", VM, frames(MACS[0], mac(CLIENT, "e0"))) <= {10, 11, 12}
    assert arrives(VM, "eth0", CLIENT, frames(mac(CLIENT, "e0"), MACS[0])) == set()
    io_fence.tighten("master", MACS, PORTS)
    assert arrives(CLIENT, "e0", VM, frames(MACS[0], mac(CLIENT, "e0"))) == set()


def test_open_connection_is_cut(network: None) -> None:
    start_vm()
    serve = "import socket; s = socket.create_server(('10.9.0.2', 3306)); c = s.accept()[0]; print(c.recv(9), flush=True); c.settimeout(3); print(c.recv(9))"
    ask = "import socket, sys; s = socket.create_connection(('10.9.0.2', 3306)); "
    ask += "s.send(b'before'); sys.stdin.readline(); s.send(b'after'); sys.stdin.readline()"
    with (
        subprocess.Popen(["ip", "netns", "exec", VM, sys.executable, "-c", serve], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server,
    ):
        time.sleep(1)
        with subprocess.Popen(["ip", "netns", "exec", CLIENT, sys.executable, "-c", ask], stdin=subprocess.PIPE, text=True) as client:
            assert server.stdout and server.stderr and client.stdin
            assert server.stdout.readline() == "b'before'\n"
            io_fence.tighten("master", MACS, PORTS)
            client.stdin.write("\n")
            client.stdin.flush()
            assert "TimeoutError" in server.stderr.read() or server.stdout.read() == ""
            client.kill()
