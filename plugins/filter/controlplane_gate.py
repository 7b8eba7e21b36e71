# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: check whether a member of the control plane may be changed now."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: controlplane_gate
short_description: Check whether a member of the control plane may be changed now
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Combines the results of M(reduced.footprint.controlplane_info) on every host, and lists the reasons against changing a member. There are
    none if all members of the services and of the load balancer are healthy, in one cluster, and each virtual address is on one host.
positional: members, services, skipped
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
  services:
    description: The services to check, in addition to the load balancer. Empty means all.
    type: list
    elements: str
    default: []
  skipped:
    description: Hosts on which these services may be unhealthy, for example because they are being moved.
    type: list
    elements: str
    default: []
  wanted:
    description:
      - Conditions beyond health. The keys are the options C(sizes), C(cluster_uuid), C(position) and C(frontends) of
        M(reduced.footprint.controlplane_info).
    type: dict
    default: {}
  spare:
    description: Whether each of the services must keep serving without one more member.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Gather the state of every member
  reduced.footprint.controlplane_info:
  delegate_to: "{{ item }}"
  loop: [c1, c2, c3]
  register: found

- name: Continue only if all members of the database are healthy
  ansible.builtin.assert:
    that: (looks | reduced.footprint.controlplane_gate(members, ['galera'])).ok
  vars:
    looks: "{{ dict(found.results | map(attribute='item') | zip(found.results | map(attribute='controlplane', default={}))) }}"
    members: "{{ hostvars | reduced.footprint.controlplane_members(groups) }}"
"""

RETURN = r"""
_value:
  description:
    - The result with V(ok), V(why) (the reasons against it), V(sizes) (service to the number of its members), V(writers) (frontend to the only
      member to which its clients are sent), V(holders) (virtual address to its holder), V(ports) (virtual address to the ports served
      there), V(cluster_uuid) of the database and V(position), the highest one of its members.
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError


def controlplane_gate(
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None],
    members: t.Mapping[str, t.Sequence[str]],
    services: t.Sequence[str] = (),
    skipped: t.Sequence[str] = (),
    wanted: t.Mapping[str, t.Any] | None = None,
    spare: bool = False,
) -> dict[str, t.Any]:
    """Return the result as plain values; see :func:`check_gate`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_gate import check_gate
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_health import parse_wanted

    try:
        return check_gate(members, looks, services, skipped, parse_wanted(wanted or {}), spare).as_dict()
    except InputError as error:
        raise AnsibleFilterError(f"controlplane_gate: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"controlplane_gate: expected results of controlplane_info: {error!r}") from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"controlplane_gate": controlplane_gate}
