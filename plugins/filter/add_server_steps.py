# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: list the moves of controllers in order."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: add_server_steps
short_description: List which controllers must be moved where, in order
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Creates the steps for adding a server from a placement plan and from what the servers report. An unfinished move comes first.
  - The server on which a VM runs is taken from the servers, not from the inventory.
positional: vms, moves, controllers, cluster, witnesses
options:
  _input:
    description: The result of M(reduced.footprint.footprint_plan). An empty one returns the current state only.
    type: dict
    required: true
  vms:
    description: Each physical server with RV(reduced.footprint.vm_info#module:vms).
    type: dict
    required: true
  moves:
    description: Each physical server with RV(reduced.footprint.vm_move_info#module:moves).
    type: dict
    required: true
  controllers:
    description: Each controller with its server in the inventory, empty for a controller that is a physical server.
    type: dict
    required: true
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  witnesses:
    description: Machines that vote and are not controllers; they count for the availability grades.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: List the moves
  ansible.builtin.set_fact:
    todo: "{{ plan | reduced.footprint.add_server_steps({'metal1': found.vms, 'metal2': []}, {'metal1': [], 'metal2': []}, controllers, 'lab') }}"
  vars:
    controllers: {c1: metal1, c2: metal1, c3: metal2}
"""

RETURN = r"""
_value:
  description:
    - V(steps), each with V(id), V(name), V(source), V(destination), V(reason) and V(begun) (the move is unfinished); V(others), moves
      of VMs that are not controllers; V(before) and V(after), the availability grades; V(places), the server of each controller;
      V(listed), controllers that the inventory lists under another server; V(why), the reasons against starting.
  type: dict
"""

from ansible.errors import AnsibleFilterError


def add_server_steps(
    plan: t.Mapping[str, t.Any],
    vms: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]],
    moves: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]],
    controllers: t.Mapping[str, str | None],
    cluster: str,
    witnesses: t.Sequence[str] = (),
) -> dict[str, t.Any]:
    """Return the steps as plain values; see :func:`steps`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_add_server import listed_elsewhere, steps

    try:
        todo = steps(plan, vms, moves, list(controllers), cluster, witnesses)
        return {**todo, "listed": listed_elsewhere(todo["places"], controllers)}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"add_server_steps: expected a plan and the results of vm_info and vm_move_info: {error!r}") from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"add_server_steps": add_server_steps}
