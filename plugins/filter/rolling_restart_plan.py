# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: plan a restart or update of control plane members, one at a time."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: rolling_restart_plan
short_description: Plan a rolling restart or update of the control plane
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Combines the results of M(reduced.footprint.controlplane_info) on every host, and lists which members are to be restarted or
    updated, in which order, and the reasons against it.
  - All members must be healthy, and each service must keep its majority without one of them. Members currently used by clients come last.
  - An interrupted run is continued. Members that it restarted are recognised by the systemd invocation ID of their units.
positional: members, action, components
options:
  _input:
    description:
      - Each host of the control plane with RV(reduced.footprint.controlplane_info#module:controlplane), empty for a host that does not answer.
    type: dict
    required: true
  members:
    description: Each service with its hosts, as returned by P(reduced.footprint.controlplane_members#filter).
    type: dict
    required: true
  action:
    description: What to do with each member.
    type: str
    choices: [restart, update]
    required: true
  components:
    description: Services, as a list or separated by commas. Empty means all.
    type: raw
    default: []
  journal:
    description: The journal of an interrupted run, as JSON. Empty without one.
    type: str
    default: ""
  now:
    description: The current time, recorded in the journal.
    type: str
    default: ""
  accept_outage:
    description: Whether to accept that a service without a redundant member is interrupted.
    type: bool
    default: false
  forget:
    description: Whether to discard the journal of an interrupted run.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.set_fact:
    plan: "{{ {'c1': result1.controlplane, 'c2': {}} | reduced.footprint.rolling_restart_plan(members, 'restart', 'galera,rabbitmq') }}"
  vars:
    members: "{{ hostvars | reduced.footprint.controlplane_members(groups) }}"
"""

RETURN = r"""
_value:
  description:
    - The plan with V(ok), V(action), V(why) (the reasons against it), V(lines) (text for the console), V(steps) (each with C(component),
      C(host), C(begun), C(in_use)), V(done), V(journal) (to be kept until the run is complete) and V(sizes) (number of members of each service).
    - V(error) instead of most of them if the action or a component is unknown.
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError


def rolling_restart_plan(
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None],
    members: t.Mapping[str, t.Sequence[str]],
    action: str,
    components: t.Any = (),
    journal: str = "",
    now: str = "",
    accept_outage: bool = False,
    forget: bool = False,
) -> dict[str, t.Any]:
    """Return the plan as plain values; see :func:`plan`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_rolling import parse_request, plan
    from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import ROLLING_RESTART

    try:
        request = parse_request(action, components, accept_outage, forget)
        return plan(request, members, looks, ROLLING_RESTART.load(journal, "the file of the journal") if journal else None, now).as_dict()
    except (InputError, RefusedError) as error:
        return {"ok": False, "error": str(error), "why": [str(error)], "lines": [], "steps": []}
    except ValueError as error:
        raise AnsibleFilterError(f"rolling_restart_plan: cannot parse the journal: {error}. Remove the file set by rolling_restart_journal.") from None
    except (AttributeError, KeyError, TypeError) as error:
        raise AnsibleFilterError(f"rolling_restart_plan: expected results of controlplane_info: {error!r}") from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"rolling_restart_plan": rolling_restart_plan}
