# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: build the status report of a footprint from the results of its hosts."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: status
short_description: Build the status report of a footprint
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Combines the results that the status playbook registered on servers and controllers into one report.
  - Reports what is down, how many members of each service are healthy, the holders of the virtual addresses, the database member that
    is written to, and the effect of the loss of each server.
positional: servers, controllers, groups
options:
  _input:
    description:
      - The variables of all hosts, C(hostvars), with the results which the status playbook registered.
    type: dict
    required: true
  servers:
    description:
      - Names of the physical servers that run virtual machines.
    type: list
    elements: str
    required: true
  controllers:
    description:
      - Names of the controllers.
    type: list
    elements: str
    required: true
  groups:
    description:
      - The groups of the inventory, C(groups), which determine the members of each service. Without it every service runs on the controllers.
    type: dict
"""

EXAMPLES = r"""
- name: Show the status report
  ansible.builtin.debug:
    msg: "{{ hostvars | reduced.footprint.status(groups['virt'], groups['controller'], groups) }}"
"""

RETURN = r"""
_value:
  description:
    - The report with V(ok), V(state), V(lines), V(table), V(services), V(links), V(ha_grade), V(ha), V(virtual_address_holder),
      V(writer), V(database_members), V(servers) and V(vms).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status import build_status, read_results


def status(
    hostvars: t.Mapping[str, t.Any], servers: t.Sequence[str], controllers: t.Sequence[str], groups: t.Mapping[str, t.Sequence[str]] | None = None
) -> dict[str, t.Any]:
    """Return the report on the named hosts; see :func:`build_status`."""
    try:
        return build_status(read_results(hostvars, servers, controllers, groups))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"status: expected the results registered by the playbook status: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"status": status}
