# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an identity service lacks of what it is to be."""

from __future__ import annotations

import dataclasses
import typing as t

INTERFACES = ("public", "internal", "admin")


@dataclasses.dataclass(frozen=True)
class Identity:
    """What is wanted.

    :arg urls: interface → where the service is reached.
    """

    username: str
    project: str
    role: str
    region: str
    urls: t.Mapping[str, str]


def why_bootstrap(wanted: Identity, token: t.Mapping[str, t.Any] | None) -> tuple[str, ...]:
    """What a bootstrap would fix; empty when all is as wanted.

    :arg token: what the service told of the administrator's token, ``None`` when it gave none.
    """
    if token is None:
        return (f"let {wanted.username} log in",)
    missing = []
    if wanted.role not in [role.get("name") for role in token.get("roles", ())]:
        missing.append(f"give {wanted.username} the role {wanted.role}")
    endpoints = {
        (endpoint.get("region_id") or endpoint.get("region"), endpoint.get("interface")): endpoint.get("url")
        for service in token.get("catalog", ())
        if service.get("type") == "identity"
        for endpoint in service.get("endpoints", ())
    }
    for interface in INTERFACES:
        url, there = wanted.urls[interface], endpoints.get((wanted.region, interface))
        if there != url:
            missing.append(f"{interface} endpoint of {wanted.region}: {url}{f' instead of {there}' if there else ''}")
    return tuple(missing)
