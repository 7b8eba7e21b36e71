# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: check the declared resources of a cloud, and list what has to be created and changed."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: cloud_plan
short_description: Check declared resources of a cloud and plan their creation
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Checks lists of projects, users, flavors, images, networks and so on against each other, against the compute servers and named networks of the
    footprint, and against the existing resources of the cloud. The first invalid value is an error with its path and a hint.
  - Returns what has to be created or changed. Nothing is ever removed.
positional: hostvars, computes, state, checksums
options:
  _input:
    description:
      - The lists of the playbook C(cloud_bootstrap) without their prefix, which are C(projects), C(roles), C(users), C(flavors), C(images),
        C(networks), C(routers), C(security_groups) and C(key_pairs).
    type: dict
    required: true
  hostvars:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
  computes:
    description: Names of the compute servers. Those without facts are left out of the checks.
    type: list
    elements: str
    default: []
  state:
    description:
      - The existing resources by kind, as C(openstack.cloud.resources) returns them. Without it only the lists themselves are checked, and
        nothing is planned.
    type: dict
  checksums:
    description: SHA-512 of image files by their path, which are compared with those of existing images.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Check the lists before the cloud is contacted
  ansible.builtin.debug:
    msg: "{{ {'flavors': [{'name': 'small', 'vcpus': 1, 'ram': 2}]} | reduced.footprint.cloud_plan(hostvars, groups['compute']) }}"
"""

RETURN = r"""
_value:
  description:
    - C(actions) is a mapping of lists in the order in which they are applied. Each action has C(name), C(change) (previous and new values) and the
      values of the resource. C(lines) lists the changes as text.
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError


def cloud_plan(
    lists: t.Mapping[str, t.Any],
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]],
    computes: t.Sequence[str] = (),
    state: t.Mapping[str, t.Any] | None = None,
    checksums: t.Mapping[str, str] | None = None,
) -> dict[str, t.Any]:
    """Return the actions; see :func:`plan_bootstrap.plan`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_resources, plan_bootstrap, plan_check, plan_site
    from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_state import State

    if not isinstance(lists, t.Mapping):
        raise AnsibleFilterError(f"cloud_plan: expected lists of resources by kind, got {lists!r}")
    try:
        declared = model_resources.parse(lists)
        existing = None if state is None else State(state)
        plan_check.check(declared, plan_site.site(hostvars, computes), existing)
        actions = {kind: [] for kind in plan_bootstrap.ORDER} if existing is None else plan_bootstrap.plan(declared, existing, checksums)
        return {"actions": actions, "lines": plan_bootstrap.lines(actions)}
    except FootprintError as error:
        raise AnsibleFilterError(str(error)) from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"cloud_plan: expected lists of resources by kind, and their state: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"cloud_plan": cloud_plan}
