# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: list the members of each service of the control plane."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: controlplane_members
short_description: List the members of each service of the control plane
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Uses the same rule as the roles. The members of a service are the hosts of the group named by its variable, for example
    C(galera_group), else of the group with the name of the service, else of the group C(controller).
  - Does not check whether the service is installed on these hosts.
positional: groups, hosts
options:
  _input:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
  groups:
    description: The groups of the inventory, C(groups).
    type: dict
    required: true
  hosts:
    description:
      - The hosts that ask, for example C([inventory_hostname]) or C(ansible_play_hosts_all). If they have a C(footprint_environment), variables of hosts of
        other environments do not count; hosts of several environments are an error. By default the variables of all hosts count.
    type: list
    elements: str
    default: []
  environments:
    description:
      - Return the members for each C(footprint_environment) of the inventory, whose name is empty if no host has one. Use it for what concerns servers,
        which may have members of several environments.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show the members of the database
  ansible.builtin.debug:
    msg: "{{ (hostvars | reduced.footprint.controlplane_members(groups)).galera }}"
"""

RETURN = r"""
_value:
  description:
    - Each of V(galera), V(rabbitmq), V(witness), V(memcached), V(load_balancer) and V(keystone) with the names of its hosts. With O(environments), each
      environment with these.
  type: dict
"""

from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import filter_module


def controlplane_members(
    hostvars: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Sequence[str]], hosts: t.Sequence[str] = (), environments: bool = False
) -> dict[str, t.Any]:
    """Return service → its hosts, or environment → service → its hosts; see :func:`members_of` and :func:`environments_of`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_controlplane import environments_of, members_of

    return environments_of(groups, hostvars) if environments else members_of(groups, hostvars, hosts)


FilterModule = filter_module("controlplane_members", controlplane_members)
