# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: secret
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 0.1.0
short_description: A secret that is generated once and kept in a file the operator owns
description:
  - Returns the secret of a name. When there is none yet it is generated and kept on the control node, in a file of its own
    that only its owner can read (0600, in directories 0700).
  - Safe when many hosts or several plays ask at the same time. All of them get the same value, and a file is never half
    written.
  - A file may be written by hand before, or encrypted with C(ansible-vault) afterwards. What is there is never changed.
  - In check mode nothing is written. A secret that is still missing then has a stand-in, which is the same for all hosts, but
    follows from its name and is no secret.
options:
  _terms:
    description:
      - Names such as V(rabbitmq/footprint). The secret is kept in a file of that name with C(.txt) behind it; Ansible passes by
        such files when the directory of the inventory is its inventory.
    type: list
    elements: str
    required: true
  length:
    description: How many characters a new secret has.
    type: int
    default: 32
  chars:
    description:
      - Of which characters a new secret is made. V(ascii_letters), V(ascii_lowercase), V(ascii_uppercase), V(digits),
        V(hexdigits) and V(punctuation) stand for sets of characters, anything else for itself.
    type: list
    elements: str
    default: [ascii_letters, digits]
  bytes:
    description: Make a new secret of so many random bytes instead. V(32) and the default O(encoding) make a Fernet key.
    type: int
  encoding:
    description: How random bytes are written.
    type: str
    choices: [base64url, base64, hex]
    default: base64url
  directory:
    description: Where the secrets are kept. Default C(.secrets/) and the name of the environment, beside the inventory.
    type: str
    vars:
      - name: footprint_secrets
  environment:
    description: Name of the environment. Default is the variable C(footprint_cluster), else V(footprint).
    type: str
    vars:
      - name: footprint_environment
"""

EXAMPLES = r"""
- name: A user whose password nobody has to think of
  hosts: rabbitmq
  vars:
    shop_password: "{{ lookup('reduced.footprint.secret', 'rabbitmq/shop') }}"
    shop_key: "{{ lookup('reduced.footprint.secret', 'shop/fernet', bytes=32) }}"
  roles:
    - role: reduced.footprint.rabbitmq
      vars:
        rabbitmq_users:
          - name: shop
            password: "{{ shop_password }}"
            permissions: [{vhost: /}]
"""

RETURN = r"""
_raw:
  description: One secret per name.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import Recipe
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_secret import secret
from ansible_collections.reduced.footprint.plugins.plugin_utils.secrets_lookup import SecretsLookup


class LookupModule(SecretsLookup):
    """Names in, secrets out."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        """Read the secrets, or make them.

        :raises AnsibleError: a bad name or option, or a file that cannot be used.
        """
        try:
            directory, given = self.begin(variables, kwargs)
            recipe = Recipe.parse(self.get_option("length"), self.get_option("chars"), self.get_option("bytes"), self.get_option("encoding"))
            return [secret(term, directory, recipe, **given) for term in terms]
        except FootprintError as error:
            raise AnsibleError(f"secret: {error}") from error
