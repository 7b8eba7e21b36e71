# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the catalog and the account of a service with the requested ones. No I/O."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class ServiceAccount:
    """The requested account of a service and its entries in the catalog.

    :arg urls: interface → URL.
    :arg type: type of the service in the catalog; empty for an account without entries.
    """

    name: str
    type: str
    description: str
    region: str
    urls: t.Mapping[str, str]
    project: str
    roles: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class CatalogSeen:
    """What exists; ``None`` for what does not.

    :arg roles: role → its ID.
    :arg assigned: IDs of the roles that the account has in its project.
    :arg login: whether it can log in with the requested password.
    :arg service: the entry of the catalog with this type.
    :arg endpoints: those of that entry.
    """

    project: str | None = None
    user: str | None = None
    login: bool = False
    roles: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    assigned: frozenset[str] = frozenset()
    service: t.Mapping[str, t.Any] | None = None
    endpoints: t.Sequence[t.Mapping[str, t.Any]] = ()


class Step(t.NamedTuple):
    """A change: its kind, the object it concerns, and its description."""

    kind: str
    what: str
    text: str


def steps(wanted: ServiceAccount, seen: CatalogSeen) -> list[Step]:
    """Return the changes, in their order; empty if nothing differs."""
    found = []
    if seen.project is None:
        found.append(Step("project", wanted.project, f"create the project {wanted.project}"))
    if seen.user is None:
        found.append(Step("user", wanted.name, f"create the account {wanted.name}"))
    for role in wanted.roles:
        if role not in seen.roles:
            found.append(Step("role", role, f"create the role {role}"))
        if seen.roles.get(role) not in seen.assigned:
            found.append(Step("assign", role, f"assign the role {role} to {wanted.name} in {wanted.project}"))
    if seen.user is not None and not seen.login and not found:
        found.append(Step("password", wanted.name, f"set the password of {wanted.name}"))
    if not wanted.type:
        return found
    if seen.service is None:
        found.append(Step("service", wanted.type, f"create the service {wanted.name} of type {wanted.type}"))
    elif (seen.service.get("name"), seen.service.get("description", ""), seen.service.get("enabled", True)) != (wanted.name, wanted.description, True):
        found.append(Step("rename", wanted.type, f"change the name and description of the service of type {wanted.type}"))
    there = {(one.get("region_id") or one.get("region"), one.get("interface")): one.get("url") for one in seen.endpoints if one.get("enabled", True)}
    for interface, url in wanted.urls.items():
        old = there.get((wanted.region, interface))
        if old != url:
            text = f"set the {interface} endpoint of {wanted.name} in {wanted.region} to {url}{f', was {old}' if old else ''}"
            found.append(Step("endpoint", interface, text))
    return found
