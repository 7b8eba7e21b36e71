# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worker: runs the phases of a move in a systemd unit, detached from the module.

``python3 -m …move_worker NAME`` reads the job of that name and writes its journal. It can be killed at
any time: the next worker determines the state of the VM and resumes from there.
"""

from __future__ import annotations

import contextlib
import pathlib
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_channel, io_live, model_journal, run_back, run_steps
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import HOME, MoveStore, unit_name
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import LIVE, parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units, run_jobs
from ansible_collections.reduced.footprint.plugins.module_utils._move.plan_move import is_off, resume_phase, waiting_text
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_context import Context, other_host
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import key_marker
from ansible_collections.reduced.footprint.plugins.module_utils._remote.run_phases import run_phase

MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._move.run_worker"

# between two requests to a destination that does not answer
_PAUSE = 10.0

_STEPS: t.Mapping[str, t.Callable[[Context], None]] = {
    model_journal.PREFLIGHT: run_steps.preflight,
    model_journal.RECEIVE: run_steps.receive,
    model_journal.PRECOPY: run_steps.precopy,
    model_journal.STOP: run_steps.stop,
    model_journal.COPY: run_steps.copy,
    model_journal.VERIFY: run_steps.verify,
    model_journal.PLACE: run_steps.place,
    model_journal.MIGRATE: run_steps.migrate,
    model_journal.SWITCH: run_steps.switch,
    model_journal.START: run_back.start,
    model_journal.SETTLE: run_back.settle,
}
_COMPLETE = (model_journal.MOVED, model_journal.CONFIRMED, model_journal.RETURNED)
# action → its phase
_LATER: t.Mapping[str, tuple[str, t.Callable[[Context], None]]] = {
    model_journal.CONFIRMED: ("confirm", run_back.confirm),
    model_journal.RETURNED: ("return", run_back.return_vm),
}


def carry_out(context: Context, action: str) -> None:
    """Run one action, from the current state; the result is in the journal."""
    journal = context.journal
    _begin(context, action)
    if action == model_journal.MOVED:
        _move(context)
    else:
        phase, work = _LATER[action]
        # a worker that was killed between this phase and its last entry in the journal has done everything
        if journal.going != action or not journal.finished(phase):
            run_phase(context, phase, lambda: work(context))
        journal.state = action
    if journal.state in _COMPLETE:
        journal.ended, journal.reason, journal.progress = time.time(), None, {}
        context.log(f"{journal.state}; {journal.downtime.get('seconds')} s of downtime")


def _begin(context: Context, action: str) -> None:
    """Record in the journal that this job has begun, unless it has: then the worker was killed, and continues."""
    journal, token = context.journal, context.params.get("token")
    if not _is_known(context):
        if action == model_journal.MOVED and context.params.get("new_move") and journal.state in _COMPLETE:
            # the VM has returned to this host since that move
            journal.renew(time.time())
        # a job of an earlier version has no token
        journal.facts["job"] = {"token": token, "ended": False}
    journal.state, journal.ended, journal.reason = model_journal.RUNNING, None, None
    context.save()


def _is_known(context: Context) -> bool:
    """Whether this job is the last one that the journal contains."""
    token = context.params.get("token")
    return token is not None and (context.journal.facts.get("job") or {}).get("token") == token


def _complete(context: Context, action: str) -> None:
    """Carry out an action. While the VM is off on both hosts, wait, then try again: without a limit if the destination does not answer, a disk is full,
    or libvirt cannot start the VM here.

    :raises FootprintError: the action failed, and the VM runs on one of the hosts, or was not running before.
    """
    while True:
        try:
            carry_out(context, action)
            return
        except Exception as error:
            again = context.unanswered is not None or isinstance(error, OSError) or isinstance(error, BackendError) and not context.journal.switched
            if not again or not is_off(context.journal, action):
                raise
            run_jobs.log_unexpected(context.store, error)
            reason = str(error)
        if context.unanswered is None:
            context.journal.reason = f"the VM may be off on both servers, waiting to try again: {reason}"
            with contextlib.suppress(OSError):
                context.save()
            time.sleep(_PAUSE)
        else:
            _await_destination(context)


def _await_destination(context: Context) -> None:
    """Wait until the destination answers, without limit: nothing else starts the VM again. The journal contains what is waited for."""
    journal, host = context.journal, context.spec.destination.name
    context.log(f"waiting for {host}, which does not answer: {context.unanswered}")
    while context.unanswered is not None:
        journal.state, journal.reason = model_journal.RUNNING, waiting_text(host, context.unanswered)
        journal.progress = {"phase": journal.phase, "waiting_for": host}
        # a full disk must not end the wait
        with contextlib.suppress(OSError):
            context.save()
        time.sleep(_PAUSE)
        # an error that it reports is an answer
        with contextlib.suppress(FootprintError):
            context.ask("state")
    context.log(f"{host} answers again")


def _move(context: Context) -> None:
    journal = context.journal
    if not _may_continue(context):
        return
    failed = journal.facts.get("failed")
    if failed and journal.switched:
        run_back.give_up(context, failed)
        return
    if failed:
        run_steps.roll_back(context, failed)
        return
    try:
        phase: str | None = _where(context)
        while phase is not None:
            step = _STEPS[phase]
            run_phase(context, phase, lambda step=step: step(context))
            # the method is known after the preflight
            order = model_journal.LIVE_PHASES if journal.method == LIVE else model_journal.COPY_PHASES
            phase = next(iter(order[order.index(phase) + 1 :]), None)
    except run_back.RolledBack:
        return
    except Exception as error:
        if journal.switched:
            raise
        run_jobs.log_unexpected(context.store, error)
        run_steps.roll_back(context, f"{journal.phase}: {error}")
        return
    journal.state = model_journal.MOVED


def _may_continue(context: Context) -> bool:
    """Whether the VM is still the one that is moved: with a standby, it may have been started there while this host was off.

    If it was, the copy at the destination, which never ran, is discarded, and the VM stays off here.

    :raises RefusedError: it was, and may run at the destination as well.
    """
    journal = context.journal
    if "vm" not in journal.facts or journal.switched and (journal.method == LIVE or journal.finished(model_journal.START)):
        # not begun, or it runs at the destination
        return True
    try:
        context.await_permit()
    except RefusedError as error:
        if journal.switched:
            raise
        journal.facts["held"] = None
        run_steps.roll_back(context, error.message)
        return False
    return True


def _where(context: Context) -> str:
    """Return the first phase; if the VM may have been changed already, its state on both hosts is read."""
    journal = context.journal
    here = there = None
    if run_steps.touched(context) and not journal.switched:
        here = io_live.domain_state(context.uri, context.uuid)
        if journal.method == LIVE:
            try:
                there = context.ask("state")["state"]
            except FootprintError as error:
                # before the switch the VM is on the source in any case
                context.log(f"the destination does not answer: {error.message}")
    phase, reason = resume_phase(journal, here, there)
    if reason:
        context.log(f"resuming at {phase}: {reason}")
    if phase == model_journal.PREFLIGHT:
        held, running = journal.facts.get("held"), journal.facts.get("running")
        if held and here is not None:
            # the VM on the source is unchanged: discard the copy and let the VM run here again
            run_steps.restore(context)
            held = None
        journal.renew(time.time())
        if held:
            journal.facts.update(held=held, running=running)
    elif phase == model_journal.SWITCH and journal.method == LIVE:
        run_steps.arrived(context, there or "")
    return phase


def open_context(store: MoveStore, params: t.Mapping[str, t.Any]) -> Context:
    """Create the context of a stored job."""
    spec = parse_spec(params)
    return Context(spec, params, store, store.journal(), other_host(spec, store, io_units.keep_code()))


def main(argv: t.Sequence[str], home: pathlib.Path = HOME) -> int:
    """Entry point of the unit; exit code 0 if the action succeeded."""
    if len(argv) != 1:
        sys.stderr.write("usage: move_worker NAME\n")
        return 2
    store = MoveStore(argv[0], home)
    with store.locked():
        job = store.read_job()
        if job is None:
            raise InputError(f"no move of {argv[0]} exists.", "id")
        context = open_context(store, job["params"])
        journal = context.journal
        # its worker was killed while it cleaned up, so systemd has started it again
        if _is_known(context) and journal.facts["job"].get("ended"):
            context.log("this job has ended already; only its key and its unit are removed")
        else:
            try:
                _complete(context, job["action"])
            except Exception as error:
                run_jobs.record_failure(store, journal, error)
            # with the result: a worker that is killed from here on must not carry it out again
            journal.facts["job"] = {"token": context.params.get("token"), "ended": True}
            try:
                store.write(journal)
            except OSError as error:
                # as after a kill: the next worker continues from what is on the disk
                sys.stderr.write(f"the result cannot be written: {error}\n")
                return 1
            store.release()
        _withdraw_key(context)
        io_units.forget_at_boot(unit_name(store.name))
    return 0 if journal.state == job["action"] else 1


def _withdraw_key(context: Context) -> None:
    """Remove the one-time key; a confirmation or return of the move places another one.

    An unreachable destination keeps the public key, which expires; its private key is deleted.
    """
    # without its private key, which a killed worker has removed already, nothing can be asked
    usable = (context.store.directory / "id_ed25519").exists() and not context.params.get("destination_lost")
    attempts = run_jobs.ATTEMPTS if usable else 0
    given = {"marker": key_marker(context.remote.name)}
    error = run_jobs.withdraw_key(context.remote, context.store.directory, "forget_key", given, attempts=attempts)
    if error is not None:
        context.store.log(f"cannot remove the one-time key at the destination: {error.message}")
    # sockets of a killed worker
    io_channel.remove_folder(context.remote.name)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
