# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the report of a discovery."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: discovery_report
short_description: Compare the hardware of servers with the inventory
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Compares the hardware of each server with C(hardware) and C(node_capacity) in the inventory.
positional: declared
options:
  _input:
    description: Each server with the text of the file with its hardware, empty if it was not read.
    type: dict
    required: true
  declared:
    description: Each server with its variables, of which C(hardware) and C(node_capacity) are used.
    type: dict
    default: {}
  failed:
    description: Servers whose discovery failed, with the reason.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Compare a server with the inventory
  ansible.builtin.debug:
    msg: "{{ {'metal1': lookup('ansible.builtin.file', '.discovered/metal1.json')} | reduced.footprint.discovery_report(hostvars) }}"
"""

RETURN = r"""
_value:
  description:
    - V(ok), V(table) (lines of text), V(lines) (differences, failures and notes), and V(differences), a list of sentences for each server that has some.
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_hardware_compare


def discovery_report(
    kept: t.Mapping[str, str], declared: t.Mapping[str, t.Mapping[str, t.Any]] | None = None, failed: t.Mapping[str, str] | None = None
) -> dict[str, t.Any]:
    """Return the report."""
    try:
        return _report({name: _hardware(name, text) for name, text in kept.items()}, declared or {}, failed or {})
    except (AttributeError, KeyError, TypeError) as error:
        raise AnsibleFilterError(f"discovery_report: expected files of discover_servers: {error!r}") from None


def _report(hardware: t.Mapping[str, t.Any], declared: t.Mapping[str, t.Mapping[str, t.Any]], failed: t.Mapping[str, str]) -> dict[str, t.Any]:
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_discovery, plan_hardware_compare

    rows, lines, differences = [], [], {}
    twice = plan_discovery.duplicates({name: found for name, found in hardware.items() if found})
    for name, found in hardware.items():
        variables = declared[name] if name in declared else {}
        try:
            compared = _compare(name, variables, found, twice.get(name, ())) if found else None
        except InputError as error:
            compared = plan_hardware_compare.Result((str(error),), ())
        state = "failed" if failed.get(name) else "not read" if compared is None else "differs" if compared.differences else "as declared"
        if state == "as declared" and not (variables.get("hardware") or variables.get("node_capacity")):
            state = "nothing declared"
        rows.append(plan_hardware_compare.row(name, found, state))
        if failed.get(name):
            lines.append(f"FAILED {name}: {failed[name]}")
        if compared is not None:
            if compared.differences:
                differences[name] = list(compared.differences)
            lines += [f"DIFFERS {one}" for one in compared.differences] + [f"{name}: {note}" for note in compared.notes]
    return {"ok": not differences and not any(failed.values()), "table": plan_hardware_compare.table(rows), "lines": lines, "differences": differences}


def _hardware(name: str, text: str) -> t.Any:
    from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import DISCOVERED_SERVER

    try:
        return DISCOVERED_SERVER.load(text, f"the file of {name}").get("hardware") if text else None
    except ValueError as error:
        raise AnsibleFilterError(f"discovery_report: cannot parse the file with the hardware of {name}: {error}. Remove it.") from None


def _compare(
    name: str, variables: t.Mapping[str, t.Any], found: t.Mapping[str, t.Any], more: t.Sequence[str]
) -> plan_hardware_compare.Result:
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_hardware
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_hardware_compare

    declared = model_hardware.parse(variables.get("hardware"), f"servers.{name}.hardware")
    result = plan_hardware_compare.compare(declared, variables.get("node_capacity"), found)
    return result._replace(differences=(*more, *result.differences))


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"discovery_report": discovery_report}
