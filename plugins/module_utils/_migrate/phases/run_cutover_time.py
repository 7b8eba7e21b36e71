# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Begin the pause at the requested time, with a copy that is kept up to date until then, and only if it will be short enough."""

from __future__ import annotations

import contextlib
import signal
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy import run_verify
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_text import duration

# seconds between two updates of the copy, between two rehearsals, and until what failed is tried again
_UPDATE, _REHEARSE, _RETRY = 900.0, 86400.0, 60.0
_TICK = 5.0
#: Fact of the journal: the time for which the worker waits, or has waited.
_WAITS = "waits"
# an update adds two passes, also in a wait of days
_PASSES = 20


def wait(context: Context, rehearse: t.Callable[[], None], now: t.Callable[[], float] = time.time, sleep: t.Callable[[float], None] = time.sleep) -> None:
    """Wait for ``cutover_at``. Meanwhile the copy is updated and rehearsed again, and the time does not count for ``preparation_timeout``.

    :raises FootprintError: a rehearsal failed, or the copy must be created again.
    """
    at = context.spec.cutover_at
    if at is None or now() >= at:
        return
    context.log(f"waits until {utc(at)} to begin the pause")
    context.journal.facts[_WAITS] = at
    updated = rehearsed = now()
    _report(context, at, None)
    with _unlimited():
        while now() < at:
            sleep(min(_TICK, max(0.0, at - now())))
            if _UPDATE <= now() - updated and now() < at:
                problem = _update(context)
                if now() - rehearsed >= _REHEARSE and now() < at:
                    rehearse()
                    rehearsed = now()
                updated = now()
                _report(context, at, problem)
                context.mirror()


@contextlib.contextmanager
def _unlimited() -> t.Iterator[None]:
    """Do not count the time for ``preparation_timeout``."""
    left = signal.setitimer(signal.ITIMER_REAL, 0)[0]
    yield
    signal.setitimer(signal.ITIMER_REAL, left)


def _report(context: Context, at: float, problem: str | None) -> None:
    progress = {"phase": context.journal.phase, "step": f"waiting until {utc(at)}", "cutover_at": utc(at)}
    context.journal.progress = {**progress, "problem": problem} if problem else progress
    context.keep()


def _update(context: Context) -> str | None:
    """Update the copy; returns why that failed. A source that does not answer now, or a full disk, may be in order before the pause."""
    problem = None
    try:
        context.store.reserve()
        run_verify.catch_up(context)
    except (FootprintError, OSError) as error:
        if context.journal.facts.get("spoilt"):
            raise
        context.log(f"the copy was not updated, which is tried again: {error}")
        problem = str(error)
    del context.journal.passes[1:-_PASSES]
    return problem


def resumes(context: Context) -> bool:
    """Return whether an earlier worker, which did not end by itself, has waited for the same time."""
    at = context.spec.cutover_at
    return at is not None and context.journal.state == "running" and context.journal.facts.get(_WAITS) == at


def insist(context: Context, work: t.Callable[[], None], now: t.Callable[[], float] = time.time, sleep: t.Callable[[float], None] = time.sleep) -> None:
    """Work for the pause; with ``cutover_at`` again until ``cutover_window`` ends, because the source may answer until then.

    :raises FootprintError: the last error, or one that only another run can fix.
    """
    at = context.spec.cutover_at
    while True:
        try:
            work()
            return
        except RefusedError:
            # preparation_timeout
            raise
        except (FootprintError, OSError) as error:
            if at is None or context.journal.facts.get("spoilt") or now() + _RETRY > at + context.spec.cutover_window:
                raise
            context.log(f"tried again: {error}")
            _report(context, at, str(error))
            with _unlimited():
                sleep(_RETRY)


def check(context: Context, now: t.Callable[[], float] = time.time) -> None:
    """Refuse a pause that would begin too late or be too long.

    :raises RefusedError: the copy is kept for the next run.
    """
    spec, predicted = context.spec, context.journal.downtime.get("predicted")
    if spec.cutover_at is not None and now() > spec.cutover_at + spec.cutover_window:
        what = f"The pause did not begin within {duration(spec.cutover_window)} after {utc(spec.cutover_at)}."
        raise RefusedError(what, "cutover_window", "Set another cutover_at; the copy is kept.")
    if spec.max_pause and (predicted is None or predicted > spec.max_pause):
        expected = "unknown" if predicted is None else duration(predicted)
        what = f"The predicted pause is {expected}, longer than max_pause ({duration(spec.max_pause)})."
        raise RefusedError(what, "max_pause", "Run again when the source writes less, or raise max_pause; the copy is kept.")
