# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Time and memory limits for rendering a template of a user."""

from __future__ import annotations

import contextlib
import resource
import signal
import threading
import typing as t


class TooLongError(Exception):
    """The CPU time limit is exceeded."""


@contextlib.contextmanager
def bounded(seconds: float = 5, room: int = 1 << 29) -> t.Iterator[None]:
    """Limit the CPU time (seconds) and the additional memory (bytes) of the body.

    No limits apply in threads other than the main thread.

    :raises TooLongError: inside the body, if the time limit is exceeded; exceeding the memory limit is a ``MemoryError``.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(unused: int, frame: t.Any) -> None:
        raise TooLongError(f"takes more than {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as stream:
        most = int(stream.read().split()[0]) * resource.getpagesize() + room
    try:
        if soft == resource.RLIM_INFINITY or most < soft:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
