# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of a topology, for the inventory plugin."""

    DOCUMENTATION = r"""
options:
  nodes:
    description:
      - The roles and settings of hosts. Each key is a regular expression for names of hosts, anchored at the start only, so V(node1) also matches
        C(node12); append V($) to avoid that. C(roles) is a list of roles, C(configs) a mapping of settings.
      - A host that matches several keys has the roles of all of them. Their settings are merged in the lexicographic order of the
        keys, the last wins. A warning is shown if a key for one host is overridden by a key for several.
    type: dict
    default: {}
  roles:
    description:
      - The services of each role, as a list. The roles of servers and VM details count as well as those of O(nodes).
      - Services are C(galera), C(rabbitmq), C(witness), C(memcached), C(load_balancer), C(keystone), C(ovn_database), C(placement), C(glance), C(nova),
        C(neutron), C(horizon), the logical ones C(database), C(rpc) and C(notifications), and those declared in O(services).
    type: dict
    default: {}
  replicas:
    description: The number of hosts that run a service, the first of the inventory among those that have it. Default is all.
    type: dict
    default: {}
  services:
    description:
      - Services that the collection does not include, and changes to those that it does.
      - A logical service has C(service_def), the real service that implements it.
      - A real service has C(role), the Ansible role that deploys it, C(depends), the services to deploy before it, C(once), steps to run once per
        deployment, C(port), C(scheme), C(memory) in MiB, C(defaults), C(group), C(frontend), C(check) and C(exclusive).
      - Both may have C(configs), settings of this service only, and C(mapping), the service that it uses for a logical one.
    type: dict
    default: {}
  configs:
    description:
      - Settings for all hosts. Settings below the name of a service become variables of its role, for example C(galera.settings)
        becomes C(galera_settings). Any other key is a variable of that name.
      - Precedence, from lowest to highest, is the defaults of the services' roles, O(global_configs), O(configs), C(configs) of
        O(nodes), C(configs) of O(services). Mappings are merged recursively, other values replace each other.
      - Variables of a host in O(servers) or C(host_vars) have precedence over all of them.
    type: dict
    default: {}
  global_configs:
    description: Settings with lower precedence than O(configs), for example those of a site in a file listed in O(includes).
    type: dict
    default: {}
  networks:
    description: Networks by name, the variable C(footprint_networks), with C(cidr), C(vlan) and C(services), see the guide to topologies.
    type: dict
    default: {}
  includes:
    description:
      - Files with any of O(nodes), O(roles), O(replicas), O(services), O(configs), O(global_configs), O(networks), for example settings that
        several environments share. Paths are relative to this file. Later files override earlier ones, this file overrides all.
    type: list
    elements: str
    default: []
  environment:
    description: Name of the environment that the topology describes and that secrets are stored under, by default that of the cluster.
    type: str
  own_groups:
    description:
      - Prefix the groups of the topology with the name of the environment, for example C(blue_galera), and add a group with the name
        of the environment that contains all hosts with services. For inventories with several environments.
      - Without it, a second environment in one inventory is refused, because the groups would be mixed.
    type: bool
    default: false
"""
