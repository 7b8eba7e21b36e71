# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether this server can run the VM of a copy: asked with each copy, and before its start is recorded, which keeps the VM off on its first server."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_look, plan_move
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Copy


def refuse_unfit(copy: Copy, uri: str) -> None:
    """Refuse a copy that cannot run here, or whose name or MAC another VM has.

    :raises BackendError: it cannot at present.
    """
    vm = {**io_look.requirements(parse(copy.xml)), "uuid": copy.uuid, "name": copy.name, "active": True, "cpu_xml": None, "items": (), "pools": {}}
    there = io_look.look(vm, uri)
    if there["reason"] is not None:
        raise BackendError(there["reason"])
    if there["name_taken"]:
        raise BackendError(f"another VM on this server has the name {copy.name} (UUID {there['name_taken']}).", "id", "Rename or remove it.")
    for mac, name in there["macs_taken"].items():
        raise BackendError(f"the VM {name} on this server has the MAC {mac}.", "id", "Change the MAC of one of the two VMs.")
    for problem in plan_move.cannot_run(there["name"], vm, there, "id"):
        raise BackendError(problem.message, "id", problem.hint)
