# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: hosts
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: A pattern for hosts that exist, in an inventory without errors
description:
  - Returns the patterns that match a host, as one pattern, and fails if none does. Without it, Ansible skips a play whose hosts
    do not exist and reports success.
  - Also fails if the inventory has no host, if a file of the inventory plugin P(reduced.footprint.nodes#inventory) has an error, which
    Ansible shows as a warning, and if C(--limit) contains an unknown name.
  - Use it in C(hosts) of the first play of a playbook, where it also works with C(--limit).
options:
  _terms:
    description: Patterns for hosts. Those that contain an unknown name are left out.
    type: list
    elements: str
    required: true
  variable:
    description: Name of the variable that contains the pattern, for the message.
    type: str
    default: ""
  required:
    description: Whether to fail if no pattern matches. Otherwise a pattern that matches nothing is returned.
    type: bool
    default: true
  in_limit:
    description: Whether to fail if C(--limit) excludes all hosts of the pattern. Ansible skips such a play and reports success.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Configure the virt hosts
  hosts: "{{ lookup('reduced.footprint.hosts', 'virt') }}"
  roles:
    - role: reduced.footprint.virt_host

- name: Inspect all servers, with or without the inventory plugin of this collection
  hosts: "{{ lookup('reduced.footprint.hosts', 'servers', 'virt') }}"
  tasks:
    - name: List the virtual machines
      reduced.footprint.vm_info:
"""

RETURN = r"""
_raw:
  description: One pattern.
  type: list
  elements: str
  sample: ['servers:virt']
"""

import typing as t

from ansible import context
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.plugins.lookup import LookupBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_names


class LookupModule(LookupBase):
    """Map patterns for hosts to one pattern that matches; the checks are in ``_inventory/run_names.py``."""

    def run(self, terms: list[str], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        """Return the pattern.

        :raises AnsibleError: no host matches, or the inventory has an error.
        """
        self.set_options(var_options=variables, direct=kwargs)
        # without an inventory, for example by ansible-lint
        if any(context.CLIARGS.get(key) for key in ("syntax", "listtasks", "listtags")):
            return [":".join(filter(None, terms)) or "all"]
        known = variables or {}
        groups = known.get("groups") or {}
        try:
            run_names.check_inventory(groups, [str(source) for source in known.get("ansible_inventory_sources") or ()])
            run_names.check_limit(split_host_pattern(known.get("ansible_limit") or ""), groups)
            patterns = {term: split_host_pattern(term) for term in terms}
            found = run_names.select_hosts(patterns, groups, self.get_option("variable"), self.get_option("required"))
            if known.get("ansible_limit") and self.get_option("in_limit") and not limited(groups, found, known["ansible_limit"]):
                raise RefusedError(
                    f"{found} is excluded by --limit {known['ansible_limit']}.",
                    self.get_option("variable") or None,
                    "Run it without --limit (in AWX: Limit), or with one that contains it.",
                )
            return [found]
        except FootprintError as error:
            raise AnsibleError(str(error)) from None


def limited(groups: t.Mapping[str, t.Iterable[str]], pattern: str, limit: str) -> list[str]:
    """Return the hosts of a pattern that are within a limit, as Ansible selects them."""
    manager = InventoryManager(loader=None, parse=False)
    for group, hosts in groups.items():
        manager.add_group(group)
        for host in hosts:
            manager.add_host(host, group)
    manager.subset(limit)
    return [str(name) for name in manager.list_hosts(pattern)]
