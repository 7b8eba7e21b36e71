# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the member of a Galera cluster that is backed up."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: galera_backup_member
short_description: Choose the Galera member that is backed up
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Of the members that are Primary and Synced the one with the fewest clients, so not the one that receives the writes; at a tie
    the last. Fails if no member is ready.
positional: member
options:
  _input:
    description: All members by name, in order, each with the result C(galera) of M(reduced.footprint.galera_info), or nothing.
    type: dict
    required: true
  member:
    description: The member that the operator named.
    type: str
"""

EXAMPLES = r"""
- name: Choose the member
  ansible.builtin.set_fact:
    chosen: "{{ {'c1': member1.galera, 'c2': member2.galera} | reduced.footprint.galera_backup_member }}"
"""

RETURN = r"""
_value:
  description: Name of the member.
  type: str
"""

from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import filter_module


def galera_backup_member(looks: t.Mapping[str, t.Mapping[str, t.Any] | None], member: str | None = None) -> str:
    """Return the member's name; see :func:`choose_member`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import choose_member

    return choose_member(looks, member or None)


FilterModule = filter_module("galera_backup_member", galera_backup_member)
