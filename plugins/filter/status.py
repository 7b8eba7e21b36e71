# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: build the status report of a footprint from the results of its hosts."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: status
short_description: Build the status report of a footprint
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Combines results of modules on servers and controllers into one report.
  - Reports what is down, how many members of each service are healthy, the holders of the virtual addresses, the database member that
    is written to, and the effect of the loss of each server.
positional: members
options:
  _input:
    description:
      - Each host of the control plane with the result of M(reduced.footprint.controlplane_info), empty for a host that was not reached.
    type: dict
    required: true
  members:
    description: Each service with its hosts, as returned by P(reduced.footprint.controlplane_members#filter).
    type: dict
    required: true
  vms:
    description: Each physical server with the result of M(reduced.footprint.vm_info), empty for a server that was not reached.
    type: dict
    default: {}
  migrations:
    description: The migrations returned by M(reduced.footprint.master_migrate_info) on all servers.
    type: list
    elements: dict
    default: []
  vm_hosts:
    description: Each host with its server in the inventory, empty for a host that is a server itself. The results in O(vms) take precedence.
    type: dict
    default: {}
  standbys:
    description: Each physical server with the result of M(reduced.footprint.vm_standby_info), empty for a server that was not reached.
    type: dict
    default: {}
  clocks:
    description: Hosts with RV(reduced.footprint.clock_info#module:clock), empty for a host that was not measured.
    type: dict
    default: {}
  clock_limit:
    description: Seconds by which clocks may differ.
    type: float
    default: 2.0
"""

EXAMPLES = r"""
- name: Show the status report
  ansible.builtin.debug:
    msg: "{{ {'c1': result1, 'c2': {}} | reduced.footprint.status(members, vms={'metal1': vms1}, vm_hosts={'c1': 'metal1', 'c2': 'metal1'}) }}"
  vars:
    members: "{{ hostvars | reduced.footprint.controlplane_members(groups) }}"
"""

RETURN = r"""
_value:
  description:
    - The report with V(ok), V(state), V(lines), V(table), V(services), V(links), V(ha_grade), V(ha_grade_now), V(ha), V(virtual_address_holder),
      V(writer), V(database_members), V(servers), V(vms), V(standbys), V(clocks) and V(placement).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_clock import LIMIT, compare_clocks


def status(
    looks: t.Mapping[str, t.Mapping[str, t.Any]],
    members: t.Mapping[str, t.Sequence[str]],
    vms: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
    migrations: t.Sequence[t.Mapping[str, t.Any]] = (),
    vm_hosts: t.Mapping[str, str] | None = None,
    standbys: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
    clocks: t.Mapping[str, t.Mapping[str, t.Any] | None] | None = None,
    clock_limit: float = LIMIT,
) -> dict[str, t.Any]:
    """Return the report on all hosts; see :func:`build_status`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status import build_status, read_results

    try:
        found = read_results(members, looks, vms or {}, migrations, vm_hosts or {}, standbys or {})
        return build_status({**found, "clocks": compare_clocks(clocks or {}, float(clock_limit))})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"status: expected results of controlplane_info, vm_info and master_migrate_info: {error!r}") from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"status": status}
