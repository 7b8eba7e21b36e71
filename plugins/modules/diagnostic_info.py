#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: diagnostic_info
short_description: Collect what one host contributes to a diagnostic snapshot
version_added: 1.0.0
description:
  - Collects the state of the system, of the clock, the network and the VMs, journals and logs, the configuration of services and the
    records of this collection, all at once and for a limited time. The playbook C(reduced.footprint.diagnostic_snapshot) makes one archive of the results.
  - Secrets are masked on the host. A value of the configuration or of a record that is a secret for its name is masked in all other texts as well.
  - A host that does not answer is a result, not a failure.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  hours:
    description: Age of the oldest lines of journals, and of the last lines of other logs.
    type: int
    default: 24
  size_bytes:
    description: Size of all texts together, not compressed. The begins of the longest ones are left out.
    type: int
    default: 8388608
  gather_timeout:
    description: Seconds to wait for the texts of the host. What is not answered until then is missing.
    type: int
    default: 60
notes:
  - An action plugin on the control node keeps the texts in the temporary folder of the run.
seealso:
  - module: reduced.footprint.diagnostic_snapshot_plan
"""

EXAMPLES = r"""
- name: Collect what a host knows
  reduced.footprint.diagnostic_info:
    hours: 2
  register: result
"""

RETURN = r"""
diagnostic:
  description: What the host answers.
  returned: success
  type: dict
  contains:
    reachable:
      description: Whether the host answered.
      type: bool
    reason:
      description: Why there are no texts; otherwise empty.
      type: str
    file:
      description: File on the control node with the texts, until the end of the run.
      type: str
    texts:
      description: Number of texts.
      type: int
    size_bytes:
      description: Their size.
      type: int
    errors:
      description: Texts that are missing or incomplete, and why.
      type: list
      elements: str
  sample: {reachable: true, reason: "", file: /root/.ansible/tmp/ansible-local-1/diagnostic/host-metal1, texts: 90, size_bytes: 1000000, errors: []}
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic.run_gather import gather


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "hours": {"type": "int", "default": 24},
            "size_bytes": {"type": "int", "default": 8388608},
            "gather_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    given = module.params
    answer(module, lambda: {"changed": False, "diagnostic": gather(given["hours"], given["size_bytes"], given["gather_timeout"])})


if __name__ == "__main__":
    main()
