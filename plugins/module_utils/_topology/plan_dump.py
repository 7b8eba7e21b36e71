# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mask the secrets in the settings of a host. No I/O."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import LEAST, MASK, hide, is_secret

_LOOKUP = re.compile(r"\b(?:lookup|query|q)\s*\(\s*(['\"])([\w.]+)\1")
_ANY_LOOKUP = re.compile(r"\b(?:lookup|query|q)\s*\(")
#: Lookups without external data. The result of any other lookup may be a secret.
_OPEN_LOOKUPS = ("reduced.footprint.address", "reduced.footprint.deploy_plan", "vars", "ansible.builtin.vars")


def brings_secret(text: str) -> bool:
    """Whether a template uses a lookup that may return a secret."""
    open_ones = sum(1 for found in _LOOKUP.finditer(text) if found.group(2) in _OPEN_LOOKUPS)
    return len(_ANY_LOOKUP.findall(text)) > open_ones


def shield(value: t.Any, name: str = "", vaulted: t.Callable[[t.Any], bool] = lambda unused: False) -> t.Any:
    """Return an untemplated value with secrets masked: by name, by vault encryption, or by the lookup they come from.

    Containers without a secret are returned unchanged, so that Ansible's tags on their texts are kept.
    """
    if vaulted(value):
        return MASK
    if isinstance(value, t.Mapping):
        if is_secret(name, "x"):
            return {key: hide(entry) for key, entry in value.items()}
        shielded = {key: shield(entry, str(key), vaulted) for key, entry in value.items()}
        return shielded if any(shielded[key] is not value[key] for key in shielded) else value
    if isinstance(value, (list, tuple)):
        entries = [hide(entry) if is_secret(name, "x") else shield(entry, "", vaulted) for entry in value]
        return entries if any(new is not old for new, old in zip(entries, value)) else value
    if is_secret(name, value) or (isinstance(value, str) and brings_secret(value)):
        return MASK
    return value


def secrets_in(value: t.Any, name: str = "") -> t.Iterator[str]:
    """Yield the texts below the names of secrets that are not templates."""
    if isinstance(value, t.Mapping):
        for key, entry in value.items():
            yield from secrets_in(entry, name if is_secret(name, "x") else str(key))
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from secrets_in(entry, name if is_secret(name, "x") else "")
    elif is_secret(name, value) and "{{" not in str(value) and len(str(value)) >= LEAST:
        yield str(value)


def origin(path: tuple[str, ...], layers: t.Mapping[str, str], given: bool) -> str:
    """Return the layer of a value: that recorded by the topology, else ``inventory`` or ``component`` (default of a role).

    :arg layers: path of a value → its layer, as recorded by the topology.
    :arg given: whether the inventory sets the variable.
    """
    for end in range(len(path), 0, -1):
        if ".".join(path[:end]) in layers:
            return layers[".".join(path[:end])]
    siblings = ".".join(path[:2]) + "."
    # siblings of a value from the topology were merged with it
    return "inventory" if given and not any(other.startswith(siblings) for other in layers) else "component"
