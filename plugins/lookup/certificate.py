# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: certificate
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Issue a certificate once and store it with its key on the control node
description:
  - Returns the private key, the certificate and the CA certificate for a name, in PEM format. A missing certificate or CA is created
    and stored on the control node, key and certificate in one file that only its owner can read (mode 0600, in directories with mode 0700).
  - The certificates are valid for both server and client authentication, as members of a cluster need it, and for ten years, but not longer than their
    CA. A certificate that lacks a requested address or name, was signed by another CA, or expires within 30 days, is renewed; remove the file to get
    a new certificate earlier.
  - A CA is renewed in the last two of its ten years, with the same name and key. Certificates that were signed before are valid with the new one, and
    those that are signed afterwards with the earlier one, so no member has to be stopped. A CA without its key, and one that another CA has signed,
    are not renewed.
  - A file may be encrypted with C(ansible-vault) afterwards; such a file is never changed. Remove that of a certificate when its
    addresses change, and decrypt that of a CA in the last two years.
  - In check mode nothing is written. The texts of missing keys and certificates are empty; instead of one that would be renewed, another one is
    returned, so that tasks report the change.
extends_documentation_fragment:
  - reduced.footprint.secrets
options:
  _terms:
    description: Names such as V(galera/controller1); the last part becomes the name in the certificate.
    type: list
    elements: str
    required: true
  authority:
    description: Name of the certificate authority (CA) that signs, in the same directory.
    type: str
    required: true
  addresses:
    description: IP addresses of the certificate (subject alternative names).
    type: list
    elements: str
    default: []
  names:
    description: Additional DNS names of the certificate.
    type: list
    elements: str
    default: []
seealso:
  - plugin: reduced.footprint.secret
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Install the private key of a member
  ansible.builtin.copy:
    content: "{{ lookup('reduced.footprint.certificate', 'galera/' ~ inventory_hostname, authority='galera/ca').key }}"
    dest: /etc/shop/key.pem
    mode: "0600"
  no_log: true
"""

RETURN = r"""
_raw:
  description: One dictionary per name, with C(key), C(certificate) and C(ca).
  type: list
  elements: dict
"""

import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._certificate.run_certificate import certificate
from ansible_collections.reduced.footprint.plugins.plugin_utils.secrets_lookup import SecretsLookup


class LookupModule(SecretsLookup):
    """Names to certificates."""

    name = "certificate"

    def value(self, term: t.Any, directory: pathlib.Path, **given: t.Any) -> dict[str, str]:
        """Read or issue a certificate."""
        return certificate(term, self.get_option("authority"), directory, self.get_option("addresses"), names=self.get_option("names"), **given)
