# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bounds of time and memory hold, and are gone afterwards."""

from __future__ import annotations

import resource
import signal
import threading

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.io_bounds import TooLongError, bounded


def test_time_is_limited() -> None:
    with pytest.raises(TooLongError, match="more than 0.1 s"), bounded(0.1):
        while True:
            pass
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_memory_is_limited() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError), bounded(room=1 << 26):
        bytearray(1 << 28)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    with bounded():
        bytearray(1 << 20)


def test_other_threads_are_not_limited() -> None:
    found = []

    def work() -> None:
        with bounded(0.001):
            found.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [1]
