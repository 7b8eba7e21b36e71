# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: vm_template
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Return a packaged template of vm_define
description:
  - Returns a libvirt XML template of the collection, to read it or to start a custom template from it.
  - The text is Jinja2; it is returned without being rendered.
options:
  _terms:
    description: Names of packaged templates, V(default), V(bios), V(uefi) or V(lxc).
    type: list
    elements: str
    required: true
seealso:
  - module: reduced.footprint.vm_define
"""

EXAMPLES = r"""
- name: Start a custom template
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Write the UEFI template to the directory of the playbook
      ansible.builtin.copy:
        content: "{{ lookup('reduced.footprint.vm_template', 'uefi') }}"
        dest: "{{ playbook_dir }}/my_vm.xml.j2"
        mode: "0644"
"""

RETURN = r"""
_raw:
  description: One template text per name.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_packaged import packaged


class LookupModule(LookupBase):
    """Names of packaged templates to their texts."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        """Return the templates.

        :raises AnsibleError: a name is unknown.
        """
        self.set_options(var_options=variables, direct=kwargs)
        try:
            return [packaged(str(term)) for term in terms]
        except FootprintError as error:
            raise AnsibleError(f"vm_template: {error}") from None
