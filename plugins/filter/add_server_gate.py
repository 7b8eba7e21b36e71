# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: check whether a controller may be moved now."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: add_server_gate
short_description: Check whether a controller may be moved now
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Combines the results of M(reduced.footprint.grow_info) on every controller. All controllers must be healthy and in one cluster of the
    expected size, and exactly one must hold the virtual address.
positional: virtual_address, absent, cluster_uuid
options:
  _input:
    description: The results of M(reduced.footprint.grow_info) in a loop over the names of all controllers.
    type: list
    elements: dict
    required: true
  virtual_address:
    description: The virtual address of the controllers, empty without one.
    type: str
    default: ""
  absent:
    description: Controllers that are being moved. They may be missing, and the others must be healthy without them.
    type: list
    elements: str
    default: []
  cluster_uuid:
    description: UUID of the cluster to which all must belong. Without it they must all belong to the same one.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Check whether a controller may be moved
  ansible.builtin.set_fact:
    gate: "{{ controllers.results | reduced.footprint.add_server_gate('192.0.2.20') }}"
"""

RETURN = r"""
_value:
  description:
    - The result with V(ok), V(why) (the reasons against it), V(holder) of the virtual address, V(writers) (members that are the
      only one to which clients of a service are sent), V(uuid), V(position) and V(size) of the cluster.
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_add_server import evaluate


def add_server_gate(
    results: t.Sequence[t.Mapping[str, t.Any]], virtual_address: str = "", absent: t.Sequence[str] = (), cluster_uuid: str = ""
) -> dict[str, t.Any]:
    """Return the result as plain values; see :func:`evaluate`."""
    try:
        found = {str(result["item"]): result.get("controller") for result in results}
        return evaluate(found, virtual_address or None, absent, cluster_uuid or None).as_dict()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"add_server_gate: expected results of grow_info: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"add_server_gate": add_server_gate}
