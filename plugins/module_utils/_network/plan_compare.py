# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a bond, VLAN or bridge is there as it is wanted."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network import model_network
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Bond, Bridge, Link, Vlan

_HINT = "Bring it to that form with the tools that made it, or choose another name."
_KINDS = {Bond: model_network.BOND, Vlan: model_network.VLAN, Bridge: model_network.BRIDGE}


def compare(entry: t.Any, path: str, links: t.Mapping[str, Link]) -> bool:
    """Whether the entry is missing; ``False`` where it is there as it is wanted.

    What the user said nothing of is not compared. A bridge may have more ports: guests plug theirs in.

    :raises RefusedError: something of that name is there and is something else.
    """
    link = links.get(entry.name)
    if link is None:
        return True
    kind = _KINDS[type(entry)]
    if link.kind != kind:
        raise RefusedError(f"{entry.name} exists and is no {kind}.", f"{path}.name", "Choose another name.")
    if isinstance(entry, Vlan):
        _check(entry.name, "link", link.lower, entry.link, path)
    else:
        for index, port in enumerate(entry.ports):
            if port not in link.ports:
                there = ", ".join(link.ports) or "none"
                raise RefusedError(f"{entry.name} exists without the port {port} (its ports: {there}).", f"{path}.ports[{index}]", _HINT)
    for option, found, wanted in _settings(entry, link):
        _check(entry.name, option, found, wanted, path)
    return False


def _settings(entry: t.Any, link: Link) -> list[tuple[str, t.Any, t.Any]]:
    told = link.settings
    if isinstance(entry, Vlan):
        return [("id", told.get("id"), entry.id), ("mtu", link.mtu, entry.mtu)]
    if isinstance(entry, Bridge):
        return [
            ("stp", bool(told.get("stp_state")), entry.stp),
            ("vlan_filtering", bool(told.get("vlan_filtering")), entry.vlan_filtering),
            ("mtu", link.mtu, entry.mtu),
        ]
    return [
        ("mode", told.get("mode"), entry.mode),
        ("lacp_rate", told.get("ad_lacp_rate"), entry.lacp_rate),
        ("hash_policy", told.get("xmit_hash_policy"), entry.hash_policy),
        ("primary", told.get("primary"), entry.primary),
        ("mtu", link.mtu, entry.mtu),
    ]


def _check(name: str, option: str, found: t.Any, wanted: t.Any, path: str) -> None:
    if wanted is not None and found != wanted:
        raise RefusedError(f"{name} exists with {option} {found}, not {wanted}.", f"{path}.{option}", _HINT)
