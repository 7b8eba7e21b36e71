#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: one_time_key
short_description: Place or withdraw the restricted ssh key of a migration or move
version_added: 1.0.0
description:
  - Runs on the host that another host must reach as root. For a migration this is the source, for a move of a VM the
    destination, for copies of a VM its standby. For claims of a standby that starts the VM by itself, it is each witness. For backups of a
    database, it is each member of its cluster.
  - The line in root's C(authorized_keys) has C(restrict), an C(expiry-time) and a C(command) that runs the commands of that
    migration or move and refuses all others. Shell, terminal and forwarding are not available. Refused commands are recorded in
    the system log.
  - The key is accepted for 24 hours. While it is in use, this time is extended every hour, for 14 days at most. With
    O(purpose=standby) and O(purpose=backup) it is permanent.
  - Before the key is placed, root's login shell and the settings of sshd for root are checked. If they would refuse the key or break its
    sessions, for example because of another C(AuthorizedKeysFile), C(AllowUsers), or text that C(.bashrc) prints, the task fails and names each cause.
  - A key that was withdrawn or has expired runs nothing more, also in connections that are still open, and commands that are running are ended.
  - The worker of the migration or move withdraws the key when it ends. Use O(state=absent) for a key that was never used.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  name:
    description: Name of the migration, id of the VM, or name of the Galera cluster.
    type: str
    required: true
  cluster:
    description: Name of the cluster of the VM. Required for O(purpose=standby), because several clusters may use one
      standby or witness.
    type: str
  purpose:
    description: Purpose of the key.
    type: str
    choices: [migrate, move, standby, backup]
    required: true
  state:
    description: Whether the key must be present or absent.
    type: str
    choices: [present, absent]
    default: present
  public_key:
    description:
      - The C(public_key) that M(reduced.footprint.master_migrate), M(reduced.footprint.vm_move) or M(reduced.footprint.vm_standby)
        returned with C(state=prepared), or M(reduced.footprint.galera_backup) with C(state=scheduled). Required for O(state=present).
      - With O(state=absent), only this key is withdrawn, not one of the same name that another host has placed meanwhile.
    type: str
  allowed_from:
    description: IP addresses from which the key is accepted. If empty, it is accepted from any address.
    type: list
    elements: str
    default: []
  commands:
    description:
      - With O(purpose=migrate), the commands of the migration's hooks on the source. The key runs no other command.
    type: list
    elements: list
    default: []
notes:
  - OpenSSH 7.7 or newer is required on the host; older versions refuse the key.
  - With O(purpose=migrate) the key can read every file of the source, because all of them are copied, and can stop and start services
    and change addresses there. It can write no file except the migration's own state.
  - With O(purpose=move) the key can create VMs on the host and access its libvirt, which is equivalent to root there.
  - With O(purpose=standby) the key can write copies of that VM below the folder C(standby) of a storage pool, and read whether the VM
    was started on the host. It can start nothing and read no file.
  - With O(purpose=backup) the key can create a backup of the database, and read it, the images of glance and the credential keys of keystone. It can
    remove such a backup from the member again, and change nothing else.
seealso:
  - module: reduced.footprint.master_migrate
  - module: reduced.footprint.vm_move
  - module: reduced.footprint.vm_standby
"""

EXAMPLES = r"""
- name: Create the one-time key
  reduced.footprint.master_migrate:
    name: master
    state: prepared
  register: prepared

- name: Place the key on the source
  reduced.footprint.one_time_key:
    name: master
    purpose: migrate
    public_key: "{{ prepared.public_key }}"
    allowed_from: [192.0.2.11]
  delegate_to: laptop

- name: Withdraw an unused key
  reduced.footprint.one_time_key:
    name: master
    purpose: migrate
    state: absent
  delegate_to: laptop
"""

RETURN = r"""
key_marker:
  description: The comment at the end of the key's line.
  returned: success
  type: str
  sample: reduced.footprint-migrate-master
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._keys.run_one_time_key import apply

if t.TYPE_CHECKING:
    # a program that a key may run, which must be part of the code that is kept on this host
    from ansible_collections.reduced.footprint.plugins.module_utils._galera import run_backup_agent as _run_backup_agent  # noqa: F401


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "cluster": {"type": "str"},
            "purpose": {"type": "str", "choices": ["migrate", "move", "standby", "backup"], "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "public_key": {"type": "str", "no_log": False},
            "allowed_from": {"type": "list", "elements": "str", "default": []},
            "commands": {"type": "list", "elements": "list", "default": []},
        },
        required_if=[("state", "present", ["public_key"]), ("purpose", "standby", ["cluster"])],
        supports_check_mode=True,
    )
    answer(module, lambda: apply(module.params, check_mode=module.check_mode))


if __name__ == "__main__":
    main()
