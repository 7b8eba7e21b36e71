# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lease on the source: renewed while all goes well, and the clone stopped when it cannot be."""

from __future__ import annotations

import contextlib
import threading
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.io_vm_guard import VmGuard, clock
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.plan_phases import RENEW
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import FENCE, stop_is_due
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import RemoteSource
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import SERVING


class Lease:
    """Two threads: one renews the lease, one looks at the clock; use as a context manager around everything after quiesce.

    An answer that does not come blocks the first one for as long as ssh waits, never the second.

    :arg source: a connection of its own, for threads do not share one.
    :arg seconds: the length of the lease.
    :arg fence: stops the clone; called once, when the lease is in danger.
    :arg tell: what the source is told of the journal with each renewal.
    :arg guard: is told when the source was heard from; it acts when this process cannot.
    """

    def __init__(
        self,
        source: RemoteSource,
        seconds: float,
        fence: t.Callable[[], object],
        tell: t.Callable[[], t.Mapping[str, t.Any]],
        guard: VmGuard,
    ) -> None:
        self._source = source
        self._seconds = seconds
        self._fence = fence
        self._tell = tell
        self._guard = guard
        self._stop = threading.Event()
        self._armed = False
        self._asking = threading.Lock()
        self._deciding = threading.Lock()
        self._lost: str | None = None
        self._silence = ""
        self._heard = float("-inf")
        self._threads = [threading.Thread(target=each, name=each.__name__, daemon=True) for each in (self._renew, self._look_at_the_clock)]

    def __enter__(self) -> Lease:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join(timeout=self._seconds)

    @property
    def armed(self) -> bool:
        """Whether the source was found to keep still, and the clock runs."""
        return self._armed

    @property
    def heard(self) -> float:
        """When the source was asked for the last time with success."""
        return self._heard

    def arm(self) -> None:
        """From now on a source that serves is a source that returned by itself.

        The clock begins with an answer of the source, never without one.

        :raises FootprintError: it returned, or does not answer.
        """
        if not self._armed:
            self._ask_patiently()
            with self._deciding:
                self._armed = self._lost is None
        self.check()

    def take_over(self) -> None:
        """Go on with the clock of the worker before, whose last question may not have been answered."""
        note = self._guard.read()
        if note is not None:
            self._heard = max(self._heard, float(note["heard"]))
        self._armed = True

    def end(self) -> None:
        """The source has let go for good: nobody stops the VM for its sake any more."""
        with self._deciding:
            self._armed, self._lost = False, None
            self._guard.end()

    def in_time(self) -> bool:
        """Whether the source was heard from lately enough for the VM to run."""
        self._decide()
        return self._lost is None and not stop_is_due(clock() - self._heard, self._seconds, FENCE)

    def check(self) -> None:
        """Go on only while the source keeps still.

        :raises BackendError: it returned, or was not heard from.
        """
        self._decide()
        if self._lost:
            raise BackendError(self._lost)

    def _renew(self) -> None:
        while not self._stop.wait(self._seconds * RENEW):
            if not self._armed or self._lost:
                continue
            try:
                self._ask()
            except (FootprintError, OSError, ValueError) as error:
                self._silence = f" ({error})"

    def _ask_patiently(self) -> None:
        """A source that is slow to answer for once is no reason to go back; nothing runs on its lease yet, or the guard sees to it."""
        until = clock() + self._seconds * FENCE
        while True:
            try:
                self._ask(max(20.0, self._seconds * FENCE))
            except FootprintError:
                if self._stop.wait(0.2) or clock() > until:
                    raise
            else:
                return

    def _ask(self, timeout: float | None = None) -> None:
        with self._asking:
            # counted from before the question: the source counts from when it heard it
            sent = clock()
            given = {"lease": self._seconds, "journal": self._tell()}
            answer = self._source.ask("renew", given, timeout=timeout or max(5.0, self._seconds * RENEW))
        if answer["state"]["state"] == SERVING:
            self._lose("the source returned by itself")
        else:
            self._heard = max(self._heard, sent)
            self._guard.heard(sent)

    def _look_at_the_clock(self) -> None:
        while not self._stop.wait(min(0.5, self._seconds * RENEW)):
            self._decide()

    def _decide(self) -> None:
        """Find out whether the time is over, whoever looks at the clock first."""
        age = clock() - self._heard
        if self._armed and not self._lost and stop_is_due(age, self._seconds, FENCE):
            self._lose(f"the source was not heard from for {age:.0f} s{self._silence}")

    def _lose(self, reason: str) -> None:
        with self._deciding:
            if self._lost:
                return
            self._lost = reason
            if self._armed:
                # whoever cannot stop it leaves that to the guard
                with contextlib.suppress(FootprintError):
                    self._fence()
