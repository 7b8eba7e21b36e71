# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of the pause: the source lets go for good, and clients reach the VM."""

from __future__ import annotations

import time

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import (
    ASK,
    ASKED,
    BACK,
    CONFIRM,
    CONFIRM_COMMAND,
    FINAL,
    FINISH,
    HAND_OVER_COMMAND,
    WAIT,
    next_step,
)
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_cutover, run_key
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_lease import Lease
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import run_health
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, PARKED

_COMMANDS = {ASK: HAND_OVER_COMMAND, CONFIRM: CONFIRM_COMMAND, WAIT: "state"}
_POLL = 0.3


def commit(context: Context, lease: Lease) -> None:
    """The source lets go for good, and only then clients reach the VM: what they tell it is never thrown away.

    A VM that is off by now is started, and everything is asked of it once more before anybody says that it is done.
    """
    if not context.journal.facts.get("handed_over"):
        _hand_over(context, lease)
    # in this order: nobody stops it any more, it comes up with its host, clients reach it, and then a line about it
    lease.end()
    context.journal.facts["handed_over"] = True
    ran = _see_it_run(context)
    run_cutover.let_clients_in(context)
    known = context.journal.downtime
    if ran and known.get("started"):
        # everything answered a moment ago
        known.setdefault("ended", time.time())
    context.keep()
    run_cutover.await_answers(context, lease, run_health.questions(context), time.monotonic() + context.spec.boot_timeout)
    if known.get("started"):
        known.setdefault("ended", time.time())
        known["seconds"] = round(known["ended"] - known["started"], 2)
    context.keep()
    run_health.withdraw_key(context)
    if not context.journal.facts["source"].get("off"):
        context.mirror()
        leave(context, power_off=context.spec.source_after == "shutdown")


def _hand_over(context: Context, lease: Lease) -> None:
    """Ask the source to let go until it is known whether it did.

    :raises FootprintError: it did not, and everything returns.
    :raises OSError: the journal cannot be written; the final word was not said then.
    """
    facts = context.journal.facts
    # as the cutover left it; if that is so no more, the answer to the next question tells
    source: str | None = PARKED
    why = ""
    if facts.get("handing_over") == FINAL:
        lease.take_over()
        source = None
    elif not lease.armed:
        # another worker's cutover: everything may have changed since
        lease.arm()
        run_cutover.guard_vm(context, lease)
        source, why = _asked(context, "state")
    while True:
        said = facts.get("handing_over")
        step = next_step(source, said, _runs(context), lease.in_time())
        if step == FINISH:
            return
        if step == BACK:
            lease.check()
            raise BackendError(f"The source is {source or 'not heard from'} instead of {HANDED_OVER}, or the VM does not run{why}.")
        if source is None:
            context.progress(waiting_for="the source's answer to the hand-over")
            time.sleep(_POLL)
        word = {ASK: ASKED, CONFIRM: FINAL}.get(step, said)
        if word != said:
            # first the journal: after a power loss somebody has to ask what came of it
            facts["handing_over"] = word
            try:
                context.save()
            except OSError:
                facts["handing_over"] = said
                raise
        before, (source, why) = why, _asked(context, _COMMANDS[step])
        if why != before and why:
            context.log(f"no answer to {_COMMANDS[step]}:{why}")


def _asked(context: Context, command: str) -> tuple[str | None, str]:
    """What the source says it is, and why it says nothing."""
    try:
        return str(context.source.ask(command, {"lease": context.spec.return_after}, timeout=20)["state"]["state"]), ""
    except FootprintError as error:
        return None, f" ({error.message})"


def _runs(context: Context) -> bool:
    """Whether the VM runs for certain."""
    try:
        return context.clone_running()
    except FootprintError:
        return False


def _see_it_run(context: Context) -> bool:
    """The VM runs, and comes up with its host from now on; tells whether it ran already.

    :raises FootprintError: it does not, after all the time it may take to boot; clients are let in all the same.
    """
    until = time.monotonic() + context.spec.boot_timeout
    while True:
        try:
            with context.domains() as host:
                host.set_autostart(context.vm.uuid, True)
                record = host.domain(context.vm.uuid)
                if record is not None and record.active:
                    return True
                context.log("the VM is off, and the source has let go: it is started")
                host.start(context.vm.uuid)
                return False
        except FootprintError:
            if time.monotonic() > until:
                run_cutover.let_clients_in(context)
                raise
            time.sleep(_POLL)


def leave(context: Context, *, power_off: bool, forget: bool = True) -> None:
    """Withdraw the one-time key, and switch the source off where that is wanted.

    :arg forget: what would make a next attempt shorter is taken away too.

    A source that is gone already keeps nothing from being done.
    """
    if power_off:
        # noted first: whoever goes on after a kill finds a machine that does not answer, and why
        context.journal.facts["source"]["off"] = True
        context.keep()
    run_key.withdraw(context, power_off=power_off, forget=forget)
