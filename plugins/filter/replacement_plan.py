# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: plan the replacement of a controller."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: replacement_plan
short_description: Plan the replacement of a controller
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Without O(found), checks the names of the request.
  - With O(found), decides whether the VM of a controller may be created again now, on which server, and on which servers the old one must be taken
    away first.
positional: members, places
options:
  _input:
    description: >-
      The request with C(name), C(server), C(stop), C(confirm) and C(again), as the variables of the playbook C(replace_controller), and C(id) of its
      VM if that is not its name.
    type: dict
    required: true
  members:
    description: Each service with its hosts, as returned by P(reduced.footprint.controlplane_members#filter).
    type: dict
    required: true
  places:
    description: Each controller with its server, empty for one that is a server itself.
    type: dict
    required: true
  servers:
    description: The virt hosts of the inventory.
    type: list
    elements: str
    default: []
  looks:
    description: Each host of the control plane with RV(reduced.footprint.controlplane_info#module:controlplane), empty for a host that does not answer.
    type: dict
    default: {}
  found:
    description:
      - Each virt host with C(vms), RV(reduced.footprint.vm_info#module:vms), and C(records),
        RV(reduced.footprint.vm_replacement_info#module:replacements), empty for a server that does not answer.
    type: dict
  answering:
    description: Hosts whose ssh port answers although Ansible cannot use them.
    type: list
    elements: str
    default: []
  now:
    description: Time of a new replacement (UTC).
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Decide whether a controller may be replaced
  ansible.builtin.set_fact:
    plan: >-
      {{ {'name': 'controller1'} | reduced.footprint.replacement_plan(members, {'controller1': 'metal1'}, servers=groups.virt, looks=looks,
         found={'metal1': {'vms': [], 'records': []}}, now='20261125T190000Z') }}
"""

RETURN = r"""
_value:
  description:
    - V(ok), V(why) (the reasons against it) and V(lines) (text).
    - With O(found) also V(action) (V(none), V(clean) or V(replace)), V(source) and V(destination), V(at) (identifies the replacement), V(retire) (servers on
      which the old VM is taken away), V(peer) (member of RabbitMQ that forgets the old one) and V(absent) (server with an old VM that does not answer).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError


def replacement_plan(
    wanted: t.Mapping[str, t.Any],
    members: t.Mapping[str, t.Sequence[str]],
    places: t.Mapping[str, str],
    servers: t.Sequence[str] = (),
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None] | None = None,
    found: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
    answering: t.Sequence[str] = (),
    now: str = "",
) -> dict[str, t.Any]:
    """Return the plan of a replacement; see :mod:`plan_replacement`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_replacement

    try:
        request = plan_replacement.Request(
            *(str(wanted.get(key) or "") for key in ("name", "server")), bool(wanted.get("stop")), str(wanted.get("confirm") or ""), bool(wanted.get("again")),
            str(wanted.get("id") or ""),
        )  # fmt: skip
        known = plan_replacement.Known(members, places, servers, members.get("witness", ()))
        try:
            plan_replacement.check_request(request, known)
        except InputError as error:
            return {"ok": False, "why": [str(error)], "lines": [], "action": plan_replacement.NONE}
        if found is None:
            return {"ok": True, "why": [], "lines": [], "action": plan_replacement.NONE}
        return plan_replacement.plan(request, known, plan_replacement.Found(looks or {}, found, answering), now).as_dict()
    except (AttributeError, KeyError, TypeError) as error:
        raise AnsibleFilterError(f"replacement_plan: expected results of controlplane_info, vm_info and vm_replacement_info: {error!r}") from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"replacement_plan": replacement_plan}
