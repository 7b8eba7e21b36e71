# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare requested bonds, VLANs and bridges with existing ones."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network import model_network
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Bond, Bridge, Link, Vlan

_HINT = "Change it with the tool that created it, or use another name."
_KINDS = {Bond: model_network.BOND, Vlan: model_network.VLAN, Bridge: model_network.BRIDGE}


def compare(entry: t.Any, path: str, links: t.Mapping[str, Link]) -> bool:
    """Return whether the entry is missing; ``False`` if it exists and matches.

    Omitted options are not compared. A bridge may have more ports, for example those of guests.

    :raises RefusedError: an existing device of that name differs.
    """
    link = links.get(entry.name)
    if link is None:
        return True
    kind = _KINDS[type(entry)]
    if link.kind != kind:
        raise RefusedError(f"{entry.name} exists and is not a {kind}.", f"{path}.name", "Use another name.")
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
    current = link.settings
    if isinstance(entry, Vlan):
        return [("id", current.get("id"), entry.id), ("mtu", link.mtu, entry.mtu)]
    if isinstance(entry, Bridge):
        return [
            ("stp", bool(current.get("stp_state")), entry.stp),
            ("vlan_filtering", bool(current.get("vlan_filtering")), entry.vlan_filtering),
            ("mtu", link.mtu, entry.mtu),
        ]
    return [
        ("mode", current.get("mode"), entry.mode),
        ("lacp_rate", current.get("ad_lacp_rate"), entry.lacp_rate),
        ("hash_policy", current.get("xmit_hash_policy"), entry.hash_policy),
        ("primary", current.get("primary"), entry.primary),
        ("mtu", link.mtu, entry.mtu),
    ]


def _check(name: str, option: str, found: t.Any, wanted: t.Any, path: str) -> None:
    if wanted is not None and found != wanted:
        raise RefusedError(f"{name} exists with {option} {found}, not {wanted}.", f"{path}.{option}", _HINT)
