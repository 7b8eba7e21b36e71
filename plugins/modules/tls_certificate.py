#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tls_certificate
short_description: Create, renew or check the TLS certificate of the load balancer
version_added: 1.0.0
description:
  - Without O(certificate), creates a certificate authority and a certificate signed by it, once, in files that only their owner can
    read. The certificate is renewed before it expires and when names change; the authority is kept, so clients that trust it
    are not affected. In the last two of its ten years it is renewed with the same key; clients may use the earlier one until it expires.
  - A certificate given with O(certificate) is only checked. It must be valid now and match its key.
  - Run it on the control node, where Python's cryptography is installed with Ansible; the role C(load_balancer) does so.
requirements:
  - cryptography
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  directory:
    description: Directory in which the authority and the certificate are stored.
    type: path
    required: true
  common_name:
    description: Common name of the certificate, and prefix of that of the authority.
    type: str
    default: footprint
  names:
    description: Names and addresses to which clients connect (subject alternative names).
    type: list
    elements: str
    required: true
  certificate:
    description: A certificate in PEM format, followed by its intermediate certificates.
    type: str
  private_key:
    description: The private key of O(certificate) in PEM format, without a passphrase.
    type: str
  days:
    description: Validity of a created certificate in days.
    type: int
    default: 397
  renew_days:
    description: Number of days before expiry at which it is renewed.
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Create a certificate for the virtual address
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
  description: What was created, or would be in check mode, and why.
  returned: success
  type: list
  elements: str
  sample: ["create a certificate: the current one does not name 192.0.2.20"]
certificate:
  description: Path of the certificate; C(null) if one was given.
  returned: success
  type: str
private_key:
  description: Path of its key; C(null) if one was given.
  returned: success
  type: str
ca:
  description: Path of the authority's certificate, for the clients; C(null) if a certificate was given.
  returned: success
  type: str
not_after:
  description: Expiry of the certificate (UTC); C(null) if it would be created in check mode.
  returned: success
  type: str
  sample: "2027-12-25T02:15:00Z"
fingerprint:
  description: SHA-256 fingerprint of the certificate; C(null) if it would be created in check mode.
  returned: success
  type: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._certificate.run_tls_certificate import EdgeRequest, Pair, ensure
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer


def main() -> None:
    """Run the module."""
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
    answer(module, lambda: ensure(request, check_mode=module.check_mode).as_result())


if __name__ == "__main__":
    main()
