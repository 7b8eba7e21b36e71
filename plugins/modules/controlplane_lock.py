#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: controlplane_lock
short_description: Let one run of a playbook at a time restart members of the control plane
version_added: 1.0.0
description:
  - Records on a host which run of C(ansible-playbook) restarts members of the control plane, and fails if another one does. The same run may ask again.
  - A run that has ended without removing its record is replaced if it was started on this control node, where its process is missing. Whether a run of
    another control node or in another container has ended cannot be known; O(takeover) replaces it. A start of the host removes the record as well.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes_without_diff
options:
  state:
    description: Whether this run is recorded. V(absent) keeps the record of another run.
    type: str
    choices: [present, absent]
    default: present
  playbook:
    description: Name of the playbook, for the message of others.
    type: str
    required: true
  takeover:
    description: Whether to replace the record of any other run. That run then fails when it asks again.
    type: bool
    default: false
  run:
    description: The run. Set by the action plugin.
    type: dict
  ended:
    description: A run that has ended. Set by the action plugin.
    type: dict
notes:
  - The record is not a change of the control plane, so the result is never RV(ignore:changed).
"""

EXAMPLES = r"""
- name: Restart a service, unless another run restarts members
  hosts: controller
  tasks:
    - name: Restart it
      any_errors_fatal: true
      block:
        - name: Let no other run restart members
          reduced.footprint.controlplane_lock:
            playbook: restart

        - name: Restart the service
          ansible.builtin.systemd_service:
            name: shop
            state: restarted
          throttle: 1
      always:
        - name: Let others restart members
          reduced.footprint.controlplane_lock:
            playbook: restart
            state: absent
"""

RETURN = r"""
holder:
  description: The run that is recorded, or would be in check mode, with the name of its C(playbook), its C(user), C(node), C(process) and C(since).
  returned: with O(state=present)
  type: dict
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import run_run_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError


def main() -> None:
    """Run the module; the action plugin evaluates the result."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "playbook": {"type": "str", "required": True},
            "takeover": {"type": "bool", "default": False},
            "run": {"type": "dict"},
            "ended": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    given = module.params
    run = {**(given["run"] or {}), "playbook": given["playbook"]}
    try:
        if given["state"] == "absent":
            run_run_lock.release(run, check_mode=module.check_mode)
            module.exit_json(changed=False)
        holder = run_run_lock.take(run, given["ended"], takeover=given["takeover"], check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    module.exit_json(changed=False, holder=holder)


if __name__ == "__main__":
    main()
