# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: what is done with a server to read its hardware."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: discovery_step
short_description: Decide how the hardware of a server is read
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Decides whether a server is booted over the network. One that is on and runs anything else than the system for the discovery is left alone unless
    O(restart) is set.
positional: power, booted
options:
  _input:
    description: The name of the server.
    type: str
    required: true
  power:
    description: Its power state, as returned by M(reduced.footprint.server_power_info). Empty to decide whether it matters.
    type: str
    default: ""
  booted:
    description: Whether the server runs the system for the discovery.
    type: bool
    default: false
  kept:
    description: Text of the file with its hardware. Empty if it was never read.
    type: str
    default: ""
  begun:
    description: Number of seconds since an interrupted run booted it. Negative if none did.
    type: int
    default: -1
  limit:
    description: Maximum number of seconds that a server takes to boot. Twice this time after an interrupted run booted it, it may have been put into use.
    type: int
    default: 900
  again:
    description: Whether to read the hardware again.
    type: bool
    default: false
  restart:
    description: Whether the server may be restarted.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Decide what to do
  ansible.builtin.debug:
    msg: "{{ 'metal1' | reduced.footprint.discovery_step(result.power.state) }}"
"""

RETURN = r"""
_value:
  description:
    - V(action) and V(reason). The actions are V(known) (nothing is done), V(boot), V(restart), V(read) (it runs the system for the discovery), V(wait) (it was
      booted by an interrupted run) and V(refuse).
  type: dict
"""

from ansible.errors import AnsibleFilterError


def discovery_step(
    name: str, power: str = "", booted: bool = False, kept: str = "", begun: int = -1, limit: int = 900, again: bool = False, restart: bool = False
) -> dict[str, str]:
    """Return the step as plain values; see :func:`plan_discovery.choose`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import DISCOVERED_SERVER
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_discovery

    if not isinstance(name, str):
        raise AnsibleFilterError(f"discovery_step: expected the name of a server, got {name!r}.")
    try:
        known = DISCOVERED_SERVER.load(kept, f"the file of {name}") if kept else {}
    except ValueError as error:
        raise AnsibleFilterError(f"discovery_step: cannot parse the file with the hardware of {name}: {error}. Remove it.") from None
    now = plan_discovery.Situation(str(known.get("read") or ""), int(begun) >= 0, int(begun) <= 2 * int(limit), again, restart, power, booted)
    if not power:
        return {"action": "ask" if plan_discovery.needs_power(now) else plan_discovery.KNOWN, "reason": plan_discovery.choose(name, now).reason}
    return plan_discovery.choose(name, now)._asdict()


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"discovery_step": discovery_step}
