# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: by which steps a Galera cluster comes to speak TLS, or plain text again."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: galera_tls_steps
short_description: Name the steps by which a Galera cluster that lives changes its encryption
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Members that speak TLS alone do not hear members that speak plain text alone. A cluster that lives passes through a stage in
    which its members speak both; one that is down does not have to.
positional: wanted
options:
  _input:
    description: What each member speaks, C(tls) of M(reduced.footprint.galera_info), nothing for one that does not run.
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
  description: Stages in order, of V(off), V(both) and V(on). All members pass one before any of them begins the next.
  type: list
  elements: str
"""

from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_tls import tls_steps


def galera_tls_steps(live: t.Iterable[str | None], wanted: bool) -> list[str]:
    """The stages in order; see :func:`tls_steps`."""
    return list(tls_steps(live, bool(wanted)))


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Their names."""
        return {"galera_tls_steps": galera_tls_steps}
