# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of the pause: the source hands over permanently, and clients reach the VM."""

from __future__ import annotations

import time

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import model_handover
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_cutover
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.plan_phases import answer_timeout
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_lease import Lease
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import run_health
from ansible_collections.reduced.footprint.plugins.module_utils._remote import run_jobs
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import key_blob
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, PARKED

_POLL = 0.3


def commit(context: Context, lease: Lease) -> None:
    """Have the source hand over permanently, and only then admit clients to the VM: their writes are never discarded.

    A VM that is off by now is started, and all health checks run once more before the migration is reported as done.
    """
    if not context.journal.facts.get("handed_over"):
        _hand_over(context, lease)
    # in this order: the guard ends, the VM gets autostart, clients are admitted, and the journal is written
    lease.end()
    context.journal.facts["handed_over"] = True
    ran = _ensure_running(context)
    run_cutover.let_clients_in(context)
    known = context.journal.downtime
    if ran and known.get("started"):
        # all checks passed a moment ago
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
        leave(context, power_off=context.spec.source_after == "shutdown", forget=True)


def _hand_over(context: Context, lease: Lease) -> None:
    """Request the hand-over until the source's decision is known.

    :raises FootprintError: the source did not hand over; the migration is rolled back.
    :raises OSError: the journal cannot be written; the final confirmation was not sent.
    """
    facts = context.journal.facts
    # the state after the cutover; the next answer shows whether it changed
    source: str | None = PARKED
    why = ""
    if facts.get("handing_over") == model_handover.FINAL:
        lease.take_over()
        source = None
    elif not lease.armed:
        # another worker did the cutover: the state may have changed since
        lease.arm()
        run_cutover.guard_vm(context, lease)
        source, why = _asked(context, "state")
    while True:
        sent = facts.get("handing_over")
        step = model_handover.next_step(source, sent, _runs(context), lease.in_time())
        if step == model_handover.FINISH:
            return
        if step == model_handover.BACK:
            lease.check()
            raise BackendError(f"Expected the source to be {HANDED_OVER} and the VM to run; the source is {source or 'not answering'}{why}.")
        if source is None:
            context.progress(waiting_for="the source's answer to the hand-over")
            time.sleep(_POLL)
        request = {model_handover.ASK: model_handover.ASKED, model_handover.CONFIRM: model_handover.FINAL}.get(step, sent)
        if request != sent:
            # journal first: after a power loss the next worker must ask the source for its decision
            facts["handing_over"] = request
            try:
                context.save()
            except OSError:
                facts["handing_over"] = sent
                raise
        before, (source, why) = why, _asked(context, step)
        if why != before and why:
            context.log(f"the source did not answer {step}:{why}")


def _asked(context: Context, command: str) -> tuple[str | None, str]:
    """The state the source reports, or ``None`` and the error."""
    try:
        return str(context.source.ask(command, {"lease": context.spec.lease_timeout}, timeout=answer_timeout(context.spec.lease_timeout))["state"]["state"]), ""
    except FootprintError as error:
        return None, f" ({error.message})"


def _runs(context: Context) -> bool:
    """Whether the VM is known to run."""
    try:
        return context.clone_running()
    except FootprintError:
        return False


def _ensure_running(context: Context) -> bool:
    """Enable autostart of the VM and start it if it is off; returns whether it was running.

    :raises FootprintError: the VM does not run within ``boot_timeout``; clients are admitted nevertheless.
    """
    until = time.monotonic() + context.spec.boot_timeout
    while True:
        try:
            with context.domains() as host:
                host.set_autostart(context.vm.uuid, True)
                record = host.domain(context.vm.uuid)
                if record is not None and record.active:
                    return True
                context.log("the VM is off and the source has handed over: starting the VM")
                host.start(context.vm.uuid)
                return False
        except FootprintError:
            if time.monotonic() > until:
                run_cutover.let_clients_in(context)
                raise
            time.sleep(_POLL)


def leave(context: Context, *, power_off: bool = False, forget: bool = False) -> None:
    """Withdraw the one-time key on the source and on this host, and power off the source on request.

    A source that cannot be reached is not an error: the private key is deleted here, so the remaining entry in
    authorized_keys is useless. It expires, and the next key of this name replaces it.

    :arg forget: also remove the files that would shorten the next attempt.
    """
    if power_off:
        # recorded first: a worker that continues after a kill knows why the source does not answer
        context.journal.facts["source"]["off"] = True
        context.keep()
    given = {"marker": context.key_marker, "power_off": power_off, "forget": forget}
    key = key_blob(context.store.directory)
    if key:
        given["key"] = key
    error = run_jobs.withdraw_key(context.source, context.store.directory, "leave", given)
    if error is not None:
        context.journal.warnings.append(
            f"The one-time key may still be in /root/.ssh/authorized_keys of the source, in the line that ends in {context.key_marker}; "
            f"its private key is deleted and the line expires: {error.message}"
        )


def leave_at_end(context: Context) -> None:
    """Withdraw the key at the end of the worker, unless the next one must finish work on the source."""
    unfinished = context.journal.state == "failed" and "quiesce" in context.journal.phases
    if (context.store.directory / "id_ed25519").exists() and not unfinished:
        leave(context)
        context.keep()
