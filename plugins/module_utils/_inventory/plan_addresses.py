# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Determine the address of each NIC from leases, guest agents and neighbour tables."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import ipaddress
import json
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError, kind_of
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known

SOURCES = ("fixed", "lease", "agent", "arp")

# The libvirt drivers that VMs have.
DRIVERS = ("qemu", "lxc")
# Seconds; a longer wait would only look like a hang.
LONGEST = 3600

# A sweep sends one datagram per address; a larger network would be a scan.
WIDEST_SWEEP = 22

# MAC (lower case) → its IPv4 addresses, the most trustworthy first.
Table = t.Dict[str, t.List[str]]

_MAC = re.compile(r"\A[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")
# the first columns of a lease file of Kea for IPv4
_KEA_HEADER = "address,hwaddr,"
_KEA_FOREVER = 2**32 - 1
_NO_ANSWER = frozenset(("FAILED", "INCOMPLETE", "NONE"))


@dataclasses.dataclass(frozen=True)
class Found:
    """An address, its source, and other addresses of the same NIC."""

    address: str
    source: str
    others: tuple[str, ...] = ()


def parse_leases(text: str, now: float) -> Table:
    """Parse a lease file of dnsmasq or Kea to a table, the newest lease of a NIC first; expired leases are left out."""
    rows = _kea_rows(text) if text.startswith(_KEA_HEADER) else _dnsmasq_rows(text)
    table: Table = {}
    for expiry, mac, address in sorted(rows, key=lambda row: -row[0]):
        if expiry > now and _MAC.match(mac) and _is_ipv4(address):
            add(table, mac, address)
    return table


def _dnsmasq_rows(text: str) -> list[tuple[float, str, str]]:
    """Expiry, MAC and address of each line ``expiry mac address hostname client-id``; expiry 0 means that the lease never expires.

    The IPv6 part and other lines are left out.
    """
    rows: list[tuple[float, str, str]] = []
    for line in text.splitlines():
        fields = line.split()
        if fields[:1] == ["duid"]:
            break
        if len(fields) < 4 or not fields[0].isdecimal():
            continue
        # a hardware type other than Ethernet is a prefix of the MAC: 06-aa:bb:…
        rows.append((float(fields[0]) or float("inf"), fields[1].lower().rpartition("-")[2], fields[2]))
    return rows


def _kea_rows(text: str) -> list[tuple[float, str, str]]:
    """Expiry, MAC and address of each lease in a CSV file of Kea (memfile), to which Kea appends: the last line of an address is valid.

    A lifetime of 0 deletes the lease, and the largest number never expires. Declined and reclaimed leases have another state than 0.
    """
    current: dict[str, t.Mapping[str, str | None]] = {}
    # a damaged file ends at the first field that is too long
    with contextlib.suppress(csv.Error):
        current.update((row["address"], row) for row in csv.DictReader(text.splitlines()) if row.get("address"))
    rows: list[tuple[float, str, str]] = []
    for address, row in current.items():
        lifetime, expiry = row.get("valid_lifetime") or "", row.get("expire") or ""
        if (row.get("state") or "0") == "0" and lifetime.isdecimal() and expiry.isdecimal() and int(lifetime):
            rows.append((float("inf") if int(lifetime) == _KEA_FOREVER else float(expiry), (row.get("hwaddr") or "").lower(), address))
    return rows


def parse_neighbours(text: str) -> Table:
    """Parse the output of ``ip -json -4 neigh show`` to a table, the most recently confirmed entries first."""
    try:
        entries = json.loads(text or "[]")
    except ValueError:
        return {}
    rank = {"PERMANENT": 0, "REACHABLE": 0, "DELAY": 1, "PROBE": 1, "STALE": 2}
    rows: list[tuple[int, str, str]] = []
    for entry in entries:
        states = entry.get("state") or ["NONE"]
        mac = str(entry.get("lladdr", "")).lower()
        if _MAC.match(mac) and _is_ipv4(entry.get("dst", "")) and not _NO_ANSWER.intersection(states):
            rows.append((min(rank.get(state, 3) for state in states), mac, entry["dst"]))
    table: Table = {}
    for _rank, mac, address in sorted(rows, key=lambda row: row[0]):
        add(table, mac, address)
    return table


def add(table: Table, mac: str, address: str) -> None:
    """Append an address of a NIC unless it is already known."""
    known = table.setdefault(mac.lower(), [])
    if address not in known:
        known.append(address)


def from_pairs(pairs: t.Iterable[tuple[str, str]]) -> Table:
    """Convert pairs of MAC and address to a table, in their order."""
    table: Table = {}
    for mac, address in pairs:
        add(table, mac, address)
    return table


def merge(tables: t.Iterable[Table]) -> Table:
    """Merge tables; addresses of earlier tables come first."""
    merged: Table = {}
    for table in tables:
        for mac, addresses in table.items():
            for address in addresses:
                add(merged, mac, address)
    return merged


def check_sources(sources: t.Sequence[str], path: str) -> None:
    """Check the names of sources."""
    for index, source in enumerate(sources):
        if source not in SOURCES:
            raise InputError(f"{source!r} is not a valid source of addresses.", f"{path}[{index}]", f"Use one of {', '.join(SOURCES)}.")


def check_uris(value: t.Any, path: str) -> None:
    """Check libvirt URIs by driver; those of another driver would never be queried."""
    check_known({} if value is None else value, DRIVERS, path, "Write {qemu: 'qemu+ssh://root@{host}/system'}; qemu is also used for kvm.")
    for driver, uri in (value or {}).items():
        if not isinstance(uri, str):
            raise InputError(f"is {kind_of(uri)}, not text.", f"{path}.{driver}", "Write e.g. qemu+ssh://root@{host}/system.")


def check_timeout(value: float, path: str) -> None:
    """Check the seconds to wait for a source."""
    if not 0 < value <= LONGEST:
        raise InputError(f"{value!r} is not supported.", path, f"Use more than 0 and at most {LONGEST} seconds.")


def parse_excluded(values: t.Sequence[str], path: str) -> tuple[ipaddress.IPv4Network, ...]:
    """Parse addresses or networks that never identify a VM, e.g. a virtual address that moves between VMs."""
    excluded = []
    for index, value in enumerate(values):
        try:
            excluded.append(ipaddress.IPv4Network(value, strict=False))
        except ValueError as error:
            raise InputError(f"{value!r} is not a valid IPv4 address or network.", f"{path}[{index}]", "Write e.g. 192.0.2.20 or 192.0.2.0/28.") from error
    return tuple(excluded)


def choose(macs: t.Sequence[str], table: Table, source: str, excluded: t.Sequence[ipaddress.IPv4Network] = ()) -> Found | None:
    """Return the address of a VM: that of its first NIC with an address.

    :arg macs: the VM's MACs in the order of its NICs.
    """
    for mac in macs:
        usable = [address for address in table.get(mac.lower(), ()) if _usable(address, excluded)]
        if usable:
            return Found(usable[0], source, tuple(usable[1:]))
    return None


def sweep_targets(network: str, path: str) -> tuple[str, ...]:
    """Return the addresses of a network to send datagrams to, so that the kernel resolves them."""
    try:
        parsed = ipaddress.IPv4Network(network, strict=False)
    except ValueError as error:
        raise InputError(f"{network!r} is not a valid IPv4 network.", path, "Write e.g. 192.0.2.0/24.") from error
    if parsed.prefixlen < WIDEST_SWEEP:
        raise RefusedError(
            f"{network} has {parsed.num_addresses} addresses; at most {2 ** (32 - WIDEST_SWEEP)} (/{WIDEST_SWEEP}) can be searched.",
            path,
            "Give the part of the network that contains the VMs, or use leases.",
        )
    return tuple(str(address) for address in parsed.hosts())


def _is_ipv4(value: t.Any) -> bool:
    try:
        ipaddress.IPv4Address(value)
    except ValueError:
        return False
    return True


def _usable(address: str, excluded: t.Sequence[ipaddress.IPv4Network]) -> bool:
    parsed = ipaddress.IPv4Address(address)
    if parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified or parsed.is_multicast:
        return False
    return not any(parsed in network for network in excluded)
