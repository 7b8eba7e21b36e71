#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: failover_member
short_description: Make a server, or a witness, part of a cluster that starts virtual machines by itself
version_added: 1.0.0
description:
  - Two servers form a cluster of Corosync and Pacemaker, in which a third machine has a vote through C(corosync-qnetd). Pacemaker starts a VM with a standby
    on the other server after it has fenced a lost one. M(reduced.footprint.failover_cluster) configures the fencing,
    O(reduced.footprint.vm_standby#module:automatic) the VMs.
  - Writes the configuration of Corosync, its certificate for the vote, and the resource agent, then enables and starts the services. Corosync and Pacemaker
    are never restarted by a change, because that would stop the VMs.
  - A server is in one cluster only, a witness has votes in the clusters of one environment.
    The role P(reduced.footprint.standby#role) uses this module for VMs with C(automatic) in their key C(standby).
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
  - reduced.footprint.failover
options:
  state:
    description:
      - V(absent) stops the cluster on this server. While it has a VM it continues, see O(reduced.footprint.vm_standby#module:state=disarmed).
        A witness gives no vote any more, which is refused while it has one in a cluster.
    type: str
    choices: [present, absent]
    default: present
  part:
    description: V(server) for one of the two servers, V(witness) for the machine that only votes, with the name of the environment as O(cluster).
    type: str
    choices: [server, witness]
    default: server
  authkey:
    description: Secret of 128 printable characters, which encrypts the messages between the servers. Required for O(part=server).
    type: str
  key:
    description: Private key of this machine for the vote, as PEM text.
    type: str
  certificate:
    description: Its certificate. Its name is O(cluster) on servers. That of the witness must have the DNS name C(Qnetd Server).
    type: str
  ca:
    description: Certificate of the authority of both.
    type: str
requirements:
  - corosync 3, corosync-qdevice, pacemaker 2.1 or 3 with its command line programs, and fence_redfish or sbd on the servers
  - corosync-qnetd on the witness; certutil, pk12util and openssl on all three
seealso:
  - module: reduced.footprint.failover_cluster
  - module: reduced.footprint.vm_standby
"""

EXAMPLES = r"""
- name: Give the witness a vote
  reduced.footprint.failover_member:
    part: witness
    cluster: lab
    key: "{{ vote.key }}"
    certificate: "{{ vote.certificate }}"
    ca: "{{ vote.ca }}"
  vars:
    vote: "{{ lookup('reduced.footprint.certificate', 'failover/witness1', authority='failover/ca', names=['Qnetd Server']) }}"

- name: Form a cluster of metal1 and metal2, on both of them
  reduced.footprint.failover_member:
    cluster: lab-metal1-metal2
    members:
      - {name: metal1, addresses: [192.0.2.11], bmc: "{{ lookup('reduced.footprint.bmc', 'metal1') }}"}
      - {name: metal2, addresses: [192.0.2.12], bmc: "{{ lookup('reduced.footprint.bmc', 'metal2') }}"}
    witness: 192.0.2.20
    authkey: "{{ lookup('reduced.footprint.secret', 'failover/lab-metal1-metal2', length=128) }}"
    key: "{{ member.key }}"
    certificate: "{{ member.certificate }}"
    ca: "{{ member.ca }}"
  vars:
    member: "{{ lookup('reduced.footprint.certificate', 'failover/lab-metal1-metal2', authority='failover/ca') }}"
"""

RETURN = r"""
actions:
  description: What was changed.
  returned: success
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import MEMBER_ARGUMENTS
from ansible_collections.reduced.footprint.plugins.module_utils._standby.run_member import apply


def arguments() -> dict:
    """The module's options."""
    return {
        **MEMBER_ARGUMENTS,
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "part": {"type": "str", "choices": ["server", "witness"], "default": "server"},
        "authkey": {"type": "str", "no_log": True},
        "key": {"type": "str", "no_log": True},
        "certificate": {"type": "str"},
        "ca": {"type": "str"},
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=arguments(), supports_check_mode=True, required_if=[("state", "present", ["cluster", "key", "certificate", "ca"])])
    answer(module, lambda: apply(module.params, check_mode=module.check_mode))


if __name__ == "__main__":
    main()
