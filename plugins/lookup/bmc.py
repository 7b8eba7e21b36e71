# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: bmc
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: The management controller of a server, with its password
description:
  - Returns C(bmc) of a server in the inventory for the option C(bmc) of M(reduced.footprint.server_power). The password is read from the secret
    that C(bmc.secret) names, like P(reduced.footprint.secret#lookup) does; a missing one is never generated.
  - The result contains the password. Use it only as this option, which is never logged.
extends_documentation_fragment:
  - reduced.footprint.secrets
options:
  _terms:
    description: Names of servers.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Power on every server that has a management controller
  reduced.footprint.server_power:
    bmc: "{{ lookup('reduced.footprint.bmc', item) }}"
    state: "on"
  loop: "{{ groups['servers'] | select('in', groups['has_bmc'] | default([])) }}"
  delegate_to: localhost
"""

RETURN = r"""
_raw:
  description: One management controller per name.
  type: list
  elements: dict
"""

import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_bmc
from ansible_collections.reduced.footprint.plugins.plugin_utils.secrets_lookup import SecretsLookup


class LookupModule(SecretsLookup):
    """Names of servers to their management controllers."""

    name = "bmc"

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[t.Any]:
        """Return the management controller of each server."""
        self._hostvars = (variables or {}).get("hostvars") or {}
        return super().run(terms, variables, **kwargs)

    def value(self, term: t.Any, directory: pathlib.Path, **given: t.Any) -> dict[str, t.Any]:
        """Read the secret of a server's controller."""
        if term not in self._hostvars:
            raise InputError(f"{term} is not a host of the inventory.", None, "Use the name of a server.")
        known = self._hostvars[term]
        path = f"servers.{term}.bmc"
        if not known.get("bmc"):
            hint = "Add {address: 192.0.2.101, user: operator, secret: bmc/metal1}."
            raise InputError("is not set, so the power of this server cannot be controlled.", path, hint)
        own = known.get("ansible_host")
        entry = dict(known["bmc"])
        model_bmc.check_entry(entry, own, path)
        entry.pop("boot_mac", None)
        password = self._controller_password(term, entry.pop("secret"), directory, **given)
        return {**entry, "password": password, "server_address": own}
