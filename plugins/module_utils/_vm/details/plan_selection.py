# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Some of a host's VMs, where a run is not about all of them. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm


def select(vms: t.Sequence[model_vm.VmDetails], only: t.Iterable[str]) -> tuple[model_vm.VmDetails, ...]:
    """The VMs with one of these ids; all of them where none is named.

    :raises InputError: an id that no VM has; a run about nothing would pass for a done one.
    """
    ids = [wanted.strip() for wanted in only if wanted.strip()]
    if not ids:
        return tuple(vms)
    known = [vm.id for vm in vms]
    strange = [wanted for wanted in ids if wanted not in known]
    if strange:
        raise model_errors.InputError(
            f"names {', '.join(strange)}, which the VM details of this host do not have ({', '.join(known) or 'there are none'}).",
            "only",
            "Name ids of this host, or go to the host that has them.",
        )
    return tuple(vm for vm in vms if vm.id in ids)
