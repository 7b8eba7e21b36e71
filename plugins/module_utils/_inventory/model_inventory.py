# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers and VMs of an inventory."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails

VIRT_ROLE = "virt"
CONTROLLER_ROLE = "controller"


class Layer(t.NamedTuple):
    """VM details, or defaults of them, and where they are written."""

    path: str
    values: t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Server:
    """A physical server of the inventory.

    :arg variables: its host variables, without ``vms`` and roles.
    :arg path: its path in the user's input, for messages.
    :arg defaults: of its VMs, then those of the cluster; ``None`` for a server of another source, whose VM details are complete.
    :arg place: the address at which Ansible reaches it, with a port if that is set; empty if its variables do not show it.
    """

    name: str
    roles: tuple[str, ...]
    vms: t.Any
    variables: t.Mapping[str, t.Any]
    path: str
    place: str = ""
    defaults: tuple[Layer, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Machine:
    """A VM and its server."""

    vm: VmDetails
    server: Server


@dataclasses.dataclass(frozen=True)
class Inventory:
    """The servers and VMs of a cluster, checked for duplicates."""

    cluster: str
    servers: tuple[Server, ...]
    machines: tuple[Machine, ...]
