# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the identity service with the requested administrator and endpoints, without I/O."""

from __future__ import annotations

import dataclasses
import typing as t

INTERFACES = ("public", "internal", "admin")


@dataclasses.dataclass(frozen=True)
class Identity:
    """The requested administrator and endpoints.

    :arg urls: interface → URL of the service.
    """

    username: str
    project: str
    role: str
    region: str
    urls: t.Mapping[str, str]


def why_bootstrap(wanted: Identity, token: t.Mapping[str, t.Any] | None) -> tuple[str, ...]:
    """Return what a bootstrap would fix; empty if nothing differs.

    :arg token: content of the administrator's token, ``None`` if authentication failed.
    """
    if token is None:
        return (f"create {wanted.username} or set its password",)
    missing = []
    if wanted.role not in [role.get("name") for role in token.get("roles", ())]:
        missing.append(f"assign the role {wanted.role} to {wanted.username}")
    endpoints = {
        (endpoint.get("region_id") or endpoint.get("region"), endpoint.get("interface")): endpoint.get("url")
        for service in token.get("catalog", ())
        if service.get("type") == "identity"
        for endpoint in service.get("endpoints", ())
    }
    for interface in INTERFACES:
        url, there = wanted.urls[interface], endpoints.get((wanted.region, interface))
        if there != url:
            missing.append(f"set the {interface} endpoint of {wanted.region} to {url}{f', was {there}' if there else ''}")
    return tuple(missing)
