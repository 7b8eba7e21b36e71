# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is stopped when the source is not heard from, and until when."""

from __future__ import annotations

import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._model.migration_journal import PARKED, SERVING
from ansible_collections.reduced.footprint.plugins.module_utils._run.migrate_lease import Lease

SECONDS = 0.2


class Source:
    """A source that answers, or does not."""

    def __init__(self, state):
        self.state = state
        self.asked = 0

    def ask(self, command, given=None, timeout=0):
        self.asked += 1
        if self.state is None:
            raise BackendError("no route to host")
        return {"state": {"state": self.state}}


def until(true):
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("state, reason", [(None, "was not heard from"), (SERVING, "returned by itself")])
def test_the_clone_is_stopped_when_the_source_is_lost_or_back(state, reason):
    stopped = []
    with Lease(Source(state), SECONDS, lambda: stopped.append(1), dict) as lease:
        lease.arm()
        until(lambda: stopped)
        with pytest.raises(BackendError, match=reason):
            lease.check()
        # and it does not let go for good then
        with pytest.raises(BackendError, match=reason):
            lease.end()
    assert stopped == [1]


def test_a_source_that_is_heard_stops_nobody():
    stopped, source = [], Source(PARKED)
    with Lease(source, SECONDS, lambda: stopped.append(1), dict) as lease:
        lease.arm()
        until(lambda: source.asked > 5)
        lease.check()
    assert stopped == []


@pytest.mark.parametrize("state", [None, SERVING])
def test_nobody_is_stopped_for_a_source_that_let_go(state):
    stopped, source = [], Source(PARKED)
    with Lease(source, SECONDS, lambda: stopped.append(1), dict) as lease:
        lease.arm()
        lease.end()
        source.state = state
        asked = source.asked
        time.sleep(4 * SECONDS)
        assert source.asked <= asked + 1
    assert stopped == []
