# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: which members of the control plane are taken one at a time, and whether that may be begun."""

from __future__ import annotations

import json
import typing as t

DOCUMENTATION = r"""
name: rolling_restart_plan
short_description: Plan a rolling change of the control plane
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Puts together what M(reduced.footprint.controlplane_info) found on every host, and says which members are to be restarted or
    updated, in which order, and what speaks against it.
  - All members must be well, and a service must be able to do without one. Members that clients use right now come last.
  - A run that was broken off is gone on with. What it has restarted is told by systemd's number of each start.
positional: groups, action, components
options:
  _input:
    description: The variables of all hosts, C(hostvars), with what the playbook registered as C(rolling_restart_look).
    type: dict
    required: true
  groups:
    description: The groups of the inventory, C(groups).
    type: dict
    required: true
  action:
    description: What is to be done.
    type: str
    choices: [restart, update]
    required: true
  components:
    description: Services, as a list or with commas between. None means all.
    type: raw
    default: []
  journal:
    description: What a run that was broken off has left, as JSON. Empty without one.
    type: str
    default: ""
  now:
    description: The time, kept for whoever goes on.
    type: str
    default: ""
  accept_outage:
    description: Whether a service may stand still that has nobody to spare.
    type: bool
    default: false
  forget:
    description: Whether what was not finished is given up.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.set_fact:
    plan: "{{ hostvars | reduced.footprint.rolling_restart_plan(groups, 'restart', 'galera,rabbitmq') }}"
"""

RETURN = r"""
_value:
  description:
    - The plan with V(ok), V(action), V(why) (what speaks against it), V(lines) (for people), V(steps) (each with C(component), C(host), C(begun),
      C(in_use)), V(done), V(journal) (to be kept until the end) and V(sizes) (members of each service).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_controlplane import members_of
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_rolling import looks_of, parse_request, plan
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError


def rolling_restart_plan(
    hostvars: t.Mapping[str, t.Any],
    groups: t.Mapping[str, t.Sequence[str]],
    action: str,
    components: t.Any = (),
    journal: str = "",
    now: str = "",
    accept_outage: bool = False,
    forget: bool = False,
) -> dict[str, t.Any]:
    """The plan as plain values; see :func:`plan`."""
    try:
        request = parse_request(action, components, accept_outage, forget)
        members = members_of(groups, hostvars)
        return plan(request, members, looks_of(hostvars, members), json.loads(journal) if journal else None, now).as_dict()
    except InputError as error:
        raise AnsibleFilterError(str(error)) from error
    except ValueError as error:
        raise AnsibleFilterError(f"rolling_restart_plan: the journal cannot be read: {error}. Remove the file rolling_restart_journal names.") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise AnsibleFilterError(f"rolling_restart_plan: not what the playbook rolling_restart registers: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Their names."""
        return {"rolling_restart_plan": rolling_restart_plan}
