# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lease on the source: renewed continuously; the VM is stopped when it cannot be renewed."""

from __future__ import annotations

import contextlib
import threading
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.io_vm_guard import VmGuard, clock
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.plan_phases import RENEW, answer_timeout
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import FENCE, stop_is_due
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import RemoteSource
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import SERVING


class Lease:
    """Two threads: one renews the lease, one checks its age. Use as a context manager around all phases after quiesce.

    A missing answer blocks the first thread until ssh times out, never the second.

    :arg source: a separate connection, because threads do not share one.
    :arg seconds: the length of the lease.
    :arg fence: stops the VM; called once, when the lease is about to expire.
    :arg journal: returns the journal that each renewal sends to the source.
    :arg guard: gets the time of each answer; stops the VM when this process cannot.
    """

    def __init__(
        self,
        source: RemoteSource,
        seconds: float,
        fence: t.Callable[[], object],
        journal: t.Callable[[], t.Mapping[str, t.Any]],
        guard: VmGuard,
    ) -> None:
        self._source = source
        self._seconds = seconds
        self._fence = fence
        self._journal = journal
        self._guard = guard
        self._stop = threading.Event()
        self._armed = False
        self._request_lock = threading.Lock()
        self._decision_lock = threading.Lock()
        self._lost: str | None = None
        self._last_error = ""
        self._heard = float("-inf")
        self._threads = [threading.Thread(target=each, name=each.__name__, daemon=True) for each in (self._renew, self._watch_age)]

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
        """Whether the source was found quiesced and the lease runs."""
        return self._armed

    @property
    def heard(self) -> float:
        """Time of the last successful request to the source."""
        return self._heard

    def arm(self) -> None:
        """Start the lease: from now on a source that serves has returned by itself.

        The lease starts with an answer of the source, never without one.

        :raises FootprintError: the source returned, or does not answer.
        """
        if not self._armed:
            self._ask_with_retries()
            with self._decision_lock:
                self._armed = self._lost is None
        self.check()

    def take_over(self) -> None:
        """Continue the lease of the previous worker, whose last request may not have been answered."""
        note = self._guard.read()
        if note is not None:
            self._heard = max(self._heard, float(note["heard"]))
        self._armed = True

    def end(self) -> None:
        """End the lease after the hand-over: the VM is no longer stopped for the source."""
        with self._decision_lock:
            self._armed, self._lost = False, None
            self._guard.end()

    def in_time(self) -> bool:
        """Whether the last answer of the source is recent enough for the VM to run."""
        self._decide()
        return self._lost is None and not stop_is_due(clock() - self._heard, self._seconds, FENCE)

    def check(self) -> None:
        """Check that the lease is valid."""
        self._decide()
        if self._lost:
            raise BackendError(self._lost)

    def _renew(self) -> None:
        pause = self._seconds * RENEW
        while not self._stop.wait(pause):
            began = clock()
            pause = self._seconds * RENEW
            if not self._armed or self._lost:
                continue
            try:
                self._ask()
            except (FootprintError, OSError, ValueError) as error:
                self._last_error = f" ({error})"
            # measured from request to request: a slow source is asked as often as a fast one
            pause = max(0.0, began + pause - clock())

    def _ask_with_retries(self) -> None:
        """Retry a source that answers slowly: nothing runs on its lease yet, or the guard watches the VM."""
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
        with self._request_lock:
            # measured from before the request: the source measures from its arrival
            sent = clock()
            given = {"lease": self._seconds, "journal": self._journal()}
            answer = self._source.ask("renew", given, timeout=timeout or answer_timeout(self._seconds, 5.0))
        if answer["state"]["state"] == SERVING:
            self._lose("the source returned by itself")
        else:
            self._heard = max(self._heard, sent)
            self._guard.heard(sent)

    def _watch_age(self) -> None:
        while not self._stop.wait(min(0.5, self._seconds * RENEW)):
            self._decide()

    def _decide(self) -> None:
        """Lose the lease when it is too old."""
        age = clock() - self._heard
        if self._armed and not self._lost and stop_is_due(age, self._seconds, FENCE):
            self._lose(f"the source did not answer for {age:.0f} s{self._last_error}")

    def _lose(self, reason: str) -> None:
        with self._decision_lock:
            if self._lost:
                return
            self._lost = reason
            if self._armed:
                # if the VM cannot be stopped here, the guard stops it
                with contextlib.suppress(FootprintError):
                    self._fence()
