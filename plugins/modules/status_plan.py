# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: status_plan
short_description: Decide which hosts are asked for the status, and report it
version_added: 1.0.0
description:
  - Decides for the playbook C(status) which hosts are asked for what. With O(answers) it prints the report, worst first. The last line says what to do first.
  - Fails if something is degraded or down, and is unreachable if the state is unknown. Silence is unknown, never healthy.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  services:
    description: Services that the operator declares.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name in the report.
        type: str
        required: true
      hosts:
        description: Hosts that it runs on. Either this or O(services[].group) is required.
        type: list
        elements: str
      group:
        description: Group of the hosts that it runs on.
        type: str
      probe:
        description: A TCP port, a URL that answers without an error, or a unit of systemd that is active.
        type: str
        required: true
  answers:
    description: Each host with RV(reduced.footprint.status_info#module:host). Without it nothing is reported.
    type: dict
  clock_limit:
    description: By how many seconds clocks may differ, a number.
    type: str
    default: "2.0"
  json_file:
    description: File of the control node for the report as JSON.
    type: path
  html_file:
    description: File of the control node for the report as a page.
    type: path
  title:
    description: Name of the footprint for the page.
    type: str
    default: ""
notes:
  - An action plugin on the control node, which also reads the variables and groups of all hosts. It contacts no host.
seealso:
  - module: reduced.footprint.status_info
"""

EXAMPLES = r"""
- name: Plan which hosts are asked
  reduced.footprint.status_plan:
  register: plan
"""

RETURN = r"""
ask:
  description: Each host with the options of M(reduced.footprint.status_info).
  returned: success
  type: dict
status:
  description:
    - The report with C(ok), C(state), C(lines), C(findings), C(table), C(services), C(links), C(ha_grade), C(ha_grade_now), C(ha), C(virtual_address_holder),
      C(writer), C(database_members), C(servers), C(vms), C(standbys), C(clocks) and C(placement).
  returned: with O(answers), unless something is degraded, down or unknown
  type: dict
state:
  description: V(ok), V(wip), V(degraded), V(unknown) or V(down).
  returned: with O(answers)
  type: str
msg:
  description: The last line of the report, with what to do first.
  returned: with O(answers)
  type: str
lines:
  description: The report as printed.
  returned: always
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""
