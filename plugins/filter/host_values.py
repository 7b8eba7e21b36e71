# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: one value of each host."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: host_values
short_description: Get one value of each host
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Reads one variable of several hosts, or one result of a loop over hosts.
positional: key, default, hosts
options:
  _input:
    description: C(hostvars), or the C(results) that a loop over the names of hosts has registered.
    type: raw
    required: true
  key:
    description: Name of the variable or result; with dots that of a value in it.
    type: str
    required: true
  default:
    description: The value of a host that does not have it.
    type: raw
  hosts:
    description: With C(hostvars), the names of the hosts.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show the addresses of the controllers
  ansible.builtin.debug:
    msg: "{{ hostvars | reduced.footprint.host_values('ansible_host', 'unknown', groups['controller']) }}"
"""

RETURN = r"""
_value:
  description: Each host with its value.
  type: dict
"""

from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import filter_module


def host_values(given: t.Any, key: str, default: t.Any = None, hosts: t.Iterable[str] = ()) -> dict[str, t.Any]:
    """Return each host with its value.

    :arg given: the variables of each host, or a list of results with their ``item``.
    """
    found = {host: given[host] for host in hosts} if isinstance(given, t.Mapping) else {one["item"]: one for one in given}
    return {host: _value(values, key.split("."), default) for host, values in found.items()}


def _value(values: t.Any, keys: t.Sequence[str], default: t.Any) -> t.Any:
    for key in keys:
        if not isinstance(values, t.Mapping) or key not in values:
            return default
        values = values[key]
    return values


FilterModule = filter_module("host_values", host_values)
