#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tls_certificate
short_description: The certificate with which a footprint meets its clients
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Without a given certificate it makes an authority and a certificate signed by it, once, in files that only their owner can
    read. The certificate is renewed before it ends and when names come or go; the authority stays, so clients that trust it
    notice nothing.
  - A given certificate is only looked at. It must have begun, not have ended, and belong to its key.
  - Run it on the control node, where Python's cryptography is part of Ansible; the role C(load_balancer) does.
requirements:
  - cryptography
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
attributes:
  check_mode:
    description: Can run in check_mode and tell what would be done without doing it.
    support: full
  diff_mode:
    description: Shows what is made, and why.
    support: full
options:
  directory:
    description: Where the authority and the certificate are kept.
    type: path
    required: true
  common_name:
    description: What to call them.
    type: str
    default: footprint
  names:
    description: Names and addresses at which clients connect.
    type: list
    elements: str
    required: true
  certificate:
    description: A certificate in PEM, followed by those that signed it.
    type: str
  private_key:
    description: Its key in PEM, without a password.
    type: str
  days:
    description: How long a certificate made here is valid.
    type: int
    default: 397
  renew_days:
    description: How many days before its end it is renewed.
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Have a certificate for the virtual address
  reduced.footprint.tls_certificate:
    directory: "{{ inventory_dir }}/.secrets/footprint/tls"
    names: [192.0.2.20, cloud.example.com]
  delegate_to: localhost
  run_once: true
  vars:
    ansible_connection: local
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
"""

RETURN = r"""
actions:
  description: What was made, or in check mode would be, and why.
  returned: success
  type: list
  elements: str
  sample: ["make a certificate: it lacks 192.0.2.20"]
certificate:
  description: Path of the certificate; nothing when one was given.
  returned: success
  type: str
private_key:
  description: Path of its key; nothing when one was given.
  returned: success
  type: str
ca:
  description: Path of the authority's certificate, for the clients; nothing when a certificate was given.
  returned: success
  type: str
not_after:
  description: The end of the certificate, in seconds since the epoch; nothing when it would only be made.
  returned: success
  type: int
fingerprint:
  description: The certificate's SHA-256 fingerprint; nothing when it would only be made.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._certificate.run_tls_certificate import EdgeRequest, Pair, ensure
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError


def main() -> None:
    """Ensure and tell."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "common_name": {"type": "str", "default": "footprint"},
            "names": {"type": "list", "elements": "str", "required": True},
            "certificate": {"type": "str"},
            "private_key": {"type": "str", "no_log": True},
            "days": {"type": "int", "default": 397},
            "renew_days": {"type": "int", "default": 60},
        },
        required_together=[("certificate", "private_key")],
        supports_check_mode=True,
    )
    given = module.params
    pair = Pair(given["certificate"], given["private_key"]) if given["certificate"] else None
    request = EdgeRequest(given["directory"], given["common_name"], tuple(given["names"]), pair, given["days"], given["renew_days"])
    try:
        result = ensure(request, check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    for text in result.warnings:
        module.warn(text)
    diff = {"before": "", "after": "".join(f"{action}\n" for action in result.actions)}
    module.exit_json(diff=diff, **result.as_dict())


if __name__ == "__main__":
    main()
