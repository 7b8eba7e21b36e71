# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lookup plugin: return the frontends of the cloud's services."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cloud_frontends
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Return the frontends of the cloud's services
description:
  - Returns the frontends of all OpenStack services that have hosts and that C(footprint_components), if set, names, in the format of
    C(load_balancer_frontends) of the role C(load_balancer). Their defaults include them.
  - The members of a service are determined in the same way as by P(reduced.footprint.deploy_plan#lookup).
options: {}
seealso:
  - plugin: reduced.footprint.deploy_plan
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Show the frontends of the cloud
  ansible.builtin.debug:
    msg: "{{ query('reduced.footprint.cloud_frontends') }}"
"""

RETURN = r"""
_raw:
  description: The frontends.
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.lookup import LookupBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_openstack import OPENSTACK, frontends
from ansible_collections.reduced.footprint.plugins.module_utils._topology import plan_deploy_order
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import CONTROLLER, parse_services


class LookupModule(LookupBase):
    """Return the frontends of the services that have hosts."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[dict[str, t.Any]]:
        """Return the frontends.

        :raises AnsibleError: an invalid value of footprint_components or footprint_services.
        """
        known = variables or {}

        def value(name: str) -> t.Any:
            return self._templar.template(known.get(name))

        groups = known.get("groups") or {}
        cloud = boolean(value("footprint_cloud") or False)
        found: list[dict[str, t.Any]] = []
        try:
            services = parse_services(value("footprint_services"), "footprint_services")
            wanted = plan_deploy_order.components(value("footprint_components") or [], services, "footprint_components")
            for name, one in OPENSTACK.items():
                chosen = str(value(f"{name}_group") or "")
                if plan_deploy_order.members(services[name], groups, chosen or None, cloud) and (not wanted or name in wanted):
                    group = chosen or (services[name].group_name if groups.get(services[name].group_name) else CONTROLLER)
                    found += frontends(name, group, {api.port_variable: value(api.port_variable) for api in one.apis})
        except FootprintError as error:
            raise AnsibleError(f"cloud_frontends: {error}") from None
        return found
