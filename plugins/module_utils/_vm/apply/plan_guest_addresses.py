# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of the reported addresses are those of a VM."""

from __future__ import annotations

import ipaddress
import typing as t

DETAILS = "details"
_AGENT = "agent"


def addresses_of(
    macs: t.Sequence[str], reports: t.Mapping[str, t.Sequence[tuple[str, str]] | None], declared: str | None = None
) -> list[dict[str, str]] | None:
    """Return the addresses of a running VM in the order of its NICs, IPv4 first, each once with the first source that has it.

    :arg macs: of its NICs. Interfaces inside of the guest, such as bridges of containers, have others.
    :arg reports: source → pairs of MAC and address, ``None`` if the source did not answer.
    :arg declared: the address in the VM details, which comes first.
    :returns: ``None`` if nothing is known: only the guest itself can say that it has no address; leases and the ARP table only have what they saw.
    """
    order = {mac.lower(): index for index, mac in enumerate(macs)}
    found: dict[str, dict[str, str]] = {}
    for source, pairs in reports.items():
        for mac, address in pairs or ():
            if mac in order and _usable(address):
                found.setdefault(address, {"address": address, "mac": mac, "source": source})
    rows = sorted(found.values(), key=lambda row: (order[row["mac"]], ":" in row["address"]))
    if declared:
        own = found.get(declared, {"address": declared, "mac": macs[0] if macs else "", "source": DETAILS})
        rows = [own, *(row for row in rows if row["address"] != declared)]
    return rows if rows or reports.get(_AGENT) is not None else None


def _usable(address: str) -> bool:
    """Whether others reach the address: not one of the guest only or of one link only."""
    parsed = ipaddress.ip_address(address)
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified)
