# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the state of a footprint from what was found on its hosts."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: status
short_description: Judge the state of a footprint
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Turns what the status playbook registered on servers and controllers into one report.
  - Says what is down, how many members of each service are well, who holds the virtual addresses, who is written to, and what
    the loss of each server would cost.
positional: servers, controllers, groups
options:
  _input:
    description:
      - The variables of all hosts, C(hostvars), with the results which the status playbook registered.
    type: dict
    required: true
  servers:
    description:
      - Names of the physical servers that carry virtual machines.
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
      - The groups of the inventory, C(groups), which tell the members of each service. Without it the controllers carry all.
    type: dict
"""

EXAMPLES = r"""
- name: Judge what was found
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
    """The report on the named hosts; see :func:`build_status`."""
    try:
        return build_status(read_results(hostvars, servers, controllers, groups))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"status: not what the status playbook registers: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Their names."""
        return {"status": status}
