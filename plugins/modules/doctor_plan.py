#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: doctor_plan
short_description: Report what an operator would check by hand, or plan the repairs that are safe
version_added: 1.0.0
description:
  - Prints for the playbook C(doctor) one line for each check that is healthy, and one for each problem, with what to do.
  - Fails if something must be repaired, and is unreachable if something is unknown. Silence is unknown, never healthy.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  answers:
    description: Each host with RV(reduced.footprint.status_info#module:host), read with O(reduced.footprint.status_info#module:checks).
    type: dict
    required: true
  cluster:
    description: Name of the cluster of VMs.
    type: str
    default: default
  clock_limit:
    description: By how many seconds clocks may differ, a number.
    type: str
    default: "2.0"
  fix:
    description: Print nothing, and return the repairs.
    type: bool
    default: false
notes:
  - An action plugin on the control node, which also reads the variables and groups of all hosts. It contacts no host.
seealso:
  - module: reduced.footprint.status_info
  - module: reduced.footprint.status_plan
"""

EXAMPLES = r"""
- name: Report
  reduced.footprint.doctor_plan:
    answers: "{{ answers }}"
"""

RETURN = r"""
fixes:
  description: Each host with its repairs, C(remove_key), the options of M(reduced.footprint.one_time_key), or C(start_unit), the name of a unit.
  returned: with O(fix)
  type: dict
findings:
  description: The report, a list of mappings with C(check), C(state), V(ok), V(note), V(repair) or V(unknown), C(text), C(todo), C(host) and C(fix).
  returned: without O(fix), unless something must be repaired or is unknown
  type: list
  elements: dict
msg:
  description: The last line of the report.
  returned: without O(fix)
  type: str
lines:
  description: The report as printed.
  returned: always
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""
