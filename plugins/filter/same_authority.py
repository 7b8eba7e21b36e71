# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: compare certificate authorities."""

from __future__ import annotations

DOCUMENTATION = r"""
name: same_authority
short_description: Compare certificate authorities (CAs) by their names and keys
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Returns whether members of a cluster that verify with either CA accept each other. A renewed CA with the same name and key is the same one.
  - With several certificates in a text, one text must contain the CAs of the other, so that a CA can be replaced in two steps.
positional: wanted
options:
  _input:
    description: The CA that running members use, in PEM format. Empty if there is none.
    type: str
    required: true
  wanted:
    description: The CA that they would use, in PEM format. Empty if it is not generated yet.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse another authority
  ansible.builtin.assert:
    that: lookup('ansible.builtin.file', '/etc/shop/ca.pem') | reduced.footprint.same_authority(lookup('ansible.builtin.file', 'ca.pem'))
"""

RETURN = r"""
_value:
  description: Whether they are the same.
  type: bool
"""

from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import filter_module


def same_authority(present: str, wanted: str) -> bool:
    """Return whether two authorities are the same; see :func:`run_certificate.same_authority`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._certificate import run_certificate

    return run_certificate.same_authority(present, wanted)


FilterModule = filter_module("same_authority", same_authority)
