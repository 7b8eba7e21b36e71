# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lease on the source: renewed while all goes well, and the clone stopped when it cannot be (F16)."""

from __future__ import annotations

import threading
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend.remote_source import RemoteSource
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._model.migration_journal import SERVING
from ansible_collections.reduced.footprint.plugins.module_utils._plan.migration import FENCE, RENEW


class Lease:
    """A thread that renews the lease; use as a context manager around everything after quiesce.

    :arg source: a connection of its own, for threads do not share one.
    :arg seconds: the length of the lease.
    :arg fence: stops the clone; called once, from the thread, when the lease is in danger.
    :arg tell: what the source is told of the journal with each renewal.
    """

    def __init__(self, source: RemoteSource, seconds: float, fence: t.Callable[[], object], tell: t.Callable[[], t.Mapping[str, t.Any]]) -> None:
        self._source = source
        self._seconds = seconds
        self._fence = fence
        self._tell = tell
        self._stop = threading.Event()
        self._armed = False
        self._deciding = threading.Lock()
        self._lost: str | None = None
        self._renewed = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="lease", daemon=True)

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._stop.set()
        self._thread.join(timeout=self._seconds)

    def arm(self) -> None:
        """From now on a source that serves is a source that returned by itself."""
        self._renewed = time.monotonic()
        self._armed = True

    def end(self) -> None:
        """The source is about to let go for good: from now on the clone is not stopped for its sake.

        :raises BackendError: it returned, or was not heard from.
        """
        with self._deciding:
            self.check()
            self._armed = False

    def check(self) -> None:
        """Go on only while the source keeps still.

        :raises BackendError: it returned, or was not heard from.
        """
        if self._lost:
            raise BackendError(self._lost)

    def _work(self) -> None:
        while not self._stop.wait(self._seconds * RENEW):
            if not self._armed:
                continue
            sent = time.monotonic()
            try:
                answer = self._source.ask("renew", {"lease": self._seconds, "journal": self._tell()}, timeout=max(5.0, self._seconds * RENEW))
                if answer["state"]["state"] == SERVING:
                    self._lose("the source returned by itself")
                    return
                # counted from before the question: the source counts from when it heard it
                self._renewed = sent
            except FootprintError as error:
                if time.monotonic() - self._renewed > self._seconds * FENCE:
                    self._lose(f"the source was not heard from for {time.monotonic() - self._renewed:.0f} s ({error.message})")
                    return

    def _lose(self, reason: str) -> None:
        with self._deciding:
            if self._armed:
                self._lost = reason
                self._fence()
