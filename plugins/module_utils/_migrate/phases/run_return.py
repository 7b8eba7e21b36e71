# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way back from a migration, and the end of a source that is not wanted back."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.run_copy import stop_clone
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import io_arp, io_fence, run_cutover
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_commit import leave
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, SERVING

#: Why everything returns when a person wants it to.
ASKED = "asked to"

_POLL = 0.3
_POWER_OFF_TIMEOUT = 120.0


def give_back(context: Context, reason: str) -> None:
    """Everything as it was: clone stopped for good, source on its address with its services.

    :raises FootprintError: the source did not come back; what is known is in the message.
    """
    journal = context.journal
    if journal.facts.get("handed_over") and not journal.facts.get("returning"):
        # a VM that serves is only stopped for a source that can
        _answers(context)
    journal.facts["returning"] = reason
    journal.reason = reason
    # first what others wait for; there may be no room to write anything down
    served = stop_clone(context) and bool(journal.facts.get("handed_over"))
    # the VM is off, so whoever answers is the source
    context.source.identity.only = None
    _let_clients_in_again(context)
    context.keep()
    context.log(f"going back: {reason}")
    if journal.facts.get("vm"):
        _let_go_of_the_disk(context)
    if "quiesce" not in journal.phases:
        # it never felt anything, so it need not even answer
        context.log("the source was not touched")
        _returned(context)
        return
    context.source.ask("restore", {"reason": reason[:200]})
    context.source.address = context.spec.source.address
    state = run_cutover.await_state(context, SERVING, timeout=run_cutover.ADDRESS_TIMEOUT + context.spec.return_after)
    now = time.time()
    if journal.downtime.get("started") and not journal.downtime.get("ended"):
        journal.downtime.update(ended=now, seconds=round(now - journal.downtime["started"], 2))
    if served:
        journal.warnings.append(f"What the VM was told after it served is only on its disk, {journal.facts['vm']['disk']}.")
    if state.get("failed"):
        journal.warnings.append(f"{', '.join(state['failed'])} did not start again on the source; look at systemctl status there.")
    context.log(f"the source serves again ({', '.join(state.get('running', [])) or 'no service was stopped'})")
    _returned(context)


def _returned(context: Context) -> None:
    """The end of a return: the journal says so, here and on the source, and the key is withdrawn."""
    journal = context.journal
    asked = journal.facts.get("returning") == ASKED
    for passing in ("handing_over", "handed_over", "returning", "rebooting"):
        journal.facts.pop(passing, None)
    journal.facts.get("source", {}).pop("off", None)
    journal.state = "rolled_back"
    journal.ended = time.time()
    context.keep()
    context.mirror()
    # who fell back by himself tries again
    leave(context, power_off=False, forget=asked)
    journal.facts.pop("source_mark", None)
    context.keep()


def _let_go_of_the_disk(context: Context) -> None:
    """The source does not wait for a disk that nobody writes to any more; the worker's end lets go of it as well."""
    try:
        context.disk().release()
    except (FootprintError, OSError) as error:
        context.log(f"the disk is not let go of yet: {error}")


def _answers(context: Context) -> dict[str, t.Any]:
    """What a source says that handed over.

    :raises BackendError: it does not answer.
    """
    context.source.address = context.source.identity.only = context.spec.admin.temporary_address
    try:
        return dict(context.source.ask("state")["state"])
    except FootprintError as error:
        raise BackendError(
            f"The source does not answer at {context.spec.admin.temporary_address}, so the VM goes on serving: {error.message}",
            hint="Switch the source on, it comes up at that address; let the role place the one-time key, or place it by hand; then run this again.",
        ) from error


def _let_clients_in_again(context: Context) -> None:
    """The VM is stopped; its fence must not greet the next one. A fence that stays harms nobody meanwhile."""
    try:
        io_fence.open_up(context.spec.name)
    except CommandError as error:
        context.log(f"the fence around the VM stays: {error.message}")


def retire(context: Context) -> None:
    """Shut the parked source down; there is no way back by itself afterwards. The journal goes to the archive."""
    journal = context.journal
    if not journal.facts["source"].get("off"):
        try:
            state = _answers(context)["state"]
        except BackendError as error:
            if not context.bridge or io_arp.probe(context.bridge, context.spec.admin.temporary_address, attempts=5):
                raise
            journal.warnings.append(f"The source was off already, so its one-time key could not be withdrawn ({error.message}).")
        else:
            if state != HANDED_OVER:
                raise BackendError(f"The source is {state}; only a source that handed over can be retired.", hint="Finish the migration first.")
            leave(context, power_off=True)
    _await_silence(context)
    journal.state = "retired"
    journal.ended = time.time()
    context.save()
    context.log("the source is retired")
    journal.facts["archive"] = str(context.store.archive())


def _await_silence(context: Context) -> None:
    """See that the temporary address is gone with the source."""
    until = time.monotonic() + _POWER_OFF_TIMEOUT
    temporary = context.spec.admin.temporary_address
    while context.bridge and (mac := io_arp.probe(context.bridge, temporary)):
        if time.monotonic() > until:
            context.journal.warnings.append(f"{temporary} is still answered for, by {mac}; switch the source off by hand.")
            return
        time.sleep(_POLL)
