#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: clock_info
short_description: Measure the clock of a host against that of the control node
version_added: 1.0.0
description:
  - Returns how far the clock of a host is ahead of that of the control node, and the largest error of this measurement, which is half of the time that
    the shortest of several requests took. No time service is required.
  - Compare the results of several hosts; the clock of the control node then cancels out.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  samples:
    description: Number of requests; the one that was answered fastest counts.
    type: int
    default: 5
notes:
  - The requests are made by an action plugin on the control node, through the connection of the host.
"""

EXAMPLES = r"""
- name: Measure the clock
  reduced.footprint.clock_info:
  register: result

- name: Show how far it is ahead
  ansible.builtin.debug:
    msg: "{{ result.clock.offset_seconds }} s, at most {{ result.clock.uncertainty_seconds }} s more or less"
"""

RETURN = r"""
clock:
  description: The clock of the host.
  returned: success
  type: dict
  contains:
    offset_seconds:
      description: Seconds by which it is ahead of the clock of the control node, negative if it is behind.
      type: float
      sample: -0.0021
    uncertainty_seconds:
      description: Largest error of the offset.
      type: float
      sample: 0.013
    synchronized:
      description: Whether the kernel considers it synchronized by a time service. Null if the kernel does not report it.
      type: bool
    error_seconds:
      description: Largest error against true time according to the kernel. Null if it is not synchronized.
      type: float
      sample: 0.031
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_clock import clock
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer


def main() -> None:
    """Run the module, which the action plugin completes with the offset."""
    module = AnsibleModule(argument_spec={"samples": {"type": "int", "default": 5}}, supports_check_mode=True)
    answer(module, lambda: {"changed": False, "clock": clock(module.params["samples"])})


if __name__ == "__main__":
    main()
