# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the steps by which a Galera cluster enables or disables TLS."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: galera_tls_steps
short_description: List the steps to enable or disable TLS in a running Galera cluster
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Members that use TLS only cannot connect to members that use plain text only. A running cluster passes through a stage in which
    its members use both; a stopped one does not need it.
positional: wanted
options:
  _input:
    description: C(tls) of M(reduced.footprint.galera_info) for each member, nothing for one that is not running.
    type: list
    elements: str
    required: true
  wanted:
    description: Whether TLS is wanted.
    type: bool
    required: true
"""

EXAMPLES = r"""
- name: Show the steps
  ansible.builtin.debug:
    msg: "{{ ['off', 'off', 'off'] | reduced.footprint.galera_tls_steps(true) }}"
"""

RETURN = r"""
_value:
  description: Stages in order, of V(off), V(both) and V(on). All members complete one before any of them starts the next.
  type: list
  elements: str
"""

from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_tls import tls_steps


def galera_tls_steps(live: t.Iterable[str | None], wanted: bool) -> list[str]:
    """Return the stages in order; see :func:`tls_steps`."""
    return list(tls_steps(live, bool(wanted)))


class FilterModule:
    """Filters of this plugin."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return name → filter."""
        return {"galera_tls_steps": galera_tls_steps}
