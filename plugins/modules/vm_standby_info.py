#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_standby_info
short_description: List copies of virtual machines on other servers
version_added: 1.0.0
description:
  - Lists the VMs that are copied from this server, and those that have copies on this server, with age, duration and size. VMs that are not copied any more
    are listed as long as another machine may accept the key of their copies.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  id:
    description: Only this VM.
    type: str
  cluster:
    description: Only VMs of this cluster.
    type: str
seealso:
  - module: reduced.footprint.vm_standby
"""

EXAMPLES = r"""
- name: List the copies
  reduced.footprint.vm_standby_info:
  register: found
"""

RETURN = r"""
standbys:
  description: One entry for each VM and part.
  returned: success
  type: list
  elements: dict
  contains:
    id: {description: ID of the VM., type: str}
    cluster: {description: Name of the cluster., type: str}
    part:
      description: V(source) on the server of the VM, V(standby) on the server that has its copies, V(ended) on a server that copied it before.
      type: str
    standby: {description: Name of the standby; null there., type: str}
    former_standbys:
      description: Earlier standbys and witnesses that may still have copies or accept the key; empty on the standby.
      type: list
      elements: str
    key_accepted_by:
      description: Machines that may accept the key of the copies, which are the standby, witnesses, and earlier ones; empty on the standby.
      type: list
      elements: str
    public_key: {description: That key; null on the standby., type: str}
    witnesses:
      description:
        - The machines that the server of the VM asks beside the standby before it starts the VM after a boot. On the standby as of the last copy;
          null if that is not known.
      type: list
      elements: str
    interval_seconds: {description: Seconds between two copies; null on the standby., type: int}
    state:
      description:
        - Of the last copy, V(new), V(running), V(copied), V(failed), V(taken)
          after the VM was started on its standby, or V(moved) after it was moved to another server.
        - On the standby V(receiving), or V(started) after the VM was started there. V(ended) like C(part).
      type: str
    phase:
      description: Phase of the copy or of the start, for example V(starting) while the disks of the VM are made from a copy.
      type: str
    reason: {description: Why the last copy failed., type: str}
    kept_off:
      description: Whether the VM cannot be started on its server, because it was started on its standby, or that is not known; null on the standby.
      type: bool
    problem: {description: What is wrong with the copies; null if nothing is., type: str}
    copy_id: {description: The last verified copy., type: str}
    copied:
      description: Its point in time (UTC).
      type: str
    age_seconds: {description: Its age., type: float}
    duration_seconds: {description: Duration of the last copy., type: float}
    sent_bytes: {description: Bytes that it sent., type: int}
    used_bytes: {description: Space that all copies occupy on the standby., type: int}
    mode:
      description: V(full), V(compared), or V(incremental) with libvirt's checkpoints.
      type: str
    frozen: {description: Whether the guest agent froze the file systems., type: bool}
    automatic:
      description: Whether the standby starts the VM by itself when its server is lost.
      type: bool
    automatic_problem:
      description: Why it would not be started at present, or on the standby why the last start failed; null if nothing prevents it.
      type: str
    taken_over:
      description: On the standby, when it started the VM by itself (UTC); null if it did not.
      type: str
    copies:
      description: On the standby, all verified copies.
      type: list
      elements: dict
      contains:
        id: {description: Name of the copy., type: str}
        source: {description: The server from which it is., type: str}
        uuid: {description: UUID of the VM., type: str}
        copied:
          description: Its point in time (UTC).
          type: str
        verified:
          description: When it was read back and compared (UTC).
          type: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._standby.run_standby_info import standbys


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec={"id": {"type": "str"}, "cluster": {"type": "str"}}, supports_check_mode=True)
    answer(module, lambda: {"changed": False, "standbys": standbys(module.params["id"], module.params["cluster"])})


if __name__ == "__main__":
    main()
