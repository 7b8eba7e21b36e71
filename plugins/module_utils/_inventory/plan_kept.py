# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VM details that are given to a run, and the file next to the inventory file that keeps them. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, Unique, kind_of
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known, did_you_mean, mapping, sequence
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_json_text import parse_json
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import plan_names
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.model_inventory import Layer

#: The variable with VM details by server.
VARIABLE = "spawn_vms_details"
#: Key of the file that keeps them: the name of the inventory file.
PART_OF = "part_of"
ENDING = ".vms.yml"
_HINT = "Write the VM details of each server, e.g. {metal1: [{id: web, ram: 4}]}."

#: Server → its VM details.
Details = t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]]


def parse(value: t.Any, path: str = VARIABLE) -> dict[str, list[t.Any]]:
    """Return the VM details of a run by server, without the types of Ansible; as JSON text, they may also be the answer to a question of AWX."""
    value = parse_json(value, path) if isinstance(value, str) and value.strip() else value
    found = {}
    for server, entries in mapping(value, path, _HINT).items():
        where = f"{path}.{server}"
        entries = parse_json(entries, where) if isinstance(entries, str) and entries.strip() else entries
        found[server] = [_plain(entry, f"{where}[{index}]") for index, entry in enumerate(sequence(entries, where, _HINT))]
    return found


def _plain(value: t.Any, path: str) -> t.Any:
    if isinstance(value, t.Mapping):
        return {str(key): _plain(each, f"{path}.{key}") for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, f"{path}[{index}]") for index, each in enumerate(value)]
    if isinstance(value, str):
        if plan_names.has_template(value):
            # a user who may answer a question of AWX must not run programs on the control node
            raise InputError("contains a template.", path, "Write the value itself, or add the VM to the inventory file.")
        return str(value)
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    if value is None:
        return None
    raise InputError(f"is {kind_of(value)}, which is not kept in a file.", path, "Write text, a number, a list or a mapping.")


def main_path(path: str) -> str | None:
    """Return the path of the inventory file without its ending, ``None`` if the name is not that of a file that keeps VM details."""
    return path[: -len(ENDING)] if path.endswith(ENDING) else None


def parse_kept(content: t.Any, name: str, servers: t.Collection[str]) -> dict[str, t.Any]:
    """Return the VM details by server that a file keeps."""
    content = mapping(content, name, "Write servers with their vms.")
    check_known(content, ("plugin", PART_OF, "servers"), name, "")
    found = {}
    for server, entry in mapping(content.get("servers"), f"{name}: servers", _HINT).items():
        where = f"{name}: servers.{server}"
        if server not in servers:
            raise InputError("is not a server of the inventory file.", where, did_you_mean(server, servers, "Move its VM details to the server of the VMs."))
        check_known(mapping(entry, where, _HINT), ("vms",), where, "Write everything else in the inventory file.")
        found[server] = sequence(entry.get("vms"), f"{where}.vms", _HINT)
    return found


def layers(entries: t.Sequence[t.Any], path: str) -> list[Layer]:
    """Return VM details with their paths."""
    return [Layer(f"{path}[{index}]", entry) for index, entry in enumerate(entries)]


def additions(own: t.Sequence[Layer], kept: t.Sequence[Layer], given: t.Sequence[Layer]) -> list[Layer]:
    """Return the VM details of a server to add to those of the inventory file: the kept ones, or what replaces them, then new ones.

    :arg given: by this run. One that is equal in the inventory file is nothing new.
    """
    written = {_id(one): one for one in own}
    new, once = {}, Unique()
    for one in given:
        once.check(_id(one), f"{one.path}.id", "Remove one of the two.")
        there = written.get(_id(one))
        if there is None:
            new[_id(one)] = one
        elif there.values != one.values:
            raise InputError(f"{_id(one)!r} has other values at {there.path}.", f"{one.path}.id", "Change them there, or use another id.")
    return [*(new.pop(_id(one), one) for one in kept), *new.values()]


def _id(one: Layer) -> str:
    # one that is not a mapping, or has no id, is reported with all other errors
    return str(one.values.get("id", one.path)) if isinstance(one.values, t.Mapping) else one.path


def unknown(names: t.Iterable[str], servers: t.Collection[str]) -> list[FootprintError]:
    """Return an error for each name that is none of the servers whose inventory file is known."""
    hint = "Use a server that a file of the inventory plugin reduced.footprint.nodes lists in servers."
    return [InputError("is not such a server.", f"{VARIABLE}.{name}", did_you_mean(name, servers, hint)) for name in names if name not in servers]


def content(details: Details, inventory: str) -> dict[str, t.Any]:
    """Return the content of the file that keeps VM details."""
    servers = {server: {"vms": list(entries)} for server, entries in details.items() if entries}
    return {"plugin": "reduced.footprint.nodes", PART_OF: inventory, "servers": servers}


def lines(path: str, text: str, refused: str, check: bool) -> list[str]:
    """Return what the operator reads about the file that keeps VM details.

    :arg text: its new content, empty if it has all of them.
    """
    if not text:
        return []
    if not refused:
        return [f"VM details {'would be kept' if check else 'kept'} in {path}"]
    return [f"{path} {refused}. Keep the VM details in it, with your values where this text has none:", *text.splitlines()]
