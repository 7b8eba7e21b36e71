# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the text of a configuration file of an OpenStack service."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: openstack_settings
short_description: Return settings as the text of a configuration file of OpenStack
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Returns settings by section and name in the format of C(oslo.config), sorted, each section after an empty line.
  - Each element of a list becomes a line of its own, as options that may be set several times require it. Options that take several values in one line
    require text with commas.
  - In options whose names end in V(password), V(secret) or V(secret_key), C($) is part of the value. In others it refers to another option.
  - Values that would change other settings, or that services would read differently, are errors.
positional: path
options:
  _input:
    description: "Section → name → value."
    type: dict
    required: true
  path:
    description: Name of the settings in errors, normally that of the variable.
    type: str
    default: settings
"""

EXAMPLES = r"""
- name: Write the configuration of a service
  ansible.builtin.copy:
    content: "{{ {'DEFAULT': {'debug': true}} | reduced.footprint.openstack_settings('shop_settings') }}"
    dest: /etc/shop/shop.conf
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
  sample: "\n[DEFAULT]\ndebug = True\n"
"""

from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import filter_module


def openstack_settings(settings: t.Mapping[str, t.Any], path: str = "settings") -> str:
    """Return the text of the file."""
    from ansible_collections.reduced.footprint.plugins.module_utils._service.plan_settings import text_of

    return text_of(settings, path)


FilterModule = filter_module("openstack_settings", openstack_settings)
