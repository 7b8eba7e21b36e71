#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_backup
short_description: Back up the data of a Galera member
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Streams the data of this host's MariaDB server through mariabackup and a compressor into one file (0600), while the server
    is running, consistent at one exact position of the cluster.
  - Then reads the file back and prepares the data. Only a file that a server could be started from gets its final name and a
    metadata file (the name and C(.json)) with position, checksum and versions.
  - A killed run leaves no file with the final name; the next run removes its temporary files.
extends_documentation_fragment:
  - reduced.footprint.attributes
  - reduced.footprint.attributes.changes_without_diff
  - reduced.footprint.attributes.linux
  - reduced.footprint.mariadb.unit
  - reduced.footprint.mariadb.datadir
attributes:
  check_mode:
    details:
      - Checks whether a backup is possible.
options:
  directory:
    description: Directory on this host where the file is created and verified. Requires free space of twice the size of the data.
    type: path
    required: true
  cluster:
    description: Name of the cluster, the first part of the file name.
    type: str
    required: true
  member:
    description: Name of this member, for the metadata file.
    type: str
    required: true
  lock_timeout:
    description: Seconds to wait for another backup on this host to finish.
    type: int
    default: 900
seealso:
  - module: reduced.footprint.galera_backup_store
  - module: reduced.footprint.galera_data
"""

EXAMPLES = r"""
- name: Back up the database
  reduced.footprint.galera_backup:
    directory: /var/lib/reduced.footprint/backup
    cluster: footprint
    member: "{{ inventory_hostname }}"
  register: made
"""

RETURN = r"""
backup:
  description: Content of the metadata file; empty in check mode.
  returned: success
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
  description: Path of the file, null in check mode.
  returned: success
  type: str
error:
  description: The error.
  returned: failure
  type: dict
  contains:
    message: {description: The problem., type: str, returned: always}
    path: {description: Path of the invalid value in the options or on the host. Null for other errors., type: str, returned: always}
    hint: {description: How to fix it. Null if unknown., type: str, returned: always}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_backup import BackupRequest, local_tool, make
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_galera import SERVER_ARGUMENTS, local_database


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "cluster": {"type": "str", "required": True},
            "member": {"type": "str", "required": True},
            "lock_timeout": {"type": "int", "default": 900},
            **SERVER_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    given = module.params
    request = BackupRequest(given["directory"], given["cluster"], given["member"], given["lock_timeout"])
    database, tool = local_database(given["unit"], given["datadir"]), local_tool(given["datadir"])
    try:
        changed, backup = make(request, database, tool, check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    path = os.path.join(given["directory"], backup.file) if backup else None
    module.exit_json(changed=changed, backup=backup.as_dict() if backup else {}, path=path)


if __name__ == "__main__":
    main()
