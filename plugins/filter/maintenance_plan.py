# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: plan the maintenance of a server."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: maintenance_plan
short_description: Plan the maintenance of servers
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Without O(server), returns the order in which servers are maintained; the one that an interrupted run left unfinished comes first.
  - With O(server), decides whether this server may be emptied now, and what happens to each of its VMs.
positional: known
options:
  _input:
    description: Each host of the control plane with RV(reduced.footprint.controlplane_info#module:controlplane), empty for a host that does not answer.
    type: dict
    required: true
  known:
    description: The virt hosts of the inventory.
    type: list
    elements: str
    required: true
  asked:
    description: The servers to maintain, a list or names separated by commas. Empty means all.
    type: raw
  server:
    description: The server to plan.
    type: str
    default: ""
  environments:
    description: The members of each environment of the inventory, as returned by P(reduced.footprint.controlplane_members#filter) with C(environments).
    type: dict
    default: {}
  vms:
    description: RV(reduced.footprint.vm_info#module:vms) of the server.
    type: list
    elements: dict
    default: []
  places:
    description: Each host with the server it runs on, empty for a host that is a server itself.
    type: dict
    default: {}
  details:
    description: Without O(server), the VM details of each server, with which the IDs in O(destinations) are checked.
    type: list
    elements: raw
    default: []
  names:
    description: Names of further VMs.
    type: list
    elements: str
    default: []
  destinations:
    description: IDs of VMs with the server they are moved to meanwhile. All others are shut down, and started again.
    type: dict
    default: {}
  restart_elsewhere:
    description: Whether a VM that cannot be moved live may be restarted at its destination.
    type: bool
    default: false
  accept_outage:
    description: Whether a service may lose its majority meanwhile.
    type: bool
    default: false
  control_macs:
    description: The MACs of the control node. A VM with one of them runs the playbook and is not shut down.
    type: list
    elements: str
    default: []
  journal:
    description: Text of the journal of an interrupted run.
    type: str
    default: ""
  instances:
    description: Result of M(reduced.footprint.compute_instances) for the server in check mode, as registered; empty for other servers.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Decide whether a server may be emptied
  ansible.builtin.set_fact:
    plan: "{{ looks | reduced.footprint.maintenance_plan(groups.virt, server='metal1', environments=environments, vms=result.vms, places={'c1': 'metal1'}) }}"
"""

RETURN = r"""
_value:
  description:
    - Without O(server), V(servers), V(done) (what an interrupted run has completed), V(switched_off) (the server that it may have left switched off),
      V(instances) (its record of the instances of each server) and V(error).
    - With it V(ok), V(why) (the reasons against it), V(lines) (text), V(steps) (C(name), C(action), C(destination), C(id) and C(cluster) of each VM),
      V(begun) and V(stage) of an interrupted run, V(members) on this server, and V(journal), to be kept until the run is complete.
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError


def maintenance_plan(
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None],
    known: t.Sequence[str],
    asked: t.Any = (),
    server: str = "",
    environments: t.Mapping[str, t.Mapping[str, t.Sequence[str]]] | None = None,
    vms: t.Sequence[t.Mapping[str, t.Any]] = (),
    places: t.Mapping[str, str] | None = None,
    destinations: t.Mapping[str, str] | None = None,
    restart_elsewhere: bool = False,
    accept_outage: bool = False,
    journal: str = "",
    details: t.Sequence[t.Any] = (),
    names: t.Sequence[str] = (),
    control_macs: t.Sequence[str] = (),
    instances: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """Return the order of servers, or the plan of one; see :mod:`plan_maintenance`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_maintenance
    from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import MAINTENANCE

    try:
        kept = MAINTENANCE.load(journal, "the file of the journal") if journal else None
        if not server:
            chosen = [name.strip() for name in asked.split(",") if name.strip()] if isinstance(asked, str) else [str(name) for name in asked or ()]
            plan_maintenance.check_destinations(destinations or {}, known, details, names)
            servers = plan_maintenance.order_servers(chosen, known, kept)
            begun = {kept["server"]: kept.get("instances") or {}} if kept and kept.get("server") else {}
            done, off = list((kept or {}).get("done") or ()), plan_maintenance.switched_off(kept)
            return {"servers": servers, "done": done, "switched_off": off, "instances": begun}
        policy = plan_maintenance.Policy(destinations or {}, restart_elsewhere, accept_outage, control_macs)
        found = plan_maintenance.plan(server, vms, environments or {}, looks, places or {}, policy, kept, instances)
        return {**found, "journal": MAINTENANCE.mark(found["journal"])}
    except (InputError, RefusedError) as error:
        return {"error": str(error), "servers": [], "ok": False, "why": [str(error)], "lines": [], "steps": []}
    except ValueError as error:
        raise AnsibleFilterError(f"maintenance_plan: cannot parse the journal: {error}. Remove the file set by maintain_virt_node_journal.") from None
    except (AttributeError, KeyError, TypeError) as error:
        raise AnsibleFilterError(f"maintenance_plan: expected results of controlplane_info and vm_info: {error!r}") from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"maintenance_plan": maintenance_plan}
