# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: plan the replacement of a server."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: server_replacement_plan
short_description: Plan the replacement of a server
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Without O(found), checks the names of the request.
  - With O(found), decides whether another machine may take over the name of a server now, and what becomes of each VM that the server had.
positional: known
options:
  _input:
    description: The request with C(name), C(confirm), C(bmc) and C(recreate), as the variables of the playbook C(replace_server).
    type: dict
    required: true
  known:
    description:
      - What the inventory contains, C(environments) (as returned by P(reduced.footprint.controlplane_members#filter) with C(environments)),
        C(places) (each controller with its server), C(servers) (each virt host with its address), C(hosts) (all hosts), C(vms) and C(extra) (the VM
        details of the server, and those in C(standby_extra)), C(cluster) and C(master) (name of the master, if the server is the destination of its
        migration).
    type: dict
    required: true
  looks:
    description: Each host of the control plane with RV(reduced.footprint.controlplane_info#module:controlplane), empty for a host that does not answer.
    type: dict
    default: {}
  found:
    description:
      - Each virt host with C(vms), RV(reduced.footprint.vm_info#module:vms), C(standbys), RV(reduced.footprint.vm_standby_info#module:standbys), and
        C(identity), RV(reduced.footprint.server_identity_info#module:identity); empty for a server that does not answer.
    type: dict
  errors:
    description: The reason for each virt host that could not be read.
    type: dict
    default: {}
  answering:
    description: Addresses of earlier machines at which something answers.
    type: list
    elements: str
    default: []
  power:
    description: State that the management controller of C(bmc) reports, or its error.
    type: str
    default: ""
  power_uuid:
    description: UUID of the machine that it manages, empty if unknown.
    type: str
    default: ""
  now:
    description: Time of a new replacement (UTC).
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Check the names
  ansible.builtin.assert:
    that: plan.ok
    fail_msg: "{{ plan.why | join('; ') }}"
  vars:
    plan: "{{ {'name': 'metal2'} | reduced.footprint.server_replacement_plan({'servers': {'metal2': '192.0.2.12'}}) }}"
"""

RETURN = r"""
_value:
  description:
    - V(ok), V(why) (the reasons against it) and V(lines) (text).
    - V(action) (V(none) or V(replace)), V(at) (time of the replacement), V(proof) (that the earlier machine is off) and V(ways).
    - V(ways) has one entry for each VM, with V(id), V(name), V(way), V(text), V(server) and V(copy). V(way) is V(controller), V(standby), V(return),
      V(recreate), V(elsewhere) or V(lost).
    - With O(found) also V(name), V(gone) (IDs of the VMs that are not on the new machine afterwards), V(machine) (the one that has the name now) and
      V(addresses) (of earlier machines).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError


def server_replacement_plan(
    wanted: t.Mapping[str, t.Any],
    known: t.Mapping[str, t.Any],
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None] | None = None,
    found: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
    answering: t.Sequence[str] = (),
    power: str = "",
    now: str = "",
    errors: t.Mapping[str, str] | None = None,
    power_uuid: str = "",
) -> dict[str, t.Any]:
    """Return the plan of a replacement; see :mod:`plan_server_replacement`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import model_server_replacement, plan_server_replacement

    try:
        request = model_server_replacement.Request(
            *(str(wanted.get(key) or "").strip() for key in ("name", "confirm", "bmc")), [str(one) for one in wanted.get("recreate") or ()]
        )
        inventory = model_server_replacement.Known(
            known.get("environments") or {},
            known.get("places") or {},
            known["servers"],
            known.get("hosts") or (),
            known.get("vms"),
            known.get("extra"),
            str(known.get("cluster") or "default"),
            str(known.get("master") or ""),
        )
        if found is None:
            plan_server_replacement.check_request(request, inventory)
            return model_server_replacement.Plan(model_server_replacement.NONE).as_dict()
        machine = ((found.get(request.name) or {}).get("identity") or {}).get("here") or {}
        seen = model_server_replacement.Found(looks or {}, found, machine, answering, power, errors or {}, power_uuid)
        result = plan_server_replacement.plan(request, inventory, seen, now).as_dict()
        more = {
            "name": request.name,
            "gone": plan_server_replacement.gone(request, result["ways"]),
            "machine": machine,
            "addresses": plan_server_replacement.old_addresses(request, inventory, seen),
        }
        return {**result, **more}
    except InputError as error:
        return model_server_replacement.Plan(model_server_replacement.NONE, (str(error),)).as_dict()
    except (AttributeError, KeyError, TypeError) as error:
        raise AnsibleFilterError(
            f"server_replacement_plan: expected the inventory, and results of controlplane_info, vm_info, vm_standby_info and server_identity_info: {error!r}"
        ) from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"server_replacement_plan": server_replacement_plan}
