# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: bridges of provider networks for the module ovn_chassis."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: ovn_bridges
short_description: Bridges of provider networks with their ports
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Returns bridges in the format of M(reduced.footprint.ovn_chassis).
positional: ports
options:
  _input:
    description: Names of bridges.
    type: list
    elements: str
    required: true
  ports:
    description: Bridge → the interface that is its uplink. A bridge may have none.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the bridges
  ansible.builtin.debug:
    msg: "{{ ['br-ex'] | reduced.footprint.ovn_bridges({'br-ex': 'eno2'}) }}"
"""

RETURN = r"""
_value:
  description: The bridges, each with C(name) and C(ports).
  type: list
  elements: dict
"""

from ansible.errors import AnsibleFilterError


def ovn_bridges(names: t.Sequence[str], ports: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
    """Return the bridges with their uplinks."""
    if isinstance(names, str) or not isinstance(names, t.Iterable):
        raise AnsibleFilterError(f"ovn_bridges: expected a list of names, got {names!r}")
    return [{"name": name, "ports": [ports[name]] if name in ports else []} for name in names]


class FilterModule:
    """Filters of this plugin."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return name → filter."""
        return {"ovn_bridges": ovn_bridges}
