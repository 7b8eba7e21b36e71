# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs that were moved, or are being moved, to another server: they are left unchanged here, even if the list of this host contains them."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ARRIVING, MOVING, Record

_DONE = ("running", "present")
_WARNING = {
    MOVING: "is being moved to {to} and is not changed until the move has ended (vm_move)",
    ARRIVING: "is being moved to this host and is not changed until the move has ended (vm_move)",
}
_MOVED = "was moved to {to} and is not changed here; list it there"


def record_of(records: t.Mapping[str, Record], vm: model_vm.VmDetails, cluster: str, uuid: str) -> Record | None:
    """The record of a VM that another host has: by the UUID derived from its details, by the UUID of its domain, or else by its id.

    An adopted VM has another UUID than its details yield, and its domain may no longer exist.
    """
    matching = (record for record in records.values() if (record.cluster, record.id) == (cluster, vm.id))
    return records.get(vm.uuid) or records.get(uuid) or next(matching, None)


def state_of(record: Record) -> str:
    """The state of a VM that is not here, for the result."""
    return record.state if record.state in _WARNING else "moved"


def leave_alone(record: Record, state: str) -> str:
    """Return the warning that a VM is not changed here."""
    warning = _WARNING.get(record.state or "", _MOVED).format(to=record.where)
    if state not in _DONE:
        hint = "Run this on its server; vm_move with state: confirmed removes the old copy, with state: returned moves the VM back."
        raise model_errors.RefusedError(f"{warning}.", hint=hint)
    return warning
