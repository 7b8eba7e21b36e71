# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: deployer_export
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Servers and VMs as the input of deployers
description:
  - Returns the servers with C(bmc) and the VMs of virt hosts with the role P(reduced.footprint.redfish_emulator#role) as data in the format of a
    deployer. The playbook C(export_metal) writes them to files.
  - The result contains passwords. They are read like by P(reduced.footprint.secret#lookup), but those of C(bmc) must exist.
extends_documentation_fragment:
  - reduced.footprint.secrets
options:
  _terms:
    description:
      - "V(ironic) is the file of C(baremetal create), V(metal3) a list of Kubernetes objects, V(maas) a list of the parameters of
        C(maas PROFILE machines create), V(foreman) a list of the parameters of C(theforeman.foreman.host)."
      - V(skipped) returns the hosts that are not exported, with the reason.
      - V(problems) returns one text for each wrong value, for O(formats) as well, and one if no host can be exported, for a task that reports them
        before anything is written; an empty list if there is none.
    type: list
    elements: str
    required: true
  hosts:
    description: Names of hosts. Default is all servers and VMs.
    type: list
    elements: str
  account:
    description: Account at the emulators. Default is the first one that may use the VM.
    type: str
  domain:
    description: DNS domain of the hosts, required by V(foreman) for names without a domain.
    type: str
  formats:
    description: With V(problems), the formats that will be written.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Write the input of baremetal create
  ansible.builtin.copy:
    content: "{{ lookup('reduced.footprint.deployer_export', 'ironic') | to_nice_yaml }}"
    dest: /root/nodes.yaml
    mode: "0600"
  no_log: true
"""

RETURN = r"""
_raw:
  description: The data for each term.
  type: list
  elements: raw
"""

import functools
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import Recipe
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_secret import secret
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.run_inventory import SERVERS_GROUP, VMS_GROUP
from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_export, plan_machines
from ansible_collections.reduced.footprint.plugins.plugin_utils.secrets_lookup import SecretsLookup

SKIPPED = "skipped"
PROBLEMS = "problems"


class LookupModule(SecretsLookup):
    """Names of formats to data."""

    name = "deployer_export"

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[t.Any]:
        """Return the data of each format."""
        self._known = variables or {}
        return super().run(terms, variables, **kwargs)

    def value(self, term: t.Any, directory: pathlib.Path, **given: t.Any) -> t.Any:
        """Return the data of one format."""
        hostvars, groups = self._known.get("hostvars") or {}, self._known.get("groups") or {}
        names = self._option("hosts") or [*groups.get(SERVERS_GROUP, ()), *groups.get(VMS_GROUP, ())]
        recipe = Recipe.parse(32, ["ascii_letters", "digits"])
        password = functools.partial(secret, directory=directory, recipe=recipe, **given)
        controller = functools.partial(self._controller_password, directory=directory, **given)
        domain = self._option("domain")
        try:
            found = plan_machines.find(hostvars, names, self._option("account"), password, controller)
            if term == PROBLEMS:
                for form in self._option("formats") or ():
                    plan_export.export(found.machines, form, domain)
        except FootprintError as error:
            if term == PROBLEMS:
                return [str(error)]
            raise
        if term == PROBLEMS:
            return plan_machines.problems(found)
        return dict(found.skipped) if term == SKIPPED else plan_export.export(found.machines, term, domain)
