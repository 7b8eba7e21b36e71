# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: diagnostic_snapshot_plan
short_description: Decide what a diagnostic snapshot collects, and write it
version_added: 1.0.0
description:
  - Decides for the playbook C(diagnostic_snapshot) which hosts are asked for what. With O(answers) it writes one archive on the control node, which
    only its owner can read.
  - Secrets that the control node knows are masked, in addition to those that the hosts have masked.
  - Fails if no host answered; the archive is written nevertheless.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  services:
    description: As those of M(reduced.footprint.status_plan).
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
  hours:
    description: Age of the oldest lines of journals.
    type: int
    default: 24
  gather_timeout:
    description: Seconds to wait for the texts of a host.
    type: int
    default: 60
  host_size:
    description: The most that the texts of one host may have together, not compressed.
    type: str
    default: 8 MiB
  size:
    description: The most that the texts of all hosts may have together, not compressed.
    type: str
    default: 128 MiB
  directory:
    description: Directory of the control node for the archive.
    type: path
    default: .
  answers:
    description: Each host with RV(reduced.footprint.status_info#module:host). Without it nothing is written.
    type: dict
  collected:
    description: Each host with RV(reduced.footprint.diagnostic_info#module:diagnostic).
    type: dict
    default: {}
  clock_limit:
    description: By how many seconds clocks may differ, a number.
    type: str
    default: "2.0"
notes:
  - An action plugin on the control node, which also reads the variables and groups of all hosts. It contacts no host.
seealso:
  - module: reduced.footprint.diagnostic_info
"""

EXAMPLES = r"""
- name: Plan what is asked
  reduced.footprint.diagnostic_snapshot_plan:
  register: plan
"""

RETURN = r"""
ask:
  description: Each host with the options of M(reduced.footprint.status_info).
  returned: without O(answers)
  type: dict
size_bytes:
  description: How many bytes the texts of each host may have.
  returned: without O(answers)
  type: int
path:
  description: The archive.
  returned: with O(answers), not in check mode
  type: str
silent:
  description: Each host without texts, and why.
  returned: with O(answers)
  type: dict
lines:
  description: The report as printed.
  returned: always
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""
