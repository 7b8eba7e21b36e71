# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: find the interface and the current holder of virtual addresses from one host."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._loadbalancer.plan_virtual_addresses import home_of, parse_interfaces, place
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import io_arp

_ATTEMPTS, _WAIT = 2, 0.25


def look(wanted: t.Sequence[t.Mapping[str, t.Any]], own: str, probe: bool = True) -> dict[str, t.Any]:
    """Return ``home`` (interface of the host's own address), ``addresses`` and ``macs`` of this host.

    :arg probe: probe the network for other holders; changes no ARP cache.
    :raises InputError: an invalid value.
    :raises BackendError: the network cannot be probed.
    """
    interfaces = parse_interfaces(run(["ip", "-json", "address", "show"], timeout=20).stdout)
    mine = {str(each.ip) for one in interfaces for each in one.addresses}
    home = home_of(own, interfaces)
    found = []
    for one in place(wanted, own, interfaces):
        held = one.address in mine
        try:
            answers = io_arp.probe(one.interface, one.address, _ATTEMPTS, _WAIT) if probe and not held else None
        except OSError as error:
            raise BackendError(f"cannot probe {one.address} on {one.interface} by ARP: {error}.", hint="Run the module as root.") from error
        found.append({**dataclasses.asdict(one), "held": held, "answered_by": answers})
    return {"home": home, "addresses": found, "macs": sorted({one.mac for one in interfaces if one.mac})}
