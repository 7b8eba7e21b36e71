#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: say
short_description: Print lines without formatting
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Prints lines to the console without the quotes and brackets of M(ansible.builtin.debug), so that tables stay readable.
  - Runs on the control node only. The host is not contacted and may be down.
options:
  lines:
    description: The lines to print.
    type: list
    elements: str
    required: true
extends_documentation_fragment:
  - reduced.footprint.attributes
  - reduced.footprint.attributes.reads
attributes:
  action:
    support: full
    description: Is an action plugin, which runs on the control node.
  platform:
    support: full
    platforms: all
    description: The host is not contacted.
notes:
  - The playbooks C(reduced.footprint.status) and C(reduced.footprint.rolling_restart) use it.
"""

EXAMPLES = r"""
- name: Show the services
  reduced.footprint.say:
    lines:
      - service  members  state
      - galera   3/3      ok
  run_once: true
"""

RETURN = r"""
lines:
  description: The lines that were printed.
  returned: always
  type: list
  elements: str
  sample: [service  members  state, galera   3/3      ok]
"""
