# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of the pause: the source lets go for good, and clients reach the VM."""

from __future__ import annotations

import time

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._model.migration_journal import HANDED_OVER
from ansible_collections.reduced.footprint.plugins.module_utils._run import migrate_cutover, migrate_health, migrate_key
from ansible_collections.reduced.footprint.plugins.module_utils._run.migrate_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._run.migrate_lease import Lease


def commit(context: Context, lease: Lease | None) -> None:
    """The source lets go for good, and only then clients reach the VM: what they tell it is never thrown away.

    The VM comes up with its host from now on.
    """
    if not context.journal.facts.get("handed_over"):
        if lease:
            lease.end()
        state = context.source.ask("hand_over")["state"]
        if state["state"] != HANDED_OVER:
            raise BackendError(f"The source is {state['state']} instead of {HANDED_OVER}.")
        context.journal.facts["handed_over"] = True
        context.save()
    migrate_cutover.let_clients_in(context)
    if not context.journal.downtime.get("ended"):
        now = time.time()
        context.journal.downtime.update(ended=now, seconds=round(now - context.journal.downtime["started"], 2))
        context.save()
    with context.domains() as host:
        host.set_autostart(context.vm.uuid, True)
    migrate_health.withdraw_key(context)
    if not context.journal.facts["source"].get("off"):
        context.mirror()
        leave(context, power_off=context.spec.source_after == "shutdown")


def leave(context: Context, *, power_off: bool, forget: bool = True) -> None:
    """Withdraw the one-time key, and switch the source off where that is wanted.

    :arg forget: what would make a next attempt shorter is taken away too.

    A source that is gone already keeps nothing from being done.
    """
    if power_off:
        # noted first: whoever goes on after a kill finds a machine that does not answer, and why
        context.journal.facts["source"]["off"] = True
        context.save()
    migrate_key.withdraw(context, power_off=power_off, forget=forget)
