# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: playbook_variables
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Variables of the playbooks of this collection
description:
  - Returns the argument specification of playbooks, and messages about variables with invalid values and about variables that start with the name
    of a playbook or, on any host, of a role of this collection but are none of its variables, for example because they are misspelled.
  - A variable with the prefix of a role that resembles none of its variables is a warning, because something else may use it.
  - Variables that playbooks have in common, such as C(footprint_takeover), are always included.
  - The names C(status) and C(site) are ordinary words. Variables that start with them and do not resemble a variable of the playbook
    are accepted.
options:
  _terms:
    description: Names of playbooks, for example V(add_server).
    type: list
    elements: str
    required: true
seealso:
  - module: ansible.builtin.validate_argument_spec
"""

EXAMPLES = r"""
- name: Show the variables of a playbook
  ansible.builtin.debug:
    msg: "{{ (lookup('reduced.footprint.playbook_variables', 'add_server')).options }}"
"""

RETURN = r"""
_raw:
  description:
    - One mapping with C(options), as M(ansible.builtin.validate_argument_spec) takes them, and the lists of messages C(unknown) and C(invalid).
  type: list
  elements: dict
"""

import difflib
import os
import re
import typing as t

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import remove_values
from ansible.plugins.lookup import LookupBase
from ansible.utils.display import Display
from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_backends
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import plan_names, run_names

_SPECS = os.path.join(os.path.dirname(__file__), "..", "..", "playbooks", "argument_specs")
# normalized, as the loader reads them; the folder of plugins may be a link
_ROLES = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", "roles"))
#: Lists for which the roles accept one text.
_ONE = re.compile(r"\A(keystone_rotate|master_migrate_services|\w+_allowed)\Z")
#: How ansible-core says that a key of a suboption is unknown.
_UNSUPPORTED = re.compile(r"\A(\S+)\. Supported parameters include: (.*)\Z", re.DOTALL)
#: The specification of variables that all playbooks have in common.
_SHARED = "shared"


class LookupModule(LookupBase):
    """Read the argument specifications of playbooks."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[dict[str, t.Any]]:
        """Return the options, and messages about unknown and invalid variables.

        :raises AnsibleError: an unknown playbook.
        """
        self.set_options(var_options=variables, direct=kwargs)
        options: dict[str, t.Any] = {}
        unknown: list[str] = []
        for name in (*map(str, terms), _SHARED):
            path = os.path.join(_SPECS, f"{name}.yml")
            if not os.path.isfile(path):
                raise AnsibleError(f"playbook_variables: unknown playbook {name!r}.")
            mine = self._loader.load_from_file(path)["argument_specs"][name]["options"]
            # names that begin with footprint_ are checked with those of roles
            unknown += complaints(name, mine, variables or {}) if name != _SHARED else []
            options.update(mine)
        hostvars = (variables or {}).get("hostvars") or {}
        hosts, known = {name: hostvars[name] for name in hostvars}, run_names.known_variables()
        errors, warnings = run_names.unknown_variables(hosts, known)
        for message in warnings:
            Display().warning(message)
        # not rendered: a template may need what only a run knows, or generate a secret
        raw = {name: hostvars.raw_get(name) if hasattr(hostvars, "raw_get") else hostvars[name] for name in hosts}
        unknown += errors + run_names.slips(raw) + self._invalid_values(raw, known)
        path = os.path.join(_ROLES, "images", "vars", "main.yml")
        catalogue = list(self._loader.load_from_file(path)["__images_catalogue"]) if os.path.isfile(path) else []
        backends = [str(error) for one in raw.values() for error in model_backends.unknown_keys(one.get(model_backends.PREFIX))]
        unknown += dict.fromkeys((*run_names.images(raw, catalogue), *backends, *run_names.unknown_sources(raw)))
        given = {name: self._templar.template(variables[name]) for name in options if name in (variables or {})}
        return [{"options": options, "unknown": unknown, "invalid": [*invalid(options, given), *invalid_ports(hosts, known)]}]

    def _invalid_values(self, hosts: t.Mapping[str, t.Mapping[str, t.Any]], known: t.Any) -> list[str]:
        """Return a message for each value of a variable of a role that does not match the role's argument specification."""
        found: list[str] = []
        for (role, name), values in run_names.role_values(hosts, known).items():
            path = os.path.join(_ROLES, role, "meta", "argument_specs.yml")
            specs = self._loader.load_from_file(path)["argument_specs"].values() if os.path.isfile(path) else ()
            options = next((spec["options"] for spec in specs if name in spec.get("options", ())), {})
            for value, where in values:
                addresses = plan_names.invalid_addresses(value, name)
                found += [f"{error.path} ({where}): {error.message} {error.hint}" for error in addresses]
                if value and isinstance(value, str) and options and options[name].get("type") == "list" and not _ONE.match(name):
                    # the specification accepts comma-separated texts, but the roles would use each letter
                    what, hint = ("a list of mappings", "") if options[name].get("elements") == "dict" else ("a list", f". Write [{value}]")
                    text = "a text" if options[name].get("no_log") else f"the text {value!r}{hint}"
                    found.append(f"{name} ({where}): must be {what}, not {text}.")
                elif options and not addresses:
                    found += [f"{name} ({where}): {message.removeprefix(f'{name}: ')}" for message in invalid({name: options[name]}, {name: value})]
        return found


def invalid(options: t.Mapping[str, t.Any], given: t.Mapping[str, t.Any]) -> list[str]:
    """Return a message for each value that does not match the argument specification."""
    # a survey of AWX sends an empty text for an optional question without an answer
    answered = {name: value for name, value in given.items() if value not in (None, "")}
    # the specification accepts texts such as a=b for a mapping, but the playbooks would find none of its keys
    texts = [name for name, value in answered.items() if isinstance(value, str) and options[name].get("type") == "dict"]
    found = [f"{name}: must be a mapping, not the text {answered.pop(name)!r}. Use -e '{{\"{name}\": {{...}}}}'." for name in texts]
    result = ArgumentSpecValidator(options).validate(answered)
    # as ansible-core does in a module: values of options with no_log are not shown
    for message in remove_values(result.error_messages, result._no_log_values):  # pylint: disable=protected-access
        for name, value in answered.items():
            if f"'{name}'" in message:
                # ansible-core shows the value, but of a number with a fraction only the Python class
                message = message.replace(str(type(value)), repr(str(value)))
        found.append(_UNSUPPORTED.sub(r"\1: is not a known key. Use \2", f"{message.rstrip('.')}."))
    return found


def invalid_ports(hosts: t.Mapping[str, t.Mapping[str, t.Any]], known: plan_names.Known) -> list[str]:
    """Return a message for each port in variables of roles that is out of range. Argument specifications have no ranges."""
    ports = {name for names in known.values() for name in names if name.endswith(("_port", "_frontends"))}
    found: dict[str, None] = {}
    for variables in hosts.values():
        for name in sorted(ports.intersection(variables)):
            try:
                found.update(dict.fromkeys(plan_names.invalid_ports(variables[name], name)))
            except AnsibleError:
                # it refers to what is known later, such as facts
                continue
    return list(found)


def complaints(playbook: str, options: t.Mapping[str, t.Any], given: t.Iterable[str]) -> list[str]:
    """Return a message for each variable with the prefix of a playbook that is none of its options."""
    prefix = f"{playbook}_"
    endings = {name[len(prefix) :]: name for name in options}
    used = f"Use some of {', '.join(sorted(endings.values()))}." if endings else "It has none of its own."
    found = []
    for name in sorted(given):
        if not name.startswith(prefix) or name in options:
            continue
        close = difflib.get_close_matches(name[len(prefix) :], endings, 1)
        if close:
            found.append(f"{name}: the playbook {playbook} has no such variable. Did you mean {endings[close[0]]}?")
        elif "_" in playbook:
            found.append(f"{name}: the playbook {playbook} has no such variable. {used}")
    return found
