# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: whether a controller may be moved now."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: add_server_gate
short_description: Judge whether the control plane may be touched now
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Puts together what M(reduced.footprint.grow_info) found on every controller. All must be well, in one cluster of the right
    size, and exactly one must hold the virtual address.
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
    description: Controllers that are under way. They may be there or not, and the others must do without them.
    type: list
    elements: str
    default: []
  cluster_uuid:
    description: The cluster all must belong to. Without it the one they agree on.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Judge
  ansible.builtin.set_fact:
    gate: "{{ looks.results | reduced.footprint.add_server_gate('192.0.2.20') }}"
"""

RETURN = r"""
_value:
  description:
    - The judgement with V(ok), V(why) (what speaks against it), V(holder) of the virtual address, V(writers) (members which
      clients of a service are sent to alone), V(uuid), V(position) and V(size) of the cluster.
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_add_server import judge


def add_server_gate(
    looks: t.Sequence[t.Mapping[str, t.Any]], virtual_address: str = "", absent: t.Sequence[str] = (), cluster_uuid: str = ""
) -> dict[str, t.Any]:
    """The judgement as plain values; see :func:`judge`."""
    try:
        seen = {str(look["item"]): look.get("controller") for look in looks}
        return judge(seen, virtual_address or None, absent, cluster_uuid or None).as_dict()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"add_server_gate: not results of grow_info: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Their names."""
        return {"add_server_gate": add_server_gate}
