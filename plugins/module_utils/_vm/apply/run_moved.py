# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs that were moved, or are being moved, to another server: they are left unchanged here, even if the list of this host contains them."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_moved import ARRIVING, MOVING, Moved

_DONE = ("running", "present")
_WARNING = {
    MOVING: "is being moved to {to} and is not changed until the move has ended (vm_move)",
    ARRIVING: "is being moved to this host and is not changed until the move has ended (vm_move)",
}
_MOVED = "was moved to {to} and is not changed here; list it there"


def note_about(notes: t.Mapping[str, Moved], vm: model_vm.VmDetails, cluster: str, uuid: str) -> Moved | None:
    """The note about a VM: by the UUID derived from its details, by the UUID of its domain, or else by its id.

    An adopted VM has another UUID than its details yield, and its domain may no longer exist.
    """
    matching = ((note.cluster, note.id) == (cluster, vm.id) and note for note in notes.values())
    return notes.get(vm.uuid) or notes.get(uuid) or next(filter(None, matching), None)


def state_of(note: Moved) -> str:
    """The state of a VM that is not here, for the result."""
    return note.state if note.state in _WARNING else "moved"


def leave_alone(note: Moved, state: str) -> str:
    """Return the warning that a VM is not changed here.

    :raises RefusedError: the requested state can only be applied on the other server.
    """
    warning = _WARNING.get(note.state, _MOVED).format(to=note.to)
    if state not in _DONE:
        hint = "Run this on its server; vm_move with state: confirmed removes the old copy, with state: returned moves the VM back."
        raise model_errors.RefusedError(f"{warning}.", hint=hint)
    return warning
