#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_files
short_description: Write configuration files and restart or reload the services that read them
version_added: 1.0.0
description:
  - Brings the configuration files of services and the systemd units that read them to the wanted state, all in one call. A role of the
    control plane has a dozen of both, and one task for each takes longer than the work itself.
  - A service is restarted or reloaded if a file it reads is newer than its last start or reload. Times are compared, not
    what this call has written, so a run that was killed between writing and restarting is completed by the next one.
  - Files are written atomically in the given order, each after its program has validated it. Missing directories are created.
requirements:
  - systemd 248 or newer on the server
attributes:
  check_mode:
    details:
      - Files are not validated by their programs.
  diff_mode:
    details:
      - Omits the content of files with O(files[].secret). In others, values are masked that are secrets by the names of their settings or by their
        format, such as private keys and passwords in URLs, and those of variables with such names, and of variables to which
        these refer, wherever they appear.
options:
  files:
    description: Files, in the order in which they are written.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Path of the file. A symbolic link is followed and stays a link.
        type: path
        required: true
      content:
        description: Complete content of the file, usually a rendered template.
        type: str
        required: true
      owner:
        description: Name of its owner.
        type: str
        default: root
      group:
        description: Name of its group.
        type: str
        default: root
      mode:
        description: Permissions, as octal digits.
        type: str
        default: "0644"
      folder_group:
        description: Group of its directory. Without this and O(files[].folder_mode) an existing directory is not changed.
        type: str
      folder_mode:
        description: Permissions of its directory, V(0755) for one that is created.
        type: str
      validate:
        description: Command that must accept the content before the file is replaced; V(%s) stands for a temporary file with that content.
        type: list
        elements: str
        default: []
      secret:
        description: Whether to hide the content in results and differences.
        type: bool
        default: false
  units:
    description: systemd units.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name with its type, for example C(haproxy.service).
        type: str
        required: true
      enabled:
        description: Whether the unit is started at boot. Not changed without a value. V(true) also unmasks the unit.
        type: bool
      started:
        description: Whether the unit runs. Not changed without a value. V(true) also unmasks the unit.
        type: bool
      restart_after:
        description: Files that the unit reads only when it starts.
        type: list
        elements: path
        default: []
      reload_after:
        description: Files that the unit also reads when it is reloaded.
        type: list
        elements: path
        default: []
      act:
        description: Whether to restart or reload the unit when due. With V(false) this is only returned in RV(needs), for the caller to do.
        type: bool
        default: true
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
"""

EXAMPLES = r"""
- name: Configure HAProxy
  reduced.footprint.service_files:
    files:
      - path: /etc/haproxy/haproxy.cfg
        content: "{{ lookup('ansible.builtin.template', 'haproxy.cfg.j2') }}"
        validate: [haproxy, -c, -f, "%s"]
      - path: /etc/systemd/system/haproxy.service.d/restart.conf
        content: "[Service]\nRestart=always\n"
    units:
      - name: haproxy.service
        enabled: true
        started: true
        reload_after: [/etc/haproxy/haproxy.cfg]
        restart_after: [/etc/systemd/system/haproxy.service.d/restart.conf]
"""

RETURN = r"""
actions:
  description: What was done, or would be done in check mode, for example V(write /etc/haproxy/haproxy.cfg) or V(reload haproxy.service).
  type: list
  elements: str
  returned: success
needs:
  description: What each unit was due for before any unit was changed, V(restart), V(reload) or empty.
  type: dict
  returned: success
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet
from ansible_collections.reduced.footprint.plugins.module_utils._service.run_service_files import configure, secrets_of, shown_params


def main() -> None:
    """Run the module."""
    paths = {"type": "list", "elements": "path", "default": []}
    file = {
        "path": {"type": "path", "required": True},
        "content": {"type": "str", "required": True},
        "owner": {"type": "str", "default": "root"},
        "group": {"type": "str", "default": "root"},
        "mode": {"type": "str", "default": "0644"},
        "folder_group": {"type": "str"},
        "folder_mode": {"type": "str"},
        "validate": {"type": "list", "elements": "str", "default": []},
        "secret": {"type": "bool", "default": False},
    }
    unit = {
        "name": {"type": "str", "required": True},
        "enabled": {"type": "bool"},
        "started": {"type": "bool"},
        "restart_after": paths,
        "reload_after": paths,
        "act": {"type": "bool", "default": True},
    }
    module = quiet(AnsibleModule)(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "default": [], "options": file},
            "units": {"type": "list", "elements": "dict", "default": [], "options": unit},
        },
        supports_check_mode=True,
    )
    given = module.params
    # Ansible returns the parameters; no_log would hide all of a content, and with it every equal text
    module.params = shown_params(given, secrets_of(given))
    answer(module, lambda: configure(given, check_mode=module.check_mode))


if __name__ == "__main__":
    main()
