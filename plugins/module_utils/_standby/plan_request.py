# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VMs of a server that are copied to another one, from their details."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import check_id
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_standby import SPACE_FACTOR, servers_error
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms


def standbys_of(vms: t.Any, server: str, servers: t.Mapping[str, t.Collection[str]], cluster: str, name: str = "vms") -> list[dict[str, t.Any]]:
    """Return one entry for each VM with a standby.

    :arg servers: server → roles, of all servers.
    :raises InputError: with the path of the invalid value.
    """
    found = []
    for vm in parse_vms(vms, f"{server}.{name}", cluster=cluster):
        standby = vm.standby
        if standby is None:
            continue
        check_id(vm.id, f"{vm.path}.id")
        error = servers_error(standby, server, servers, f"{vm.path}.standby")
        if error is not None:
            raise error
        found.append(
            {
                "id": vm.id,
                "name": vm.name,
                **standby._asdict(),
                "path": f"{vm.path}.standby",
                "needed_bytes": SPACE_FACTOR * sum(disk.size or 0 for disk in vm.disks),
            }
        )
    return found
