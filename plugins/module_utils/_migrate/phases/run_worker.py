# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worker: runs the phases of a migration, detached from the module that started it.

``python3 -m …migrate_worker NAME`` reads the job of that name and writes its journal. It may be
killed at any moment: the next worker determines the state and continues.
"""

from __future__ import annotations

import contextlib
import errno
import pathlib
import signal
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.bootstrap import run_bootstrap
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy import run_copy, run_verify
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_commit, run_cutover, run_cutover_time, run_return
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.plan_phases import other_destination, resume
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context, machine_id, remote, vm_details
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_lease import Lease
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import run_rehearsal
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_hooks import Hook
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import STOP_AFTER, parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import AGAIN, FINAL, worn_out
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units, io_worker_starts, run_jobs
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import HOME, JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_rsync import full_pool
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import drop_key_files
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PHASES, Journal
from ansible_collections.reduced.footprint.plugins.module_utils._remote.run_phases import run_phase

MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_worker"

MIGRATE = "migrate"
ROLL_BACK = "roll_back"
RETIRE = "retire"


def _held(work: t.Callable[[Context], None]) -> t.Callable[[Context, Lease], None]:
    """A phase that requires a quiesced source, checked before and after it."""

    def with_lease(context: Context, lease: Lease) -> None:
        lease.arm()
        work(context)
        lease.check()

    return with_lease


def _prepare(context: Context) -> None:
    """Boot the bootstrap system; with ``boot: image`` there is nothing to prepare."""
    if context.spec.boot == run_bootstrap.PXE:
        run_bootstrap.prepare(context)


def _precopy(context: Context) -> None:
    """Copy, and compare what the source did not change meanwhile."""
    run_copy.precopy(context)
    run_verify.live(context)


_BEFORE: t.Mapping[str, t.Callable[[Context], None]] = {
    "preflight": run_copy.preflight,
    "define": run_copy.define,
    "prepare": _prepare,
    "partition": run_copy.partition,
    "precopy": _precopy,
    "rehearse": run_rehearsal.rehearse,
}
_PAUSE: t.Mapping[str, t.Callable[[Context, Lease], None]] = {
    "quiesce": run_cutover.quiesce,
    "final": _held(run_copy.final),
    "fixup": _held(run_copy.fixup),
    "verify": _held(run_verify.verify),
    "cutover": run_cutover.cutover,
    "commit": run_commit.commit,
}
# seconds after which a finished live copy is brought up to date again, and what preflight has found is out of date
_FRESH = 900.0


def open_context(store: JournalStore, params: t.Mapping[str, t.Any]) -> Context:
    """Return a context from a stored job.

    :raises InputError: the job is not valid (any more).
    """
    spec = parse_spec(params)
    code = io_units.keep_code()
    journal = store.read() or Journal(name=spec.name)
    source = remote(spec, store, code)
    if "quiesce" in journal.phases:
        source.identity.mark = journal.facts.get("source_mark")
    return Context(spec=spec, vm=vm_details(spec), store=store, journal=journal, code=code, source=source)


def carry_out(context: Context, action: str, starts: t.Sequence[float] = ()) -> None:
    """Run one action from the current state; the result is in the journal.

    :arg starts: times of this worker's starts since it last ended without being killed.
    """
    journal = context.journal
    run_rehearsal.sweep(context)
    if action != MIGRATE or context.spec.boot != run_bootstrap.PXE:
        run_bootstrap.sweep(context)
    if action == ROLL_BACK:
        run_return.roll_back(context, run_return.ASKED)
    elif action == RETIRE:
        run_return.retire(context)
        journal.state = "retired"
    elif journal.facts.get("returning"):
        run_return.roll_back(context, journal.facts["returning"])
    elif worn_out(starts, io_worker_starts.clock()) and not journal.facts.get("handed_over") and journal.facts.get("handing_over") != FINAL:
        _give_up(context, f"its worker was killed {len(starts) - 1} times")
    else:
        _migrate(context)
    context.save()


def _give_up(context: Context, reason: str) -> None:
    """Roll back after the worker was killed repeatedly, so that the source serves again."""
    if "quiesce" not in context.journal.phases:
        raise BackendError(f"The migration was aborted: {reason}.", hint="Find out what kills it, for example with journalctl -k; then run again.")
    run_return.roll_back(context, f"{context.journal.phase}: {reason}")


def _migrate(context: Context) -> None:
    journal, waited = context.journal, run_cutover_time.resumes(context)
    first = _where(context)
    if journal.facts.get("spoilt"):
        if first not in STOP_AFTER:
            run_return.roll_back(context, f"{first}: a write to the copy was lost")
            return
        context.log("a write to the copy was lost, so the copy is created again")
        journal.forget_from("partition")
    journal.state, journal.phase = "running", first
    context.save()
    if first in STOP_AFTER:
        context.store.reserve()
        _one_destination(context)
    # problems may have been fixed, and a bootstrap system does not outlive its run
    always = ("preflight", "prepare") if context.spec.boot == run_bootstrap.PXE else ("preflight",)
    with _worktime(context):
        for phase in STOP_AFTER[PHASES.index(first) :]:
            if phase in always or not journal.finished(phase):
                if phase == "preflight" and waited:
                    # the source may start later than this host
                    run_cutover_time.insist(context, lambda: _phase(context, "preflight", _BEFORE["preflight"]))
                else:
                    _phase(context, phase, _BEFORE[phase])
                context.mirror()
            if context.spec.stop_after == phase:
                _stop(context)
                return
        if first in STOP_AFTER:
            run_cutover_time.wait(context, lambda: _phase(context, "rehearse", _BEFORE["rehearse"]))
            run_cutover_time.insist(context, lambda: _catch_up(context))
            run_cutover_time.check(context)
            # the reserve may have been used meanwhile
            context.store.reserve()
    try:
        connection = remote(context.spec, context.store, context.code)
        connection.identity = context.source.identity
        with Lease(connection, context.spec.lease_timeout, lambda: run_copy.stop_clone(context), context.reported, context.guard) as lease:
            for phase in PHASES[max(PHASES.index(first), len(STOP_AFTER)) :]:
                _phase(context, phase, lambda context, phase=phase: _PAUSE[phase](context, lease))
    except Exception as error:
        if journal.facts.get("handed_over"):
            raise
        run_jobs.log_unexpected(context.store, error)
        run_return.roll_back(context, f"{journal.phase}: {error}")
        return
    _summarize(context)


def _catch_up(context: Context) -> None:
    """Bring the copy up to date. The source may have got another file system meanwhile, or a service."""
    if time.time() - context.journal.phases["preflight"]["started"] > _FRESH:
        _phase(context, "preflight", _BEFORE["preflight"])
    context.journal.phase = STOP_AFTER[-1]
    context.journal.progress = {"phase": context.journal.phase, "step": "catching up"}
    run_verify.catch_up(context)


def _stop(context: Context) -> None:
    """Stop after the requested phase and withdraw the key; the next run places another one."""
    context.journal.state, context.journal.ended, context.journal.reason = "stopped", time.time(), None
    context.journal.progress = {}
    context.log("stopped by stop_after")
    context.save()
    context.mirror()
    run_commit.leave(context)


def _one_destination(context: Context) -> None:
    """Prevent two hosts from migrating the same source."""
    try:
        answer = context.source.ask("mirror", timeout=20)
    except FootprintError as error:
        # preflight reports this as well, together with all other problems
        context.log(f"the source does not answer: {error.message}")
        return
    other = other_destination(answer["kept"], answer["state"]["state"], machine_id(), time.time())
    if other:
        hint = f"Wait until it finishes, or roll it back there (state rolled_back on {other})."
        raise RefusedError(f"{other} is migrating this source.", "source.address", hint)


def run_hooks(context: Context, phase: str, when: str) -> None:
    """Run the hooks before or after a phase, in their order.

    :raises BackendError: a hook failed; its phase fails with it.
    """
    for index, hook in enumerate(context.spec.hooks):
        if (hook.phase, hook.when) == (phase, when):
            context.log(f"hook {index} {when} {phase} on the {hook.on}: {hook.command[0]}")
            context.progress(phase=phase, hook=index)
            _run_hook(context, index, hook)
            context.journal.progress.pop("hook", None)


def _run_hook(context: Context, index: int, hook: Hook) -> None:
    try:
        if hook.on == "destination":
            run(hook.command, timeout=hook.timeout)
        else:
            # finds the address that answers, so that the hook is sent to that one only: it may not be repeated
            context.source.ask("state", timeout=20)
            context.source.ask("run", {"command": list(hook.command), "timeout": hook.timeout}, timeout=hook.timeout + 30, once=True)
    except FootprintError as error:
        raise BackendError(
            f"The hook {hook.when} {hook.phase} on the {hook.on} failed: {error.message}", f"hooks[{index}]", "Correct its command, or remove the hook."
        ) from error


def _phase(context: Context, name: str, work: t.Callable[[Context], None]) -> None:
    """Run one phase with its hooks."""
    journal = context.journal

    def whole() -> None:
        run_hooks(context, name, "before")
        try:
            work(context)
        except (FootprintError, OSError) as error:
            # a lost write may be the cause, and it is reported only once
            if context.image is not None:
                context.settle()
            full = full_pool(journal.facts["vm"]["disk"]) if "vm" in journal.facts and getattr(error, "errno", 0) == errno.ENOSPC else None
            if full:
                raise full from error
            raise
        run_hooks(context, name, "after")

    run_phase(context, name, whole)


@contextlib.contextmanager
def _worktime(context: Context) -> t.Iterator[None]:
    """Limit the time before the pause to ``preparation_timeout``.

    The alarm interrupts any wait of the worker; the copied data is kept for the next run.
    """

    def over(*unused: object) -> None:
        raise RefusedError(
            f"preparation_timeout ({context.spec.preparation_timeout} s) expired before the pause.",
            "preparation_timeout",
            "Run again, the copied data is kept; or raise preparation_timeout.",
        )

    if not context.spec.preparation_timeout:
        yield
        return
    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, context.spec.preparation_timeout)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _where(context: Context) -> str:
    """Return the first phase to run; the source is asked only when it may have been changed."""
    journal = context.journal
    if journal.state in ("rolled_back", "new") or journal.started is None:
        journal.new_attempt(time.time())
        return PHASES[0]
    source_state: str | None = None
    if any(phase in journal.phases for phase in PHASES[len(STOP_AFTER) :]):
        if "cutover" in journal.phases:
            # the source is most likely there; the VM at the other address would refuse the connection
            context.source.address = context.spec.admin.temporary_address
            if context.source.identity.mark is None and journal.facts.get("vm") and context.clone_running():
                # without a mark the VM at the other address cannot be distinguished from the source
                context.source.identity.only = context.source.address
        try:
            source_state = str(context.source.ask("state")["state"]["state"])
        except FootprintError as error:
            context.log(f"the source does not answer: {error.message}")
    found = resume(journal, source_state, bool(journal.facts.get("vm")) and context.clone_running())
    if found.reason:
        context.log(f"continuing with {found.phase}: {found.reason}")
    if found.stop_clone:
        run_copy.stop_clone(context)
    if found.phase == "precopy" and "quiesce" in journal.phases:
        journal.facts.pop("handing_over", None)
        journal.new_attempt(time.time())
        return PHASES[0]
    if found.phase not in STOP_AFTER and "quiesce" in journal.phases:
        return found.phase
    if journal.state != "running" or time.time() - journal.phases.get("precopy", {}).get("started", 0) > _FRESH:
        # the previous run ended, or its copy is too old
        journal.forget_from("precopy")
    # problems may have been fixed, and new ones may have appeared
    return PHASES[0]


def _summarize(context: Context) -> None:
    journal = context.journal
    journal.state = "done"
    journal.ended = time.time()
    journal.reason = None
    journal.progress = {}
    steps = journal.downtime.get("parts", {})
    if "boot" in steps:
        journal.facts["boot_seconds"] = round(steps["boot"] + steps.get("checks", 0), 3)
    paused = PHASES[len(STOP_AFTER) : PHASES.index("cutover")]
    journal.downtime["parts"] = {**{phase: journal.phases[phase]["seconds"] for phase in paused if phase in journal.phases}, **steps}
    context.log(f"the VM serves as the master; downtime {journal.downtime.get('seconds')} s")


def main(argv: t.Sequence[str], home: pathlib.Path = HOME) -> int:
    """Entry point of the unit; the exit code is 0 when the action succeeded."""
    if len(argv) != 1:
        sys.stderr.write("usage: migrate_worker NAME\n")
        return 2
    store = JournalStore(argv[0], home)
    with store.locked():
        starts = io_worker_starts.note(store.name)
        job = store.read_job()
        if job is None:
            raise InputError(f"The migration {argv[0]} does not exist.", "name")
        journal = store.read() or Journal(name=argv[0])
        context: Context | None = None
        try:
            context = open_context(store, job["params"])
            journal = context.journal
            carry_out(context, job["action"], starts)
        except Exception as error:
            run_jobs.record_failure(store, journal, error)
            # without the journal entry the next run determines the state itself
            with contextlib.suppress(OSError):
                store.write(journal)
        if context is not None and journal.state == "failed":
            context.mirror()
        _release(context)
        io_worker_starts.forget(store.name)
        if context is None:
            drop_key_files(store.directory)
        else:
            run_commit.leave_at_end(context)
        if journal.state == "failed" and journal.facts.get("handing_over") == FINAL and not journal.facts.get("handed_over"):
            # only a worker can find out whether the source received the final confirmation
            return AGAIN
        store.release()
        # not reached by a killed worker, whose migration continues after the next boot
        io_units.forget_at_boot(io_units.unit_name(store.name))
    return 0 if journal.state in ("done", "stopped", "retired") or (journal.state == "rolled_back" and job["action"] == ROLL_BACK) else 1


def _release(context: Context | None) -> None:
    """Remove rehearsal, loop devices and bootstrap system."""
    if context is None:
        return
    image = context.image
    for cleanup in (lambda: run_rehearsal.sweep(context), lambda: image and image.release(), lambda: run_bootstrap.sweep(context)):
        try:
            cleanup()
        except (FootprintError, OSError) as error:
            context.store.log(f"cleanup is not complete: {error}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
