# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs that another server has, or will have: here they are left alone, whatever the list of this host still says."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_result
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_moved import ARRIVING, MOVING, Moved

_DONE = ("running", "present")
_WARNING = {
    MOVING: "is on its way to {to} and left alone until it is there (vm_move)",
    ARRIVING: "is on its way to this host and left alone until it is here (vm_move)",
}
_MOVED = "was moved to {to} and is left alone here; list it there"


def note_about(notes: t.Mapping[str, Moved], vm: model_vm.VmDetails, cluster: str, uuid: str) -> Moved | None:
    """The note about a VM: by the UUID its details come to or its domain has, or else by its id.

    A VM that was taken over has another UUID than its details come to, and its domain may be gone.
    """
    ours = ((note.cluster, note.id) == (cluster, vm.id) and note for note in notes.values())
    return notes.get(vm.uuid) or notes.get(uuid) or next(filter(None, ours), None)


def leave_alone(note: Moved, result: run_result.VmResult, state: str) -> str:
    """Say where a VM is, in its result and as a warning.

    :raises RefusedError: it is to be changed here in a way that only its own server can.
    """
    warning = _WARNING.get(note.state, _MOVED).format(to=note.to)
    result.state, result.moved_to = note.state if note.state in _WARNING else "moved", note.to
    if state not in _DONE:
        hint = "Ask its server; vm_move with state: confirmed removes the old copy, with state: returned brings the VM back."
        raise model_errors.RefusedError(f"{warning}.", hint=hint)
    return warning
