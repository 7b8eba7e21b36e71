#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_files
short_description: Have services use the configuration they are to have
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Brings the files of a host's services and the units that read them to what they are to be, all in one call. Roles of a control
    plane have a dozen of both, and a task for each costs more than what it does.
  - A service is restarted or reloaded when a file it reads is younger than it. That is told by the clock and not by what
    this call has written, so a run that was killed between writing and restarting is completed by the next.
  - Files are written whole, in their order, each after its program has accepted it. Missing folders are made.
requirements:
  - systemd 248 or newer on the server
attributes:
  check_mode:
    support: full
    description: Tells the same actions. Programs are not asked whether they accept a file.
  diff_mode:
    support: full
    description: Shows each file before and after, those with O(files[].secret) without their texts.
options:
  files:
    description: Files, in the order they are written.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Where it lies. A link stays a link.
        type: path
        required: true
      content:
        description: Its whole text, usually that of a template.
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
        description: Its permissions, as octal digits.
        type: str
        default: "0644"
      folder_group:
        description: The group of its folder. Without this and O(files[].folder_mode) a folder that is there is left as it is.
        type: str
      folder_mode:
        description: The permissions of its folder, V(0755) for one that has to be made.
        type: str
      validate:
        description: Program and arguments that must accept a text before it is used; V(%s) stands for a file that has it.
        type: list
        elements: str
        default: []
      secret:
        description: Whether neither the text nor differences may be told.
        type: bool
        default: false
  units:
    description: Units of systemd, named with their kind.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: For example C(haproxy.service).
        type: str
        required: true
      enabled:
        description: Whether it is started with the host. Left alone without a value. One that is masked is unmasked for V(true).
        type: bool
      started:
        description: Whether it runs. Left alone without a value. One that is masked is unmasked for V(true).
        type: bool
      restart_after:
        description: Files it reads only when it starts.
        type: list
        elements: path
        default: []
      reload_after:
        description: Files it also reads when it is reloaded.
        type: list
        elements: path
        default: []
      act:
        description: Whether it is restarted or reloaded when due. Otherwise that is only told, for the caller to do in its own way.
        type: bool
        default: true
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
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
  description: What was done, or in check mode would be, for example V(write /etc/haproxy/haproxy.cfg) or V(reload haproxy.service).
  type: list
  elements: str
  returned: success
needs:
  description: For each unit what it was due for, V(restart), V(reload) or nothing, before anything was done about it.
  type: dict
  returned: success
error:
  description: What is wrong, where, and the hint.
  type: dict
  returned: failure
  contains:
    path:
      description: Where the bad value stands.
      type: str
      returned: always
    message:
      description: What is wrong.
      type: str
      returned: always
    hint:
      description: What to do about it.
      type: str
      returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_quiet_module import quiet
from ansible_collections.reduced.footprint.plugins.module_utils._service.run_service_files import configure, secrets_of


def main() -> None:
    """Write, start, restart, tell."""
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
    module.no_log_values.update(secrets_of(module.params))
    try:
        module.exit_json(**configure(module.params, check_mode=module.check_mode))
    except FootprintError as error:
        module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
