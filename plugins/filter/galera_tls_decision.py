# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: whether the members of a Galera cluster must use TLS, and the steps to get there."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: galera_tls_decision
short_description: Decide whether the members of a Galera cluster use TLS, and in which steps
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - A new cluster uses TLS. An existing cluster keeps its setting, so that no run changes it unexpectedly.
  - The operator's setting always takes precedence.
  - Members that use TLS only cannot connect to members that use plain text only. A running cluster passes through a stage in which
    its members use both; a stopped one does not need it.
positional: asked
options:
  _input:
    description: The result C(galera) of M(reduced.footprint.galera_info) for each member, nothing for one that does not answer.
    type: list
    elements: dict
    required: true
  asked:
    description: The operator's setting, nothing if unset.
    type: bool
"""

EXAMPLES = r"""
- name: Show the steps to TLS
  ansible.builtin.debug:
    msg: "{{ ([{'tls': 'off', 'tls_written': 'off'}, none] | reduced.footprint.galera_tls_decision(true)).steps }}"
"""

RETURN = r"""
_value:
  description:
    - The decision with V(wanted) (whether TLS is wanted) and V(steps), the stages in order, of V(off), V(both) and V(on). All members
      complete one before any of them starts the next.
    - V(changing) is whether a running member must still reach the last stage. Until then witnesses must stay out of the cluster, because they use
      either TLS or plain text.
  type: dict
"""

from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import filter_module


def galera_tls_decision(looks: t.Iterable[t.Mapping[str, t.Any] | None], asked: bool | None = None) -> dict[str, t.Any]:
    """Return the decision as plain values; see :func:`tls_wanted`, :func:`tls_steps` and :func:`tls_changing`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_tls import tls_changing, tls_steps, tls_wanted

    looks = list(looks)
    wanted = tls_wanted(None if asked is None else bool(asked), looks)
    live = [(facts or {}).get("tls") for facts in looks]
    return {"wanted": wanted, "steps": list(tls_steps(live, wanted)), "changing": tls_changing(live, wanted)}


FilterModule = filter_module("galera_tls_decision", galera_tls_decision)
