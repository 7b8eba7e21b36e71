#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_bridge
short_description: Let a bridge take over a network port, with a way back
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Makes a bridge over a port of the server; addresses, routes and MAC go from the port to the bridge.
  - The change is made by a unit of systemd on the server itself and returns to the old configuration unless it is
    confirmed with O(state=confirmed) in time. Until then a restart of the server returns to the old configuration as well.
  - Between the two calls open a new connection to the server, that is what proves that the change did not cut it off.
  - Works through systemd-networkd or ifupdown, whichever manages the port. Under netplan and NetworkManager make the bridge
    with their own tools; a bridge that has its port is left as it is.
requirements:
  - systemd on the server
  - bridge-utils on servers with ifupdown
attributes:
  check_mode:
    support: full
    description: Tells whether a change would be made, with the same checks.
  diff_mode:
    support: full
    description: Shows the configuration files before and after.
  platform:
    support: full
    platforms: linux
    description: Linux with systemd.
options:
  name:
    description: Name of the bridge.
    type: str
    required: true
  port:
    description: The network interface the bridge takes over.
    type: str
    required: true
  state:
    description:
      - V(present) starts the change and leaves its confirmation to a second call. Nothing happens when the bridge has the port.
      - V(confirmed) makes a started change last. Nothing happens when there is none.
    type: str
    choices: [present, confirmed]
    default: present
  timeout:
    description: Seconds the change waits for its confirmation.
    type: int
    default: 60
seealso:
  - module: reduced.footprint.virt_node
"""

EXAMPLES = r"""
- name: The bridge to the admin network takes over eno1
  reduced.footprint.virt_bridge:
    name: br-admin
    port: eno1
  register: bridge

- name: Come back over a new connection
  ansible.builtin.meta: reset_connection

- name: Wait until the server answers
  ansible.builtin.wait_for_connection:
    timeout: 30

- name: Keep the bridge
  reduced.footprint.virt_bridge:
    name: br-admin
    port: eno1
    state: confirmed
  when: bridge.trial
"""

RETURN = r"""
trial:
  description: Whether a change waits for its confirmation.
  returned: success
  type: bool
manager:
  description: What manages the port, V(networkd) or V(ifupdown); null when nothing was to be done.
  returned: success
  type: str
  sample: networkd
addresses:
  description: The addresses the bridge has or takes over.
  returned: success
  type: list
  elements: str
  sample: [192.0.2.11/24]
error:
  description: What was wrong.
  returned: failure
  type: dict
  contains:
    path:
      description: Where the bad value stands.
      type: str
      returned: always
    message:
      description: What is wrong.
      type: str
      returned: always
    mend:
      description: What to do about it.
      type: str
      returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._run.bridge import BridgeRequest, take_over


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "port": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "confirmed"], "default": "present"},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    try:
        result = take_over(BridgeRequest(**module.params), check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    module.exit_json(**result.as_dict())


if __name__ == "__main__":
    main()
