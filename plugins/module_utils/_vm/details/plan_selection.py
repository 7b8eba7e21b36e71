# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Selection of VMs for a run. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm


def select(vms: t.Sequence[model_vm.VmDetails], only: t.Iterable[str]) -> tuple[model_vm.VmDetails, ...]:
    """Return the VMs with one of these ids; all VMs if ``only`` is empty.

    :raises InputError: no VM has the id; a run without any VM would look successful.
    """
    ids = [wanted.strip() for wanted in only if wanted.strip()]
    if not ids:
        return tuple(vms)
    known = [vm.id for vm in vms]
    unknown = [wanted for wanted in ids if wanted not in known]
    if unknown:
        raise model_errors.InputError(
            f"unknown VM id {', '.join(unknown)}; the VM details of this host have {', '.join(known) or 'none'}.",
            "only",
            "Use ids of VMs of this host, or run it for the host that has them.",
        )
    return tuple(vm for vm in vms if vm.id in ids)
