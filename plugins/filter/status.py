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
  - Turns what was found on servers and controllers into one report.
  - Says what is down, how many database members are synced, who holds the virtual address, and what the loss of each
    server would cost.
options:
  _input:
    description:
      - A dictionary with V(servers), V(controllers), V(virtual_address) and V(migrations), as the status playbook
        gathers it.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Judge what was found
  ansible.builtin.debug:
    msg: "{{ found | reduced.footprint.status }}"
  vars:
    found:
      servers:
        metal1: {reachable: true, vms: [{name: controller1, state: running}]}
      controllers: {}
      migrations: []
"""

RETURN = r"""
_value:
  description:
    - The report with V(ok), V(lines), V(ha_grade), V(ha), V(virtual_address_holder), V(database_members), V(servers)
      and V(vms).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._plan.status import build_status


def status(found: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The report on ``found``; see :func:`build_status`."""
    try:
        return build_status(found)
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"status: not what the status playbook finds: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Their names."""
        return {"status": status}
