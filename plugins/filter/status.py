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
  - Says what is down, how many database members are synced, who holds the virtual address, and what the loss of each
    server would cost.
positional: servers, controllers
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
"""

EXAMPLES = r"""
- name: Judge what was found
  ansible.builtin.debug:
    msg: "{{ hostvars | reduced.footprint.status(groups['virt'], groups['controller']) }}"
"""

RETURN = r"""
_value:
  description:
    - The report with V(ok), V(lines), V(ha_grade), V(ha), V(virtual_address_holder), V(database_members), V(servers)
      and V(vms).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._plan.status import build_status, read_results


def status(hostvars: t.Mapping[str, t.Any], servers: t.Sequence[str], controllers: t.Sequence[str]) -> dict[str, t.Any]:
    """The report on the named hosts; see :func:`build_status`."""
    try:
        return build_status(read_results(hostvars, servers, controllers))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"status: not what the status playbook registers: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Their names."""
        return {"status": status}
