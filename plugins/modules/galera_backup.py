#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_backup
short_description: Create and store backups of a Galera cluster
version_added: 1.0.0
description:
  - With O(state=created) streams the data of this host's MariaDB server through mariabackup and a compressor into one file (0600), while
    the server is running, consistent at one exact position of the cluster. Then reads the file back and prepares the data. Only a file
    that a server could be started from gets its final name and a metadata file (the name and C(.json)) with position, checksum and versions.
  - With O(state=stored) verifies the checksum of such a file that was copied to this host, renames it (0600), and writes its metadata file.
    Removes the oldest backups of the same cluster beyond O(retain), but never one that is dated later than this backup, because the clock was set
    back then.
  - With O(state=scheduled) this host fetches a backup every day from the ready member with the fewest clients, over ssh with a key that
    M(reduced.footprint.one_time_key) must place on each of O(members). With it come the images of glance and the credential keys of keystone, as
    files in a directory next to the backup (C(.files)); files that an earlier backup has as well are hard links. V(unscheduled) ends this; what is
    stored is kept.
  - A killed run leaves no file with the final name; the next run removes its temporary files.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
  - reduced.footprint.mariadb.unit
  - reduced.footprint.mariadb.datadir
attributes:
  check_mode:
    details:
      - Checks whether a backup is possible, or which files would be stored and removed. Creates, stores and removes none.
  diff_mode:
    details:
      - With O(state=stored) lists the removed files and the new one. With O(state=created) there is nothing to compare.
options:
  state:
    description:
      - V(created) backs up the member on this host.
      - V(stored) stores a backup that was copied to this host.
      - V(scheduled) fetches a backup to this host every day, V(unscheduled) does not any more.
    type: str
    choices: [created, stored, scheduled, unscheduled]
    default: created
  directory:
    description: Directory of the backups on this host. V(created) verifies the file there and requires free space of twice the size of the data.
    type: path
    required: true
  cluster:
    description: Name of the cluster, the first part of the file name. Required unless O(state=stored).
    type: str
  member:
    description: Name of this member, for the metadata file. Required with O(state=created).
    type: str
  lock_timeout:
    description: Seconds to wait for another backup on this host to finish, with O(state=created).
    type: int
    default: 900
  incoming:
    description: The copied file, on the same file system as O(directory). Required with O(state=stored).
    type: path
  backup:
    description: RV(backup) of the run that created the file. Required with O(state=stored).
    type: dict
  retain:
    description: Number of backups of this cluster to keep with O(state=stored) or V(scheduled), including the new one. V(0) keeps all.
    type: int
    default: 7
  time:
    description: Time of day of the backup, in the time zone of this host, with O(state=scheduled).
    type: str
    default: "02:15"
  members:
    description: The members of the cluster. Required with O(state=scheduled).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Its name.
        type: str
        required: true
      host:
        description: Address of its ssh server.
        type: str
        required: true
      port:
        description: Port of its ssh server.
        type: int
        default: 22
      host_keys:
        description: Its ssh host keys, as C(type base64).
        type: list
        elements: str
        required: true
seealso:
  - module: reduced.footprint.galera_backup_info
  - module: reduced.footprint.galera_data
"""

EXAMPLES = r"""
- name: Back up the database
  reduced.footprint.galera_backup:
    directory: /var/lib/reduced.footprint/backup
    cluster: footprint
    member: "{{ inventory_hostname }}"
  register: made

- name: Store the backup, after it was copied to the control node
  reduced.footprint.galera_backup:
    state: stored
    directory: /srv/backups
    incoming: /srv/backups/.incoming/footprint-20261122T021500Z.mbs.zst
    backup: "{{ made.backup }}"
    retain: 14
  delegate_to: localhost

- name: Fetch a backup to this host every day
  reduced.footprint.galera_backup:
    state: scheduled
    directory: /srv/backups
    cluster: footprint
    members:
      - {name: controller1, host: 192.0.2.21, host_keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0kzp4wJ7wbe8nNXfUDOkPBnTWEE0SzQ2PMsTnLvGpD]}
"""

RETURN = r"""
backup:
  description: Content of the metadata file; empty with O(state=created) in check mode.
  returned: success, with O(state=created) or V(stored)
  type: dict
  contains:
    name:
      description: Cluster and start time.
      type: str
      sample: footprint-20261122T021500Z
    file:
      description: Name of the file in O(directory).
      type: str
      sample: footprint-20261122T021500Z.mbs.zst
    sha256:
      description: Checksum of the file.
      type: str
    bytes:
      description: Size of the file.
      type: int
    unpacked_bytes:
      description: Size of the unpacked data, which a restore requires next to the data directory.
      type: int
    uuid:
      description: UUID of the cluster.
      type: str
    seqno:
      description: Position of the data in the cluster.
      type: int
    gtid:
      description: Position in the binary log, empty without one.
      type: str
    server:
      description: Version of the server.
      type: str
    member:
      description: Member that created the backup.
      type: str
    databases:
      description: Databases in the backup.
      type: list
      elements: str
path:
  description: Path of the file, null with O(state=created) in check mode.
  returned: success, with O(state=created) or V(stored)
  type: str
public_key:
  description: The key for O(reduced.footprint.one_time_key#module:public_key), null in check mode before the first run.
  returned: success, with O(state=scheduled)
  type: str
removed:
  description: Names of older backup files that were removed, or in check mode would be.
  returned: success, with O(state=stored)
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_backup import Backup, BackupRequest, keep, local_tool, make, parse_backup
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_daily_backup import schedule
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_galera import SERVER_ARGUMENTS, local_database

_MEMBER = {
    "name": {"type": "str", "required": True},
    "host": {"type": "str", "required": True},
    "port": {"type": "int", "default": 22},
    "host_keys": {"type": "list", "elements": "str", "required": True, "no_log": False},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["created", "stored", "scheduled", "unscheduled"], "default": "created"},
            "directory": {"type": "path", "required": True},
            "cluster": {"type": "str"},
            "member": {"type": "str"},
            "lock_timeout": {"type": "int", "default": 900},
            "incoming": {"type": "path"},
            "backup": {"type": "dict"},
            "retain": {"type": "int", "default": 7},
            "time": {"type": "str", "default": "02:15"},
            "members": {"type": "list", "elements": "dict", "default": [], "options": _MEMBER},
            **SERVER_ARGUMENTS,
        },
        required_if=[
            ("state", "created", ("cluster", "member")),
            ("state", "stored", ("incoming", "backup")),
            ("state", "scheduled", ("cluster", "members")),
            ("state", "unscheduled", ("cluster",)),
        ],
        supports_check_mode=True,
    )
    given = module.params
    more: dict[str, t.Any] = {}
    try:
        if given["state"] in ("scheduled", "unscheduled"):
            module.exit_json(**schedule(given, check_mode=module.check_mode))
        backup: Backup | None
        if given["state"] == "created":
            request = BackupRequest(given["directory"], given["cluster"], given["member"], given["lock_timeout"])
            database, tool = local_database(given["unit"], given["datadir"]), local_tool(given["datadir"])
            changed, backup = make(request, database, tool, check_mode=module.check_mode)
        else:
            backup = parse_backup(given["backup"], "backup")
            changed, removed = keep(given["directory"], given["incoming"], backup, given["retain"], check_mode=module.check_mode)
            diff = {"before": "".join(f"{name}\n" for name in removed), "after": f"{backup.file}\n" if changed else ""}
            more = {"removed": list(removed), "diff": diff}
    except FootprintError as error:
        module.fail_json(**error.as_result())
    path = os.path.join(given["directory"], backup.file) if backup else None
    module.exit_json(changed=changed, backup=backup.as_dict() if backup else {}, path=path, **more)


if __name__ == "__main__":
    main()
