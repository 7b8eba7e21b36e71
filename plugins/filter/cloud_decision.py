# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: decisions about a cloud on the footprint."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import decision_module

DOCUMENTATION = r"""
name: cloud_decision
short_description: Decide what is created in a cloud, and what it needs
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Makes the decisions of the playbooks C(cloud_bootstrap) and C(export_kolla), and of the role C(cinder_volume).
  - For internal use; the functions in its file document the arguments and results of each decision.
positional: decision
options:
  _input:
    description: >-
      The resources with V(bootstrap), the sample inventory C(multinode) of kolla-ansible with V(kolla), C(cinder_volume_backends) with
      V(volumes) and V(volumes_away).
    type: raw
    required: true
  decision:
    description:
      - V(bootstrap) checks declared resources against each other, the compute servers and the cloud, and plans what is created and changed. Nothing is removed.
      - V(kolla) returns inventory and settings of kolla-ansible, V(volumes) what cinder-volume, libvirt and the servers need, V(volumes_away) what the
        loss of a server means for volumes.
    type: str
    required: true
    choices: [bootstrap, kolla, volumes, volumes_away]
"""

EXAMPLES = r"""
- name: Check the flavors
  ansible.builtin.assert:
    that: (lists | reduced.footprint.cloud_decision('bootstrap', hostvars, groups['compute'])).lines | length == 0
  vars:
    lists: {flavors: [{name: small, vcpus: 1, ram: 2}]}
"""

RETURN = r"""
_value:
  description: The decision.
  type: raw
"""

Hostvars = t.Mapping[str, t.Mapping[str, t.Any]]


def bootstrap(
    lists: t.Mapping[str, t.Any],
    hostvars: Hostvars,
    computes: t.Sequence[str] = (),
    state: t.Mapping[str, t.Any] | None = None,
    checksums: t.Mapping[str, str] | None = None,
) -> dict[str, t.Any]:
    """Return ``actions`` by kind of resource, and ``lines``; see :func:`plan_bootstrap.plan`.

    :arg lists: the lists of the playbook by kind, without the prefix of their names.
    :arg computes: the compute servers; those without facts are left out of the checks.
    :arg state: existing resources by kind, as ``openstack.cloud.resources`` returns them. Without it nothing is planned.
    :arg checksums: SHA-512 of image files by their path.
    :raises InputError: the first invalid value.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_resources, plan_bootstrap, plan_check, plan_site
    from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_state import State

    declared = model_resources.parse(lists)
    existing = None if state is None else State(state)
    plan_check.check(declared, plan_site.site(hostvars, computes), existing)
    actions = {kind: [] for kind in plan_bootstrap.ORDER} if existing is None else plan_bootstrap.plan(declared, existing, checksums)
    return {"actions": actions, "lines": plan_bootstrap.lines(actions)}


def kolla(
    sample: str, hostvars: Hostvars, members: t.Mapping[str, t.Sequence[str]], keep: t.Sequence[str] = (), virtual_address: str = "", **wishes: t.Any
) -> dict[str, t.Any]:
    """Return ``inventory``, a text, and ``settings``; see :mod:`plan_kolla`.

    :arg members: hosts of the groups ``control``, ``network``, ``compute``, ``monitoring`` and ``storage``, with facts about their network.
    :arg keep: the parts that kolla-ansible does not replace, ``database`` and ``load_balancer``.
    :arg wishes: see :class:`plan_kolla.Wish`.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._cloud import plan_kolla

    wish = plan_kolla.Wish(members, tuple(keep), virtual_address, **wishes)
    return {"settings": plan_kolla.settings(wish, hostvars), "inventory": plan_kolla.inventory(sample, wish, hostvars)}


def volumes(backends: t.Any, environment: str, computes: t.Sequence[str] = ()) -> list[dict[str, t.Any]]:
    """Return the backends of volumes; see :func:`model_backends.parse`."""
    import dataclasses

    from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_backends

    return [
        {**dataclasses.asdict(one), **{key: list(getattr(one, key)) for key in ("files", "packages", "client_packages", "servers")}}
        for one in model_backends.parse(backends, model_backends.Site(environment, list(computes)))
    ]


def volumes_away(backends: t.Any, server: str, computes: t.Sequence[str]) -> list[str]:
    """Return what the loss of a server means for volumes, a line each."""
    from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_backends

    return model_backends.warnings(backends, model_backends.Site("", list(computes)), server)


FilterModule = decision_module("cloud_decision", bootstrap=bootstrap, kolla=kolla, volumes=volumes, volumes_away=volumes_away)
