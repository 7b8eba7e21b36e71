# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the addresses of the members of a service."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: member_addresses
short_description: List the addresses of the members of a service
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Returns the address at which a service of each host is reached, in the order of the hosts.
  - It is the variable of the host, for example C(galera_address), else its address in the network of that service, else its C(ansible_host), else
    its name.
  - Networks have names if C(footprint_networks) is set. C(footprint_network_addresses) are the addresses of a host by the name of the network. A
    service uses the network whose C(services) lists it, otherwise C(management), or C(overlay) for C(ovn_chassis).
positional: hostvars, variable
options:
  _input:
    description: Names of hosts.
    type: list
    elements: str
    required: true
  hostvars:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
  variable:
    description: Variable of a host with the address of the service.
    type: str
    required: true
seealso:
  - plugin: reduced.footprint.address
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Show the addresses of the members of the database
  ansible.builtin.debug:
    msg: "{{ groups.galera | reduced.footprint.member_addresses(hostvars, 'galera_address') }}"
"""

RETURN = r"""
_value:
  description: The addresses.
  type: list
  elements: str
"""

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import filter_module


def member_addresses(hosts: t.Sequence[str], hostvars: t.Mapping[str, t.Mapping[str, t.Any]], variable: str) -> list[str]:
    """Return the addresses of hosts; see :func:`plan_address.member_addresses`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._topology import plan_address

    if isinstance(hosts, str) or not isinstance(hosts, t.Sequence):
        raise InputError(f"member_addresses: expected a list of hosts, got {hosts!r}.")
    return plan_address.member_addresses(hosts, hostvars, variable)


FilterModule = filter_module("member_addresses", member_addresses)
