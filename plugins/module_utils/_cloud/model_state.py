# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What exists: the compute servers and networks of the footprint, and the resources of the cloud as openstacksdk returns them."""

from __future__ import annotations

import collections
import ipaddress
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_networks import Network, Prefix

Resource = t.Mapping[str, t.Any]


class Server(t.NamedTuple):
    """A compute server: what a tenant's server can have at most."""

    name: str
    architecture: str
    cores: int
    memory_mib: int
    disk_gib: int
    firmware: tuple[str, ...] = ("bios",)


class Site(t.NamedTuple):
    """The footprint: compute servers, named networks, physical networks of the bridges, addresses in use by their host, backends of volumes."""

    servers: tuple[Server, ...] = ()
    networks: t.Mapping[str, Network] = {}
    physical_networks: tuple[str, ...] = ("provider",)
    addresses: t.Mapping[str, str] = {}
    backends: tuple[str, ...] = ()


class State:
    """The resources of the cloud, by kind: lists as :mod:`openstack` returns them.

    Kinds are ``projects``, ``roles``, ``users``, ``role_assignments``, ``flavors``, ``images``, ``networks``, ``subnets``, ``routers``, ``ports``,
    ``security_groups``, ``floating_ips``, ``servers``, ``volume_types`` and ``key_pairs``, each a pair of a task result with the user as ``item`` and
    the key pair.
    """

    def __init__(self, found: t.Mapping[str, t.Sequence[Resource]], admin_project: str = "admin") -> None:
        self._found = found
        self._admin_project = admin_project

    def all(self, kind: str) -> t.Sequence[Resource]:
        """Return all resources of a kind."""
        return self._found.get(kind) or ()

    def key_pairs(self) -> list[tuple[str, Resource]]:
        """Return each key pair with its user, which is empty for the administrator."""
        pairs: t.Any = self.all("key_pairs")
        return [(str(result.get("item") or ""), key) for result, key in pairs]

    def names(self, kind: str) -> set[str]:
        """Return the names of all resources of a kind."""
        return {str(one.get("name")) for one in self.all(kind)}

    def by_name(self, kind: str, name: str) -> Resource | None:
        """Return the resource of a name, ``None`` if there is none."""
        return next((one for one in self.all(kind) if one.get("name") == name), None)

    def project_id(self, name: str) -> str | None:
        """Return the ID of a project; an empty name is that of the administrator."""
        found = self.by_name("projects", name or self._admin_project)
        return found and str(found["id"])

    def of_project(self, kind: str, project: str) -> list[Resource]:
        """Return the resources of a project."""
        wanted = self.project_id(project)
        return [one for one in self.all(kind) if wanted and _owner(one) == wanted]

    def in_project(self, kind: str, project: str) -> set[str]:
        """Return the names of the resources of a project."""
        return {str(one.get("name")) for one in self.of_project(kind, project)}

    def find(self, kind: str, name: str, project: str) -> Resource | None:
        """Return the resource of a name in a project."""
        return next((one for one in self.of_project(kind, project) if one.get("name") == name), None)

    def provider_networks(self) -> list[tuple[str, str, str, int]]:
        """Return name, type, physical network and VLAN of the networks on physical networks."""
        return [
            (str(one["name"]), str(one.get("provider_network_type")), str(one["provider_physical_network"]), int(one.get("provider_segmentation_id") or 0))
            for one in self.all("networks")
            if one.get("provider_physical_network")
        ]

    def external_networks(self) -> set[str]:
        """Return the names of the external networks."""
        return {str(one["name"]) for one in self.all("networks") if one.get("is_router_external")}

    def provider_subnets(self, without: t.Collection[str]) -> list[tuple[Prefix, str]]:
        """Return the subnets of provider networks, except those of the networks ``without``."""
        nets = {one["id"]: one["name"] for one in self.all("networks") if one.get("provider_physical_network") and one["name"] not in without}
        return [(ipaddress.ip_network(str(one["cidr"])), str(nets[one["network_id"]])) for one in self.all("subnets") if one.get("network_id") in nets]

    def usage(self, project: str) -> dict[str, int]:
        """Return what a project uses of each quota."""
        used: collections.Counter[str] = collections.Counter()
        for server in self.of_project("servers", project):
            flavor = server.get("flavor") or {}
            used.update(instances=1, cores=int(flavor.get("vcpus") or 0), ram=int(flavor.get("ram") or 0))
        for kind in ("networks", "subnets", "routers", "ports", "security_groups", "floating_ips"):
            used[kind] = len(self.of_project(kind, project))
        used["security_group_rules"] = sum(len(group.get("security_group_rules") or ()) for group in self.of_project("security_groups", project))
        return dict(used)


def _owner(resource: Resource) -> str:
    return str(resource.get("project_id") or resource.get("tenant_id") or resource.get("owner_id") or resource.get("owner") or "")
