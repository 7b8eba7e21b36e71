# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Change the record of a VM on this host by an event. Callers hold the lock ``domains``."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner, plan_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import Record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.plan_owner import Event


def change(uuid: str, event: Event, *, owner: Record | None = None) -> Record | None:
    """Carry out an event, and store the record durably.

    :arg owner: the record of a host that has none, but has the VM.
    :returns: the record after it, ``None`` for none.
    """
    old = io_owner.known(uuid)
    new = plan_owner.step(old or owner, event._replace(at=utc()))
    if new is None:
        io_owner.forget(uuid)
    elif new != old:
        io_owner.write(new)
    return new


def removed(uuid: str) -> None:
    """Forget a VM that was removed with its disks. While disks are kept, the record is: they can return to the former host, and nothing older replaces them."""
    if io_owner.known(uuid) is not None:
        change(uuid, Event("removed"))
