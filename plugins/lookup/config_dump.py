# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: config_dump
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Effective settings of a host, with all layers merged and secrets masked
description:
  - Returns the roles and services of a host in the control plane, and the settings of each service as its role uses
    them, including the defaults of the role.
  - Secrets are masked. A value is a secret if its name contains password, secret, token, key or the like, if it is encrypted with
    Ansible Vault, or if a lookup provides it. Secrets are not read for this; texts that contain them show the mask instead.
  - The playbook C(reduced.footprint.config_dump) prints the settings of all hosts.
options:
  _terms:
    description: No terms are used.
    type: list
    elements: str
    default: []
  origins:
    description: Return for each value the layer it came from.
    type: bool
    default: false
  services:
    description: Services that are declared or changed in addition to the built-in ones.
    type: dict
    default: {}
    vars:
      - name: footprint_services
"""

EXAMPLES = r"""
- name: Show the settings of the database
  hosts: galera
  gather_facts: false
  tasks:
    - name: Show the settings
      ansible.builtin.debug:
        msg: "{{ lookup('reduced.footprint.config_dump').configs.galera }}"
"""

RETURN = r"""
_raw:
  description:
    - One mapping with C(environment), C(address), C(roles), C(services) and C(configs), with O(origins) also C(origins).
  type: list
  elements: dict
"""

import contextlib
import os
import typing as t

from ansible import context
from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.lookup import LookupBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import redact
from ansible_collections.reduced.footprint.plugins.module_utils._topology import plan_deploy_order, plan_dump, plan_layers
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import Service, parse_services
from ansible_collections.reduced.footprint.plugins.plugin_utils.known_secrets import raw_variables

_ROLES = os.path.join(os.path.dirname(__file__), "..", "..", "roles")
_OURS = "reduced.footprint."
#: Variables that are not settings of this host.
_NO_SETTINGS = ("hostvars", "vars", "groups", "footprint_topology", "footprint_services")


class LookupModule(LookupBase):
    """Return the settings of a host without secrets."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[dict[str, t.Any]]:
        """Return the settings.

        :raises AnsibleError: a declared service is invalid.
        """
        self.set_options(var_options=variables, direct=kwargs)
        known = dict(variables or {})
        # a template that refers to a secret gets the mask instead
        sealed = self._sealed(_places(known))
        safe = {
            name: value if name in _NO_SETTINGS else plan_dump.hide(value) if name in sealed else plan_dump.shield(value, name, _vaulted)
            for name, value in known.items()
        }
        topology = safe.get("footprint_topology") or {}
        try:
            services = parse_services(self._templar.template(self.get_option("services")), "footprint_services")
            mine = [service for service in services.values() if service.role and known.get("inventory_hostname") in self._hosts(service, safe)]
        except FootprintError as error:
            raise AnsibleError(f"config_dump: {error}") from None
        layers = topology.get("origins") or {}
        configs: dict[str, t.Any] = {}
        origins: dict[str, str] = {}
        for service in mine:
            defaults = self._defaults(service)
            prefix = f"{service.variable_prefix}_"
            given = {name[len(prefix) :]: value for name, value in safe.items() if name.startswith(prefix)}
            scope = {**safe, **{f"{prefix}{name}": value for name, value in defaults.items() if name not in given}}
            configs[service.name] = {name: self._value(value, scope) for name, value in sorted({**defaults, **given}.items())}
            origins.update(_origins(service.name, configs[service.name], layers, given))
        for name in dict.fromkeys(path.split(".")[0] for path in layers):
            if name not in services and name in safe:
                configs[name] = self._value(safe[name], safe)
                origins.update(_origins(name, configs[name], layers, {}))
        found = {
            "environment": str(self._value(safe.get("footprint_environment", safe.get("footprint_cluster")), safe) or "footprint"),
            "address": str(self._value(safe.get("ansible_host"), safe) or ""),
            "roles": list(topology.get("roles") or self._value(safe.get("node_roles"), safe) or []),
            "services": [service.name for service in mine],
            "configs": configs,
            **({"origins": origins} if self.get_option("origins") else {}),
        }
        return [{**found, "configs": redact(configs, self._secrets(known))}]

    def _hosts(self, service: Service, safe: t.Mapping[str, t.Any]) -> tuple[str, ...]:
        chosen = self._value(safe.get(f"{service.variable_prefix}_group"), safe)
        cloud = boolean(self._value(safe.get("footprint_cloud"), safe) or False)
        return plan_deploy_order.members(service, safe.get("groups") or {}, str(chosen) if chosen else None, cloud)

    def _value(self, value: t.Any, scope: t.Mapping[str, t.Any]) -> t.Any:
        """Template a value; one that cannot be templated here, for example without facts, is returned as it is."""
        try:
            return self._templar.copy_with_new_env(available_variables=scope).template(value)
        except AnsibleError:
            return _plain(value)

    def _defaults(self, service: Service) -> dict[str, t.Any]:
        """Return the defaults of the service's role without the prefix; for roles of other collections the declared ones."""
        file = os.path.join(_ROLES, service.role[len(_OURS) :], "defaults", "main.yml")
        if not service.role.startswith(_OURS) or not os.path.isfile(file):
            return dict(service.defaults)
        content = self._loader.load_from_file(file, trusted_as_template=True)
        prefix = f"{service.variable_prefix}_"
        found = {name[len(prefix) :]: plan_dump.shield(value, name) for name, value in (content or {}).items() if name.startswith(prefix)}
        return plan_layers.merge(found, service.defaults)

    def _sealed(self, places: t.Iterable[str]) -> set[str]:
        """Return the names of variables in files that are encrypted as a whole with Ansible Vault.

        :arg places: files and folders that are searched.
        """
        found: set[str] = set()
        for file in (file for place in places for file in _files(place)):
            with open(file, "rb") as stream:
                sealed = stream.read(14) == b"$ANSIBLE_VAULT"
            content = None
            # a file with another password is not in use, for example a backup: Ansible would have failed
            with contextlib.suppress(AnsibleError):
                content = self._loader.load_from_file(file) if sealed else None
            found |= {str(key) for key in content} if isinstance(content, t.Mapping) else set()
        return found

    def _secrets(self, known: t.Mapping[str, t.Any]) -> set[str]:
        """Return the plain text secrets in the variables of any host; values derived from them are masked as well."""
        found = set(plan_dump.secrets_in({name: value for name, value in known.items() if name not in _NO_SETTINGS}))
        for values in raw_variables(known.get("hostvars")):
            found |= set(plan_dump.secrets_in({name: value for name, value in values.items() if name not in _NO_SETTINGS}))
        return found


def _origins(name: str, value: t.Any, layers: t.Mapping[str, str], given: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, str]]:
    for path, unused in plan_layers.leaves({name: value}):
        yield ".".join(path), plan_dump.origin(path, layers, len(path) > 1 and path[1] in given)


def _places(known: t.Mapping[str, t.Any]) -> list[str]:
    """Return where Ansible finds files with variables: beside the inventories and the playbook, and those of ``-e @file``."""
    bases = {str(known[name]) for name in ("inventory_dir", "playbook_dir") if known.get(name)}
    for source in map(str, known.get("ansible_inventory_sources") or []):
        bases.add(source if os.path.isdir(source) else os.path.dirname(source))
    given = [os.path.expanduser(words[1:]) for words in map(str, context.CLIARGS.get("extra_vars") or []) if words.startswith("@")]
    return [*given, *(os.path.join(base, name) for base in sorted(bases) for name in ("group_vars", "host_vars"))]


def _files(place: str) -> list[str]:
    """Return the file, or all files below the folder."""
    return [place] if os.path.isfile(place) else [os.path.join(folder, name) for folder, unused, names in os.walk(place) for name in names]


def _plain(value: t.Any) -> t.Any:
    """Return a copy without Ansible's tags, so that it is not templated again when shown."""
    if isinstance(value, t.Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, str) else value


def _vaulted(value: t.Any) -> bool:
    """Whether a value is encrypted with Ansible Vault."""
    return type(value).__name__ in ("EncryptedString", "AnsibleVaultEncryptedUnicode")
