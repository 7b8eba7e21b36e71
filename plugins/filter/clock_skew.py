# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: compare the clocks of hosts."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: clock_skew
short_description: Compare the clocks of hosts
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Finds the two hosts whose clocks differ most, and compares the difference with a limit. The errors of both measurements are subtracted first, so a slow
    connection is never taken for a wrong clock.
positional: limit
options:
  _input:
    description: Each host with RV(reduced.footprint.clock_info#module:clock), empty for a host that was not measured.
    type: dict
    required: true
  limit:
    description: Seconds by which clocks may differ.
    type: float
    default: 2.0
seealso:
  - module: reduced.footprint.clock_info
"""

EXAMPLES = r"""
- name: Refuse clocks that differ
  ansible.builtin.assert:
    that: skew.ok
    fail_msg: "{{ skew.text }}"
  vars:
    skew: "{{ {'c1': result1.clock, 'c2': result2.clock} | reduced.footprint.clock_skew(limit=1) }}"
"""

RETURN = r"""
_value:
  description:
    - The result with V(ok), V(text), V(skew_seconds), V(uncertainty_seconds), V(ahead) and V(behind) (the two hosts), and V(unsynchronized) (hosts whose
      clock no time service synchronizes). Less than two measured hosts are V(ok).
  type: dict
"""

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_clock import LIMIT, compare_clocks
from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import filter_module


def clock_skew(clocks: t.Mapping[str, t.Mapping[str, t.Any] | None], limit: float = LIMIT) -> dict[str, t.Any]:
    """Return the result as plain values; see :func:`compare_clocks`."""
    found = compare_clocks(clocks, float(limit))
    if found is None:
        return {"ok": True, "text": "less than two hosts were measured", "skew_seconds": 0.0, "uncertainty_seconds": 0.0, "ahead": "", "behind": "",
                "unsynchronized": []}  # fmt: skip
    return found.as_dict()


FilterModule = filter_module("clock_skew", clock_skew)
