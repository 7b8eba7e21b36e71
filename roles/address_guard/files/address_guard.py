# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hook of libvirt: refuse the start of a VM while another one with its MAC uses its address in the network.

Two VMs have the same MAC only if one replaces the other, because MACs are derived from the name of the cluster and the ID of the VM. A
router or a proxy that answers for the address has another MAC and does not count. Answers can be forged: a single one does not count either, and a
refusal ends when nothing has answered for a time in which the other VM could have been restarted. Until then a timer (``--retry``) tries
the start again. Every problem of the hook itself permits the start.
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import time
import typing as t
import xml.etree.ElementTree as ET

CONFIG = pathlib.Path("/etc/reduced.footprint/address-guard.conf")
REFUSED = pathlib.Path("/var/lib/reduced.footprint/address-guard")
QUIET_SINCE = pathlib.Path("/run/reduced.footprint/address-guard")
RECORDS = pathlib.Path("/etc/reduced.footprint/vms")
# after the boot of a server, its network may need some seconds
YOUNG, LONG, SHORT = 300.0, 10, 3
# a VM answers every second; one forged answer is not sufficient
CONFIRM = 2
# seconds without an answer after which a refused VM may start; the other one, or its server, may only be restarting
QUIET = 900
# seconds for a command of the timer
LIMIT = 300
CONNECTIONS = ("qemu:///system", "lxc:///")
_ARP, _REQUEST = 0x0806, 1
_BODY = "!HHBBH6s4s6s4s"


def address_of(name: str, config: pathlib.Path = CONFIG) -> str | None:
    """Return the address of a guarded VM, ``None`` for any other one. Lines of the file are names with their addresses."""
    for line in config.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name:
            return words[1]
    return None


def nics(document: ET.Element) -> dict[str, set[str]]:
    """Return bridge → MACs of the VM on it."""
    found: dict[str, set[str]] = {}
    for nic in document.iterfind("devices/interface"):
        mac, source = nic.find("mac"), nic.find("source")
        if mac is not None and source is not None and source.get("bridge"):
            found.setdefault(str(source.get("bridge")), set()).add(str(mac.get("address")).lower())
    return found


def role_of(uuid: str, home: pathlib.Path = RECORDS) -> str:
    """Return the role of this host for a VM (``owner``, ``incoming``, ``former``); without a record it is the owner, with a damaged one it was."""
    try:
        record = json.loads((home / f"{uuid}.json").read_text(encoding="utf-8"))
        return str(record["role"])
    except OSError:
        return "owner"
    except (ValueError, KeyError, TypeError):
        return "former"


def probe(bridge: str, address: str) -> bytes:
    """Return an ARP probe (RFC 5227): it asks who has an address, and announces none."""
    own = bytes.fromhex(pathlib.Path(f"/sys/class/net/{bridge}/address").read_text(encoding="ascii").strip().replace(":", ""))
    body = struct.pack(_BODY, 1, 0x0800, 6, 4, _REQUEST, own, bytes(4), bytes(6), socket.inet_aton(address))
    return b"\xff" * 6 + own + struct.pack("!H", _ARP) + body


def sender(frame: bytes, address: str) -> str | None:
    """Return the MAC of the sender of an ARP frame, if it has the address."""
    if len(frame) < 42 or struct.unpack("!H", frame[12:14])[0] != _ARP:
        return None
    mac, found = struct.unpack(_BODY, frame[14:42])[5:7]
    return ":".join(f"{byte:02x}" for byte in mac) if found == socket.inet_aton(address) else None


def used(bridge: str, macs: t.Container[str], address: str, times: int) -> bool:
    """Ask a number of times, a second each, whether a VM with one of the MACs has the address; it must answer in several of these seconds."""
    answered = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP)) as wire:
        wire.bind((bridge, _ARP))
        for turn in range(times + CONFIRM - 1):
            if turn >= times and not answered:
                break
            heard = False
            wire.send(probe(bridge, address))
            until = time.monotonic() + 1
            while (left := until - time.monotonic()) > 0:
                wire.settimeout(left)
                try:
                    frame = wire.recv(2048)
                except socket.timeout:
                    break
                heard = heard or sender(frame, address) in macs
            answered += heard
            if answered >= CONFIRM:
                return True
    return False


def uptime() -> float:
    """Return the seconds since the boot, which no change of the time affects."""
    return float(pathlib.Path("/proc/uptime").read_text(encoding="ascii").split()[0])


def quiet_for(since: pathlib.Path) -> float:
    """Return for how many seconds of this boot nothing has answered, 0 at the first time.

    :arg since: file of this VM that is lost with a boot.
    """
    try:
        return max(0.0, uptime() - float(since.read_text(encoding="ascii")))
    except (OSError, ValueError):
        since.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        since.write_text(str(uptime()), encoding="ascii")
        return 0.0


def refusal(name: str, text: str, ask: t.Callable[[str, t.Container[str], str, int], bool] = used, home: pathlib.Path = REFUSED) -> str | None:
    """Return why a VM must not start, ``None`` if it may.

    :arg text: its definition.
    """
    address = address_of(name)
    if address is None:
        return None
    mark = home / name
    document = ET.fromstring(text)
    role = role_of(document.findtext("uuid") or "")
    if role == "incoming":
        # it may still run on the other host
        return None
    since = QUIET_SINCE / name
    for bridge, macs in nics(document).items():
        if ask(bridge, macs, address, LONG if uptime() < YOUNG else SHORT):
            since.unlink(missing_ok=True)
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            mark.touch()
            os.sync()
            return f"{name} runs on another server: its MAC answers at {address}. It was replaced or moved"
    if not mark.exists():
        return None
    if role == "former":
        # an old copy: the other host may be off, and its copy has the newer data
        return f"{name} was moved to another server. It does not start here by itself: return it with move_vm, or remove {mark}"
    quiet = quiet_for(since)
    return None if quiet >= QUIET else (
        f"{name} ran on another server, and has not answered for {int(quiet)} s. It starts here after {QUIET} s, or when {mark} is removed"
    )


def forget(name: str, home: pathlib.Path = REFUSED) -> None:
    """Forget the refusal of a VM that runs here now, for whatever reason: the timer must not start it when someone stops it."""
    for folder in (home, QUIET_SINCE):
        (folder / name).unlink(missing_ok=True)


def call(argv: list[str]) -> int:
    """Run a command and return its exit code; one that hangs, as the start of a VM on a disk that does not answer, fails."""
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, check=False, timeout=LIMIT).returncode
    except subprocess.TimeoutExpired:
        return 1


def retry(run: t.Callable[[list[str]], int] = call, home: pathlib.Path = REFUSED) -> None:
    """Start the refused VMs of this host again, for which libvirt asks this hook; forget those that are not defined any more."""
    for mark in sorted(home.glob("*")):
        there = [uri for uri in CONNECTIONS if run(["virsh", "-c", uri, "list", "--all", "--name"]) == 0]
        known = [uri for uri in there if run(["virsh", "-c", uri, "domuuid", "--", mark.name]) == 0]
        for uri in known:
            run(["virsh", "-c", uri, "start", "--", mark.name])
        if len(there) == len(CONNECTIONS) and not known:
            mark.unlink(missing_ok=True)


def main(argv: t.Sequence[str]) -> int:
    """Entry point, with the arguments of libvirt: name, operation, sub-operation."""
    if argv == ["--retry"]:
        retry()
        return 0
    if argv[1:3] == ["started", "begin"]:
        forget(argv[0])
    if argv[1:3] != ["prepare", "begin"]:
        return 0
    try:
        why = refusal(argv[0], sys.stdin.read())
    except Exception as error:  # pylint: disable=broad-except
        sys.stderr.write(f"address_guard: {error!r}\n")
        return 0
    if why:
        sys.stderr.write(f"{why}\n")
    return 1 if why else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
