# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is stopped when the source is not heard from, and until when."""

from __future__ import annotations

import threading
import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_lease
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.io_vm_guard import VmGuard, clock
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.plan_phases import RENEW
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_lease import Lease
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import FENCE
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PARKED, SERVING

SECONDS = 0.4


class Source:
    """A source that answers, does not, or lets one wait."""

    def __init__(self, state=PARKED):
        self.state = state
        self.asked = 0
        self.waits = None
        self.seconds = 0.0
        self.timeout = 0.0

    def ask(self, command, given=None, timeout=0):
        self.asked += 1
        self.timeout = timeout
        time.sleep(self.seconds)
        if self.waits:
            self.waits.wait(20)
        if self.state is None:
            raise BackendError("no route to host")
        return {"state": {"state": self.state}}


class World:
    def __init__(self, folder):
        self.source = Source()
        self.stopped = []
        self.guard = VmGuard("m", folder)
        self.guard.begin("test:///default", "uuid", "master", SECONDS, clock())

    def lease(self, seconds=SECONDS):
        return Lease(self.source, seconds, lambda: self.stopped.append(clock()), dict, self.guard)


@pytest.fixture(name="world")
def fixture_world(tmp_path):
    return World(tmp_path)


def until(true):
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("state, reason", [(None, "did not answer for.*no route to host"), (SERVING, "returned by itself")])
def test_the_clone_is_stopped_when_the_source_is_lost_or_back(world, state, reason):
    with world.lease() as lease:
        lease.arm()
        world.source.state = state
        until(lambda: world.stopped)
        with pytest.raises(BackendError, match=reason):
            lease.check()
        assert not lease.in_time()
    assert len(world.stopped) == 1


def test_vm_is_not_stopped_while_the_source_answers(world):
    with world.lease() as lease:
        lease.arm()
        until(lambda: world.source.asked > 8)
        lease.check()
        assert lease.in_time()
        # the note is written after the answer was heard
        until(lambda: world.guard.read()["heard"] == lease.heard)
    assert world.stopped == []


@pytest.mark.parametrize("state", [None, SERVING])
def test_vm_is_not_stopped_for_a_source_that_handed_over(world, state):
    with world.lease() as lease:
        lease.arm()
        lease.end()
        world.source.state = state
        asked = world.source.asked
        time.sleep(4 * SECONDS)
        assert world.source.asked <= asked + 1
        lease.check()
    assert world.stopped == [] and world.guard.read() is None


def test_a_question_that_hangs_does_not_hold_up_the_clock(world):
    with world.lease() as lease:
        lease.arm()
        world.source.waits = threading.Event()
        until(lambda: world.stopped)
        # less than the lease, however long the question takes
        assert world.stopped[0] - lease.heard < SECONDS
        world.source.waits.set()


def test_a_slow_source_is_asked_as_often_as_a_fast_one(world):
    """Its answers take as long as the time between two renewals."""
    with world.lease(4) as lease:
        lease.arm()
        world.source.state, world.source.seconds = None, 0.6
        asked = world.source.asked
        until(lambda: world.stopped)
        assert world.source.asked >= asked + 3


def test_an_answer_may_take_longer_than_the_time_between_two_renewals(world):
    """A renewal counts from when it was sent, so a late answer is as good as any before the VM must be stopped."""
    with world.lease(120) as lease:
        lease._ask()
    assert 120 * RENEW < world.source.timeout < 120 * FENCE / 2 + 1


@pytest.mark.parametrize("state", [None, SERVING])
def test_the_clock_does_not_begin_without_the_source(world, state):
    world.source.state = state
    with world.lease() as lease:
        with pytest.raises(BackendError):
            lease.arm()
        assert not lease.armed


def test_a_source_that_is_slow_to_answer_once_is_asked_again(world):
    world.source.state = None
    with world.lease(5) as lease:
        threading.Timer(0.5, lambda: setattr(world.source, "state", PARKED)).start()
        lease.arm()
    assert world.source.asked > 1 and not world.stopped


def test_arming_again_does_not_turn_the_clock_back(world, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(run_lease, "clock", lambda: now[0])
    lease = world.lease(100)
    lease.arm()
    for seconds in (30, 29):
        now[0] += seconds
        lease.arm()
    assert world.source.asked == 1
    # no renewal: these threads do not run, as in a worker that was stopped and continues
    now[0] += 2
    with pytest.raises(BackendError, match="61 s"):
        lease.arm()
    assert len(world.stopped) == 1


def test_new_worker_continues_the_lease_of_the_previous_one(world, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(run_lease, "clock", lambda: now[0])
    world.guard.begin("test:///default", "uuid", "master", 100, 80.0)
    lease = world.lease(100)
    lease.take_over()
    assert lease.in_time()
    now[0] = 141.0
    assert not lease.in_time() and len(world.stopped) == 1


def test_take_over_without_a_record_is_not_in_time(world):
    world.guard.end()
    lease = world.lease()
    lease.take_over()
    assert not lease.in_time()


def test_a_clone_that_cannot_be_stopped_here_is_left_to_the_guard(world):
    def no(*unused):
        raise BackendError("libvirtd is gone")

    lease = Lease(world.source, SECONDS, no, dict, world.guard)
    lease.take_over()
    lease._heard = 0.0
    assert not lease.in_time() and world.guard.read() is not None
