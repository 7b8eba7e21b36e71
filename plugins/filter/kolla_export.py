# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: inventory and settings of kolla-ansible for a footprint."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: kolla_export
short_description: Inventory and settings of kolla-ansible for a footprint
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Returns the inventory and the global settings with which kolla-ansible deploys OpenStack on the hosts of a footprint.
  - The first host that kolla-ansible cannot use, and the first invalid setting, is an error with its path and a hint.
positional: hostvars, members, keep, virtual_address
options:
  _input:
    description: The sample inventory C(multinode) of the installed kolla-ansible, whose groups of services are kept.
    type: str
    required: true
  hostvars:
    description: The variables of all hosts, C(hostvars), with facts about the network of the hosts in O(members).
    type: dict
    required: true
  members:
    description: The hosts of the groups C(control), C(network), C(compute), C(monitoring) and C(storage).
    type: dict
    required: true
  keep:
    description: The parts of the footprint that kolla-ansible does not replace, V(database) and V(load_balancer).
    type: list
    elements: str
    default: []
  virtual_address:
    description: The virtual address of the controllers.
    type: str
    default: ''
  external_name:
    description: The name for external clients.
    type: str
    default: ''
  virt_type:
    description: The hypervisor type of the compute servers.
    type: str
    default: kvm
  settings:
    description: Additional global settings, which win.
    type: dict
    default: {}
  python:
    description: The Python interpreter of kolla-ansible, for its tasks on the control node.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Write the inventory of kolla-ansible
  ansible.builtin.copy:
    content: >-
      {{ (lookup('ansible.builtin.file', '/opt/kolla/share/kolla-ansible/ansible/inventory/multinode')
          | reduced.footprint.kolla_export(hostvars, {'control': groups.controller, 'network': groups.controller, 'compute': groups.compute},
                                           virtual_address='192.0.2.20')).inventory }}
    dest: /etc/kolla/multinode
    mode: "0600"
"""

RETURN = r"""
_value:
  description: C(inventory) is the text of the inventory, C(settings) are the global settings.
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError


def kolla_export(
    sample: str,
    hostvars: t.Mapping[str, t.Mapping[str, t.Any]],
    members: t.Mapping[str, t.Sequence[str]],
    keep: t.Sequence[str] = (),
    virtual_address: str = "",
    **wishes: t.Any,
) -> dict[str, t.Any]:
    """Return inventory and settings; see :mod:`plan_kolla`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._cloud import plan_kolla

    try:
        wish = plan_kolla.Wish(members, tuple(keep), virtual_address, **wishes)
        return {"settings": plan_kolla.settings(wish, hostvars), "inventory": plan_kolla.inventory(sample, wish, hostvars)}
    except FootprintError as error:
        raise AnsibleFilterError(str(error)) from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"kolla_export: expected the sample inventory of kolla-ansible: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"kolla_export": kolla_export}
