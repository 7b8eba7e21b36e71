#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_standby
short_description: Copy the disks of a virtual machine to another server, and start it there
version_added: 1.0.0
description:
  - A systemd timer on the server of the VM copies all its disks at one point in time to the standby, another virt host. The copy
    contains the domain, its firmware variables and its cloud-init seed. It counts only after everything that was sent was read
    back on the standby and compared.
  - Changed blocks of disks in the format C(qcow2) are known from libvirt's checkpoints. All other disks are read completely each
    time, but only differing blocks are sent.
  - The role P(reduced.footprint.standby#role) and the playbook C(reduced.footprint.start_standby) use this module.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  id:
    description: ID of the VM.
    type: str
    required: true
    aliases: [name]
  cluster:
    description:
      - Name of the cluster. Copies and records of a VM with the same ID in another cluster are not changed.
      - From one server, only one VM with an ID can be copied.
    type: str
    required: true
  state:
    description:
      - V(prepared), on the server of the VM, creates the ssh key of the copies and returns its public key, which
        M(reduced.footprint.one_time_key) places on the standby.
      - V(present), on the server of the VM, copies its disks to O(standby) from now on. From then on libvirt starts the VM after a
        restart of the server only when the standby or a witness confirms that it was not started there.
      - V(paused), on the server of the VM immediately before it is moved, stops a running copy and begins none until the move has ended. If the VM is still
        on this server then, or returns to it, the copies continue by themselves; use V(absent) if it left for good. The guard stays, so after a restart of
        the server during the move, the VM starts on it only as with V(present). Refused for a VM that waits for such a confirmation.
      - V(absent), on the server of the VM, ends that; on the standby it removes all copies. M(reduced.footprint.vm_standby_info) lists the machines that may
        still accept the key as C(key_accepted_by), except those in O(withdrawn_from).
      - V(withdrawn), on the server of the VM after its copies ended, removes O(withdrawn_from) from that list.
      - V(started), on the standby, starts the VM from a copy. It requires a proof that its first server does not run it, O(proof) or
        O(confirmed).
      - V(claimed), on a witness, records that the VM is about to be started on its standby.
      - V(released), on the first server after it came back, removes the VM that was started on its standby, so that it can be moved
        back. B(What was written after its last copy is lost then), unless O(keep_disks) is set. Refused unless the standby has completed its start.
      - V(returned), on the standby or a witness after the VM was moved back, accepts copies again; on a witness also after a start that was refused.
      - V(kept), on the standby, makes it the server of a VM that was started there, if O(confirmed), its first server, never returns. Copies and record are
        removed. Refused while the key of that server is accepted, with which it could be permitted to start its old VM.
      - V(disarmed), on the server that runs the VM, takes it out of the cluster of M(reduced.footprint.failover_cluster), so that nothing starts it by itself.
        It continues. Refused while this server has no majority. O(state=absent) does the same, and O(state=paused) until a move has ended.
    type: str
    choices: [prepared, present, paused, absent, withdrawn, started, claimed, released, returned, kept, disarmed]
    default: present
  standby:
    description: The virt host that gets the copies. Required for O(state=present).
    type: dict
    suboptions: &machine
      host:
        description: Name or address for ssh.
        type: str
        required: true
      name:
        description: Display name, for example its name in the inventory.
        type: str
      port:
        description: Port of its ssh server.
        type: int
        default: 22
      host_keys:
        description: Its public ssh host keys, as in C(/etc/ssh/ssh_host_*_key.pub).
        type: list
        elements: str
  witnesses:
    description: Other machines that are asked before the VM starts after a restart of its server, with the same key.
    type: list
    elements: dict
    default: []
    suboptions: *machine
  removed_standbys:
    description:
      - With O(state=present), earlier standbys and witnesses whose key and copies were removed. Until they are named here,
        M(reduced.footprint.vm_standby_info) lists them as C(former_standbys).
    type: list
    elements: str
    default: []
  withdrawn_from:
    description: With O(state=absent) or O(state=withdrawn), machines on which M(reduced.footprint.one_time_key) has withdrawn the key of the copies.
    type: list
    elements: str
    default: []
  interval_seconds:
    description: Seconds between the begin of two copies.
    type: int
    default: 900
  copies:
    description: Number of copies that are kept.
    type: int
    default: 2
  bandwidth_limit:
    description: Bandwidth limit of the copies, for example V(100 MiB/s). No limit by default.
    type: str
  automatic:
    description:
      - With O(state=present), the cluster of both servers starts and stops the VM from now on, and starts it on the standby after it has fenced this server.
      - Requires O(witnesses), and the cluster that M(reduced.footprint.failover_member) and M(reduced.footprint.failover_cluster) create.
    type: bool
    default: false
  uri:
    description: Connection URI of libvirt. Detected if omitted.
    type: str
  copy:
    description: With O(state=started), the copy to start, as M(reduced.footprint.vm_standby_info) lists it. Default is the last one.
    type: str
  source:
    description:
      - With O(state=present), the name of this server, which a person types to confirm its loss. Default is its host name.
      - With O(state=started) or O(state=claimed), the first server of the VM; another one than that of the copies is refused.
    type: str
  confirmed:
    description: With O(state=started), the name of the first server as typed by a person who made sure that it does not run the VM. With O(state=kept), that it
      never returns. With O(state=absent) or O(state=disarmed), the name of a standby that is lost for good.
    type: str
  proof:
    description: With O(state=started) or O(state=claimed), the answer of the BMC of the first server.
    type: dict
    suboptions:
      by:
        description: Kind of the proof.
        type: str
        choices: [bmc]
        required: true
      state:
        description: Its power state; only V(off) is accepted.
        type: str
        required: true
  keep_disks:
    description: With O(state=released), keep the old disks, with C(.lost-TIME) added to their names.
    type: bool
    default: false
notes:
  - Containers, VMs with passed-through devices, shared disks, snapshots or an emulated TPM are refused.
  - The pools of the disks must exist on the standby with the same paths.
  - The guest agent, if it answers, freezes the file systems for the moment in which a copy begins. Otherwise the copy is what
    the disks contain after a power loss.
seealso:
  - module: reduced.footprint.vm_standby_info
  - module: reduced.footprint.vm_move
  - module: reduced.footprint.failover_cluster
  - module: reduced.footprint.one_time_key
"""

EXAMPLES = r"""
- name: Create the key of the copies
  reduced.footprint.vm_standby:
    id: master
    cluster: lab
    state: prepared
  register: prepared

- name: Place the key on the standby
  reduced.footprint.one_time_key:
    name: master
    cluster: lab
    purpose: standby
    public_key: "{{ prepared.public_key }}"
    allowed_from: [192.0.2.11]
  delegate_to: metal2

- name: Copy the master to metal2 every five minutes
  reduced.footprint.vm_standby:
    id: master
    cluster: lab
    standby:
      name: metal2
      host: 192.0.2.12
      host_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs"]
    interval_seconds: 300

- name: Start it on metal2 after metal1 was lost, on metal2
  reduced.footprint.vm_standby:
    id: master
    cluster: lab
    state: started
    source: metal1
    confirmed: metal1
"""

RETURN = r"""
public_key:
  description: The public key of the copies; null in check mode if none exists yet.
  returned: O(state=prepared)
  type: str
key_marker:
  description: The comment of that key.
  returned: O(state=prepared)
  type: str
copy_id:
  description: The copy with which the VM was started.
  returned: O(state=started)
  type: str
source:
  description: The first server of the VM.
  returned: O(state=started)
  type: str
started:
  description: The time of the start (UTC).
  returned: O(state=started)
  type: str
lost_seconds:
  description: The time between the copy and the start; what was written meanwhile is missing.
  returned: O(state=started)
  type: float
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._standby.run_standby import apply


def arguments() -> dict:
    """The module's options."""
    voter = {
        "host": {"type": "str", "required": True},
        "name": {"type": "str"},
        "port": {"type": "int", "default": 22},
        "host_keys": {"type": "list", "elements": "str", "no_log": False},
    }
    return {
        "id": {"type": "str", "required": True, "aliases": ["name"]},
        "cluster": {"type": "str", "required": True},
        "state": {
            "type": "str",
            "choices": ["prepared", "present", "paused", "absent", "withdrawn", "started", "claimed", "released", "returned", "kept", "disarmed"],
            "default": "present",
        },
        "standby": {"type": "dict", "options": voter},
        "witnesses": {"type": "list", "elements": "dict", "default": [], "options": voter},
        "removed_standbys": {"type": "list", "elements": "str", "default": []},
        "withdrawn_from": {"type": "list", "elements": "str", "default": []},
        "interval_seconds": {"type": "int", "default": 900},
        "copies": {"type": "int", "default": 2},
        "bandwidth_limit": {"type": "str"},
        "automatic": {"type": "bool", "default": False},
        "uri": {"type": "str"},
        "copy": {"type": "str"},
        "source": {"type": "str"},
        "confirmed": {"type": "str"},
        "proof": {
            "type": "dict",
            "options": {"by": {"type": "str", "choices": ["bmc"], "required": True}, "state": {"type": "str", "required": True}},
        },
        "keep_disks": {"type": "bool", "default": False},
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=arguments(), supports_check_mode=True, required_if=[("state", "present", ["standby"])])
    answer(module, lambda: apply(module.params, check_mode=module.check_mode))


if __name__ == "__main__":
    main()
