# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rollback of a migration, and retirement of a source that has handed over."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.run_copy import stop_clone
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import io_arp, io_fence, run_cutover
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_commit import leave
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import FINAL
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, SERVING

#: The reason of a rollback that the user requested; compared with the journal.
ASKED = "requested"
#: Fact of the journal: the disk with data that clients have written to a VM that was rolled back.
VM_DATA = "vm_data"

_POLL = 0.3
_POWER_OFF_TIMEOUT = 120.0


def roll_back(context: Context, reason: str) -> None:
    """Roll back: stop the VM permanently, and return address and services to the source.

    :raises FootprintError: the source did not return.
    """
    journal = context.journal
    if journal.facts.get("handed_over") and not journal.facts.get("returning"):
        # a serving VM is stopped only for a source that can serve
        _answers(context)
    elif journal.facts.get("handing_over") == FINAL and reason == ASKED and not journal.facts.get("returning"):
        _learn_of_hand_over(context)
    journal.facts["returning"] = reason
    journal.reason = reason
    # first what clients wait for; there may be no space to write the journal
    stop_clone(context)
    if journal.facts.get("handed_over"):
        # also if it was off
        journal.facts[VM_DATA] = journal.facts["vm"]["disk"]
    # the VM is off, so every answer is the source's
    context.source.identity.only = None
    _let_clients_in_again(context)
    context.keep()
    context.log(f"rolling back: {reason}")
    if journal.facts.get("vm"):
        _release_disk(context)
    if "quiesce" not in journal.phases:
        # nothing changed on it, so it need not answer
        context.log("the source was not touched")
        _returned(context)
        return
    context.source.ask("restore", {"reason": reason[:200]})
    context.source.address = context.spec.source.address
    state = run_cutover.await_state(context, SERVING, timeout=run_cutover.ADDRESS_TIMEOUT + context.spec.lease_timeout)
    now = time.time()
    if journal.downtime.get("started") and not journal.downtime.get("ended"):
        journal.downtime.update(ended=now, seconds=round(now - journal.downtime["started"], 2))
    if journal.facts.get(VM_DATA):
        journal.warnings.append(f"Data written to the VM while it served exists on its disk only: {journal.facts[VM_DATA]}.")
    if state.get("failed"):
        journal.warnings.append(f"{', '.join(state['failed'])} did not start again on the source; check systemctl status there.")
    context.log(f"the source serves again ({', '.join(state.get('running', [])) or 'no service was stopped'})")
    _returned(context)


def _learn_of_hand_over(context: Context) -> None:
    """Find out whether the source has handed over: its worker was stopped after the final confirmation and before it recorded the answer.

    Clients may have been admitted meanwhile, so that their data is on the disk of the VM.
    """
    try:
        state = context.source.ask("state")["state"]["state"]
    except FootprintError as error:
        raise BackendError(
            f"The source does not answer and may have handed over, so the VM is not stopped: {error.message}",
            hint="Switch the source on; place the one-time key with the role or manually; then run again.",
        ) from error
    if state == HANDED_OVER:
        context.journal.facts["handed_over"] = True


def _returned(context: Context) -> None:
    """Finish a rollback: write the journal here and on the source, and withdraw the key."""
    journal = context.journal
    asked = journal.facts.get("returning") == ASKED
    for passing in ("handing_over", "handed_over", "returning", "rebooting"):
        journal.facts.pop(passing, None)
    journal.facts.get("source", {}).pop("off", None)
    journal.state = "rolled_back"
    journal.ended = time.time()
    context.keep()
    context.mirror()
    # after an automatic rollback a next attempt is likely, so its files are kept
    leave(context, forget=asked)
    journal.facts.pop("source_mark", None)
    context.keep()


def _release_disk(context: Context) -> None:
    """Release the disk; an error does not delay the source, because the worker releases it again at its end."""
    try:
        context.disk().release()
    except (FootprintError, OSError) as error:
        context.log(f"the disk could not be released yet: {error}")


def _answers(context: Context) -> dict[str, t.Any]:
    """Return the state of a source that has handed over."""
    context.source.address = context.source.identity.only = context.spec.admin.temporary_address
    try:
        return dict(context.source.ask("state")["state"])
    except FootprintError as error:
        raise BackendError(
            f"The source does not answer at {context.spec.admin.temporary_address}, so the VM continues to serve: {error.message}",
            hint="Switch the source on, it boots with that address; place the one-time key with the role or manually; then run again.",
        ) from error


def _let_clients_in_again(context: Context) -> None:
    """Open the fence of the stopped VM; a fence that remains does no harm until the next attempt."""
    try:
        io_fence.open_up(context.spec.name)
    except CommandError as error:
        context.log(f"the fence around the VM could not be removed: {error.message}")


def retire(context: Context) -> None:
    """Shut down the source that has handed over; no rollback is possible afterwards. The journal is archived."""
    journal = context.journal
    if not journal.facts["source"].get("off"):
        try:
            state = _answers(context)["state"]
        except BackendError as error:
            if not context.bridge or io_arp.probe(context.bridge, context.spec.admin.temporary_address, attempts=5):
                raise
            journal.warnings.append(f"The source was already off, so its one-time key could not be withdrawn ({error.message}).")
        else:
            if state != HANDED_OVER:
                raise BackendError(f"The source is {state}; only a source that is {HANDED_OVER} can be retired.", hint="Finish the migration first.")
            leave(context, power_off=True, forget=True)
    _await_silence(context)
    journal.state = "retired"
    journal.ended = time.time()
    context.save()
    context.log("the source is retired")
    journal.facts["archive"] = str(context.store.archive())


def _await_silence(context: Context) -> None:
    """Wait until the temporary address does not answer any more."""
    until = time.monotonic() + _POWER_OFF_TIMEOUT
    temporary = context.spec.admin.temporary_address
    while context.bridge and (mac := io_arp.probe(context.bridge, temporary)):
        if time.monotonic() > until:
            context.journal.warnings.append(f"{temporary} is still in use by {mac}; switch the source off manually.")
            return
        time.sleep(_POLL)
