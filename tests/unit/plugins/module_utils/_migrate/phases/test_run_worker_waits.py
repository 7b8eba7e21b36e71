# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A worker that waits for the time of the pause: what it does after a kill, and before the pause. Its phases only leave a trace, as in the other test."""

from __future__ import annotations

import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_worker
from tests.unit.plugins.module_utils._migrate.phases import test_run_worker

Killed, fixture_world = test_run_worker.Killed, test_run_worker.fixture_world


def test_a_source_that_starts_later_than_this_host_does_not_end_the_wait(world, monkeypatch):
    """After a power failure of both, days before the time of the pause."""
    monkeypatch.setattr(run_worker.run_cutover_time, "_RETRY", 0.01)
    world.more = {"cutover_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86400))}

    def wait(context, rehearse):
        context.journal.facts["waits"] = context.spec.cutover_at
        context.save()
        raise Killed

    monkeypatch.setattr(run_worker.run_cutover_time, "wait", wait)
    # an operator who starts it gets the error at once
    world.fail = {"preflight": BackendError("no route")}
    with pytest.raises(BackendError):
        world.run()
    world.fail = {}
    with pytest.raises(Killed):
        world.run()
    answers = iter([BackendError("no route"), BackendError("no route"), None])
    work = run_worker._BEFORE["preflight"]

    def late(context):
        work(context)
        error = next(answers)
        if error:
            raise error

    monkeypatch.setitem(run_worker._BEFORE, "preflight", late)
    with pytest.raises(Killed):
        world.run()
    assert world.done.count("preflight") == 3


@pytest.mark.parametrize("days", [0, 5])
def test_what_the_source_has_got_during_the_wait_is_found_before_the_pause(world, monkeypatch, days):
    """Such as a file system that no earlier pass has copied, and no comparison would miss."""

    def wait(context, rehearse):
        context.journal.phases["preflight"]["started"] -= days * 86400

    monkeypatch.setattr(run_worker.run_cutover_time, "wait", wait)
    said = []
    monkeypatch.setattr(run_worker.run_verify, "catch_up", lambda context: said.extend(world.done))
    assert world.run().state == "done"
    assert (world.done.count("preflight"), said[-1]) == ((2, "preflight") if days else (1, "rehearse"))
