# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wait before the pause, with a clock of its own; tests/migrate has a real one."""

from __future__ import annotations

import errno
import signal
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_cutover_time
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal

DAY, START = 86400.0, 1_800_000_000.0


class World:
    """A migration before its pause, and a clock that only waits move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: float | None, **spec: int) -> None:
        self.time, self.said, self.fail = START, [], None
        journal = Journal("master", state="running", phase="rehearse")
        spec = types.SimpleNamespace(**{"cutover_at": at, "cutover_window": 3600, "max_pause": 0, **spec})
        self.logged: list[str] = []
        self.context = types.SimpleNamespace(
            spec=spec, journal=journal, log=self.logged.append, keep=lambda: None, mirror=lambda: self.said.append(("mirror", self.time)),
            store=types.SimpleNamespace(reserve=lambda: self.said.append(("reserve", self.time))),
        )  # fmt: skip
        monkeypatch.setattr(run_cutover_time.run_verify, "catch_up", self.update)

    def update(self, context: types.SimpleNamespace) -> None:
        self.said.append(("update", self.time))
        context.journal.passes += [{}, {}]
        if self.fail:
            raise self.fail

    def sleep(self, seconds: float) -> None:
        assert self.context.journal.progress["cutover_at"]
        self.time += seconds

    def wait(self) -> None:
        run_cutover_time.wait(self.context, lambda: self.said.append(("rehearse", self.time)), lambda: self.time, self.sleep)

    def times(self, what: str) -> list[float]:
        return [when - START for said, when in self.said if said == what]


def test_a_copy_is_updated_and_rehearsed_for_days(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, START + 2.5 * DAY)
    world.wait()
    assert world.time == START + 2.5 * DAY
    updates = world.times("update")
    assert updates[0] == 900 and {later - earlier for earlier, later in zip(updates, updates[1:])} == {900.0} and len(updates) == 2.5 * 96 - 1
    assert world.times("rehearse") == [DAY, 2 * DAY]
    # the source knows that this host still works on it
    assert world.times("mirror") == updates and len(world.context.journal.passes) <= 22


@pytest.mark.parametrize("at", [None, START, START - 5])
def test_without_a_time_or_after_it_nothing_waits(monkeypatch: pytest.MonkeyPatch, at: float | None) -> None:
    world = World(monkeypatch, at)
    world.wait()
    assert world.time == START and not world.said and not world.context.journal.progress


@pytest.mark.parametrize("error", [BackendError("no route"), OSError(errno.ENOSPC, "no route")])
def test_a_source_that_is_off_for_a_while_or_a_full_disk_ends_nothing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    world = World(monkeypatch, START + 3600)
    world.fail = error
    world.wait()
    assert len(world.times("update")) == 3 and any("no route" in line for line in world.logged)
    assert "no route" in world.context.journal.progress["problem"]
    # the journal has its reserve again, once there is space
    assert world.times("reserve") == world.times("update")
    # a copy with a lost write is not updated, but created again by the next run
    world = World(monkeypatch, START + 3600)
    world.fail, world.context.journal.facts["spoilt"] = BackendError("lost"), True
    with pytest.raises(BackendError):
        world.wait()


def test_the_wait_does_not_count_for_preparation_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, START + 3600)
    before = signal.signal(signal.SIGALRM, lambda *unused: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1000)
        sleep, left = world.sleep, []
        world.sleep = lambda seconds: (left.append(signal.getitimer(signal.ITIMER_REAL)[0]), sleep(seconds))
        world.wait()
        assert set(left) == {0.0} and 900 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1000
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def insist(world: World, errors: list[Exception]) -> list[float]:
    """Work that fails with these errors, then succeeds; returns when it was tried."""
    tried: list[float] = []

    def work() -> None:
        tried.append(world.time - START)
        if errors:
            raise errors.pop(0)

    run_cutover_time.insist(world.context, work, lambda: world.time, world.sleep)
    return tried


def test_a_source_that_is_silent_at_the_time_of_the_pause_may_answer_within_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, START, cutover_window=200)
    assert insist(world, [BackendError("no route"), OSError(errno.ENOSPC, "full")]) == [0, 60, 120]
    assert "full" in world.context.journal.progress["problem"] and len(world.logged) == 2
    # not after it
    errors: list[Exception] = [BackendError(str(number)) for number in range(9)]
    with pytest.raises(BackendError, match="2"):
        insist(World(monkeypatch, START, cutover_window=150), errors)
    assert len(errors) == 6


@pytest.mark.parametrize(
    ("at", "spoilt", "error"),
    [(None, False, BackendError("no")), (START, True, BackendError("no")), (START, False, RefusedError("expired", "preparation_timeout"))],
)
def test_what_only_another_run_can_fix_is_not_tried_again(monkeypatch: pytest.MonkeyPatch, at: float | None, spoilt: bool, error: Exception) -> None:
    world = World(monkeypatch, at)
    world.context.journal.facts["spoilt"] = spoilt
    with pytest.raises(type(error)):
        insist(world, [error])
    assert world.time == START


@pytest.mark.parametrize(
    ("state", "at", "resumes"),
    [("running", START + 3600, True), ("failed", START + 3600, False), ("running", START + 7200, False), ("running", None, False)],
)
def test_only_a_worker_that_was_killed_in_its_wait_resumes_it(monkeypatch: pytest.MonkeyPatch, state: str, at: float | None, resumes: bool) -> None:
    world = World(monkeypatch, START + 3600)
    assert not run_cutover_time.resumes(world.context)
    world.wait()
    world.context.journal.state, world.context.spec.cutover_at = state, at
    assert run_cutover_time.resumes(world.context) == resumes


@pytest.mark.parametrize(
    ("late", "max_pause", "predicted", "path"),
    [
        (3600, 0, None, None),
        (3601, 0, 1.0, "cutover_window"),
        (0, 60, 60.0, None),
        (0, 60, 60.1, "max_pause"),
        # not predicted is not short
        (0, 60, None, "max_pause"),
    ],
)
def test_a_pause_that_is_late_or_long_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, late: float, max_pause: int, predicted: float | None, path: str | None
) -> None:
    world = World(monkeypatch, START, max_pause=max_pause)
    world.context.journal.downtime["predicted"] = predicted
    if path is None:
        run_cutover_time.check(world.context, lambda: START + late)
        return
    with pytest.raises(RefusedError) as caught:
        run_cutover_time.check(world.context, lambda: START + late)
    assert caught.value.path == path
