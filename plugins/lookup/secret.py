# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: secret
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Generate a secret once and store it on the control node
description:
  - Returns the secret with the given name. A missing secret is generated and stored on the control node, in a separate file
    that only its owner can read (mode 0600, in directories with mode 0700).
  - Safe with concurrent lookups by many hosts or several plays. All of them get the same value, and a file is never partially
    written.
  - A file may be written manually before, or encrypted with C(ansible-vault) afterwards. Existing files are never changed.
  - In check mode nothing is written. A missing secret is replaced by a placeholder, which is the same for all hosts. It is derived from
    the name and is not secret.
extends_documentation_fragment:
  - reduced.footprint.secrets
options:
  _terms:
    description:
      - Names such as V(rabbitmq/footprint). The file has this name with the suffix C(.txt), which Ansible ignores in an
        inventory directory.
    type: list
    elements: str
    required: true
  length:
    description: Number of characters of a new secret.
    type: int
    default: 32
  chars:
    description:
      - Characters of a new secret. V(ascii_letters), V(ascii_lowercase), V(ascii_uppercase), V(digits),
        V(hexdigits) and V(punctuation) are sets of characters, any other value stands for its own characters.
    type: list
    elements: str
    default: [ascii_letters, digits]
  bytes:
    description: Number of random bytes of a new secret, instead of characters. V(32) with the default O(encoding) is a Fernet key.
    type: int
  encoding:
    description: Encoding of random bytes.
    type: str
    choices: [base64url, base64, hex]
    default: base64url
"""

EXAMPLES = r"""
- name: Create a RabbitMQ user with a generated password
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

import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import Recipe
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_secret import secret
from ansible_collections.reduced.footprint.plugins.plugin_utils.secrets_lookup import SecretsLookup


class LookupModule(SecretsLookup):
    """Names to secrets."""

    name = "secret"

    def value(self, term: t.Any, directory: pathlib.Path, **given: t.Any) -> str:
        """Read or generate a secret."""
        recipe = Recipe.parse(self.get_option("length"), self.get_option("chars"), self.get_option("bytes"), self.get_option("encoding"))
        return secret(term, directory, recipe, **given)
