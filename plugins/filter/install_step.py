# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: what is done with a server to install it."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: install_step
short_description: Decide how a server is installed
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Decides whether a server is booted over the network to be installed. One that is on and runs anything else than the system that it boots over the network
    is left alone unless O(restart) is set, or its installation was interrupted less than a day ago.
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
    description: Whether the server runs the system that it boots over the network.
    type: bool
    default: false
  installed:
    description: Whether it runs the installed system, and its installation is complete.
    type: bool
    default: false
  begun:
    description: Number of seconds since an unfinished installation was started. Negative without one.
    type: int
    default: -1
  restart:
    description: Whether the server may be restarted.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Decide what to do
  ansible.builtin.debug:
    msg: "{{ 'metal1' | reduced.footprint.install_step(result.power.state) }}"
"""

RETURN = r"""
_value:
  description: V(action) and V(reason). The actions are V(installed) (nothing is done), V(ask), V(boot), V(restart), V(write) and V(refuse).
  type: dict
"""

from ansible.errors import AnsibleFilterError


def install_step(
    name: str, power: str = "", booted: bool = False, installed: bool = False, begun: int = -1, restart: bool = False
) -> dict[str, str]:
    """Return the step as plain values; see :func:`plan_install_step.choose`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_install_step

    if not isinstance(name, str):
        raise AnsibleFilterError(f"install_step: expected the name of a server, got {name!r}.")
    if not power and not installed:
        return {"action": "ask", "reason": "its power state is not known"}
    return plan_install_step.choose(name, plan_install_step.Situation(installed, int(begun), restart, power, booted))._asdict()


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"install_step": install_step}
