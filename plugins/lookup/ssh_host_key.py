# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: ssh_host_key
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Generate the SSH host key of a virtual machine once and store it on the control node
description:
  - Returns the private ed25519 key with the given name, in OpenSSH format. A missing key is generated and stored on the
    control node, in the directory C(ssh_host_keys) of the secrets, in a file that only its owner can read (mode 0600, in directories
    with mode 0700).
  - A file may be encrypted with C(ansible-vault) afterwards. Existing files are never changed.
  - In check mode nothing is written; a missing key is generated for that run only.
extends_documentation_fragment:
  - reduced.footprint.secrets
options:
  _terms:
    description: Names of virtual machines.
    type: list
    elements: str
    required: true
seealso:
  - module: reduced.footprint.vm_define
  - plugin: reduced.footprint.secret
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Define a VM whose host key is known before its first start
  reduced.footprint.vm_define:
    cluster: lab
    vms:
      - {id: web1, hypervisor: lxc, nics: [{bridge: br-admin}], disks: [{image: debian-root}]}
    host_keys:
      web1: "{{ lookup('reduced.footprint.ssh_host_key', 'web1') }}"
"""

RETURN = r"""
_raw:
  description: One private key per name.
  type: list
  elements: str
"""

import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot.run_ssh_host_key import ssh_host_key
from ansible_collections.reduced.footprint.plugins.plugin_utils.secrets_lookup import SecretsLookup


class LookupModule(SecretsLookup):
    """Names to private keys."""

    name = "ssh_host_key"

    def value(self, term: t.Any, directory: pathlib.Path, **given: t.Any) -> str:
        """Read or generate a key."""
        return ssh_host_key(term, directory, **given)
