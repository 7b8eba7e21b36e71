# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Merge settings in layers: global < component < user < node < service. Mappings are merged recursively, all else is replaced."""

from __future__ import annotations

import copy
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, kind_of
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import Service, real

Settings = t.Mapping[str, t.Any]

_VARIABLE = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
#: Variables set by the inventory plugin, which settings must not override.
_TAKEN = re.compile(r"(footprint_(cluster|environment|roles|services)|node_roles|vms|vm_(details|host|uuid|macs|address_source)|group_names|groups|hostvars)\Z")


def merge(*layers: Settings) -> dict[str, t.Any]:
    """Merge layers, the last wins: mappings recursively, lists and all other values as a whole."""
    result: dict[str, t.Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, t.Mapping) and isinstance(result.get(key), t.Mapping):
                result[key] = merge(result[key], value)
            else:
                result[key] = copy.deepcopy(value)
    return result


def leaves(settings: Settings, prefix: tuple[str, ...] = ()) -> t.Iterator[tuple[tuple[str, ...], t.Any]]:
    """Yield path and value of all values that are not mappings, and of empty mappings."""
    for key, value in settings.items():
        if isinstance(value, t.Mapping) and value:
            yield from leaves(value, (*prefix, str(key)))
        else:
            yield (*prefix, str(key)), value


def origins(layers: t.Sequence[tuple[str, Settings]]) -> dict[str, str]:
    """Return the layer of each value of the merged settings, by its path."""
    found: dict[tuple[str, ...], str] = {}
    for name, layer in layers:
        for path, value in leaves(layer):
            # a value that replaces a mapping also replaces everything below it, and a mapping replaces a plain value
            replaced = [old for old in found if path[: len(old)] == old or (old[: len(path)] == path and value != {})]
            for old in replaced:
                del found[old]
            found[path] = name
    # an empty mapping merged into a mapping is not a value
    merged = {path for path, unused in leaves(merge(*(layer for unused, layer in layers)))}
    return {".".join(path): name for path, name in sorted(found.items()) if path in merged}


def service_layers(services: t.Sequence[str], known: t.Mapping[str, Service]) -> list[tuple[str, Settings]]:
    """Return the layers with the settings of a host's services, each below the name of the real service."""
    found: list[tuple[str, Settings]] = []
    for name in sorted(services):
        if known[name].configs:
            found.append((f"services.{name}", {real(known, name).name: known[name].configs}))
    return found


def sections(settings: Settings, known: t.Mapping[str, Service]) -> dict[str, t.Any]:
    """Return the settings with those of logical services moved to the real ones, whose own settings win."""
    logical = [{real(known, key).name: value} for key, value in settings.items() if key in known and known[key].service_def]
    return merge(*logical, {key: value for key, value in settings.items() if not (key in known and known[key].service_def)})


def variables(settings: Settings, touched: Settings, known: t.Mapping[str, Service], path: str = "configs") -> dict[str, t.Any]:
    """Return settings as variables of roles: ``galera: {settings: …}`` becomes ``galera_settings``, all else keeps its name.

    :arg settings: all layers merged.
    :arg touched: the layers written by the operator; other values remain defaults of the role.
    """
    result: dict[str, t.Any] = {}
    for key, value in touched.items():
        if key not in known:
            result[_variable(key, f"{path}.{key}")] = settings[key]
            continue
        if not isinstance(value, t.Mapping):
            raise InputError(f"expected a mapping, got {kind_of(value)}.", f"{path}.{key}", f"Write the settings of {key} as NAME: VALUE.")
        for name in value:
            result[_variable(f"{known[key].variable_prefix}_{name}", f"{path}.{key}.{name}")] = settings[key][name]
    return result


def _variable(name: str, path: str) -> str:
    if not _VARIABLE.match(name):
        raise InputError(f"{name!r} is not a valid variable name.", path, "Use letters, digits and underscores.")
    if _TAKEN.match(name):
        raise InputError(f"{name} is set by the inventory plugin.", path, "Use another name.")
    return name
