# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: add VM details that are given to a run to the inventory, and keep them in a file next to the inventory file."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, Problems
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import plan_details, plan_kept
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.model_inventory import Layer, Server
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_cloud_init

VARIABLE = plan_kept.VARIABLE
#: VM details that are added while the inventory is read once more; ``None`` while Ansible itself reads it.
GIVEN: plan_kept.Details | None = None
#: Inventory file → its servers → the VM details that its other file has to keep; of the files that were read in this process.
KEPT: dict[str, plan_kept.Details] = {}
_HEADER = "# VM details that were given as spawn_vms_details. They may be edited, or moved to {name}; comments are lost with the next ones.\n"


class Kept(t.NamedTuple):
    """The file that keeps VM details.

    :arg changed: it was written, in check mode it would be.
    """

    path: str
    changed: bool
    diff: t.Mapping[str, str]
    refused: str = ""


def is_part(path: str) -> bool:
    """Whether a file keeps VM details for the inventory file beside it."""
    main = plan_kept.main_path(path)
    if main is None or not any(line.startswith(f"{plan_kept.PART_OF}:") for line in (read_text(path) or "").splitlines()):
        return False
    if not any(os.path.isfile(f"{main}{ending}") for ending in (".yml", ".yaml")):
        raise BackendError(f"{main}.yml does not exist, of which this file is a part.", hint="Rename or remove this file as well.")
    return True


def file_of(inventory: str) -> str:
    """Return the path of the file that keeps VM details for an inventory file."""
    return f"{os.path.abspath(inventory).rpartition('.')[0]}{plan_kept.ENDING}"


def add(servers: t.Sequence[Server], inventory: str, kept: t.Any, given: t.Any, problems: Problems) -> tuple[Server, ...]:
    """Return the servers with the VM details of the file that keeps them, and of this run.

    :arg kept: content of the file, ``None`` without one.
    :arg given: VM details by server; those of other servers are ignored.
    """
    name = os.path.basename(file_of(inventory))
    old = problems.call(plan_kept.parse_kept, kept, name, [item.name for item in servers]) or {}
    new = problems.call(plan_kept.parse, given) or {}
    result = []
    for item in servers:
        own = problems.call(plan_details.as_list, item.vms, f"{item.path}.vms")
        parts = (
            plan_kept.layers(own if isinstance(own, list) else [], f"{item.path}.vms"),
            plan_kept.layers(old.get(item.name, ()), f"{name}: {item.path}.vms"),
            plan_kept.layers(new.get(item.name, ()), f"{VARIABLE}.{item.name}"),
        )
        more: list[Layer] = problems.call(plan_kept.additions, *parts) or []
        result.append(dataclasses.replace(item, more=tuple(more)))
    KEPT[os.path.abspath(inventory)] = {item.name: [one.values for one in item.more] for item in result}
    return tuple(result)


def keep(inventory: str, current: t.Any, lasts: bool, check: bool) -> Kept:
    """Write the file that keeps the VM details, unless it has them.

    :arg inventory: path of the inventory file, which was read in this process.
    :arg current: content of the file, ``None`` without one.
    :arg lasts: whether files that are written on this machine survive.
    """
    path, name = file_of(inventory), os.path.basename(inventory)
    wanted = plan_kept.content(KEPT[os.path.abspath(inventory)], name)
    known = (current or {}).get("servers") or {}
    before, after = (_text(name, {**wanted, "servers": servers}, hidden=True) if servers else "" for servers in (known, wanted["servers"]))
    diff = {"before": before, "after": after, "before_header": path, "after_header": path}
    if known == wanted["servers"]:
        return Kept(path, False, {})
    if not lasts:
        return Kept(path, False, diff, "is lost with this job of AWX")
    try:
        if not check:
            mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o600
            write_atomic(path, _text(name, wanted), mode)
        elif not os.access(os.path.dirname(path), os.W_OK):
            return Kept(path, False, diff, "cannot be written: permission denied")
    except OSError as error:
        return Kept(path, False, diff, f"cannot be written: {error.strerror}")
    return Kept(path, True, diff)


def _text(name: str, content: t.Mapping[str, t.Any], hidden: bool = False) -> str:
    """Return the text of the file.

    :arg hidden: without cloud-init data, which may contain secrets.
    """
    import yaml  # most runs do not need it

    # without the types of Ansible
    content = json.loads(json.dumps(content, default=str))
    if hidden:
        content["servers"] = {server: model_cloud_init.without_secrets(entry) for server, entry in content["servers"].items()}
    return _HEADER.format(name=name) + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=150)
