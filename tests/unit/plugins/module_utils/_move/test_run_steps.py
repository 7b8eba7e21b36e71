# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rollback of a move while libvirt fails; the hosts only leave a trace here, tests/move has real ones."""

from __future__ import annotations

import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move import run_context, run_steps, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import MOVED
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from tests.support.move_world import Killed, make_world

ROLL_BACK, RELEASE = run_steps.roll_back, Context.release


class Host:
    """A libvirt whose first starts fail, and its domain, which is off."""

    def __init__(self, failures):
        self.failures, self.starts, self.active = list(failures), 0, False

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass

    def domain(self, unused):
        return types.SimpleNamespace(active=self.active, state="running" if self.active else "shutdown", config_xml="<domain/>")

    def set_autostart(self, *unused):
        pass

    def start(self, unused):
        # the hook reads the record
        assert io_owner.away("u") is None
        self.starts += 1
        if self.failures:
            raise self.failures.pop(0)
        self.active = True


@pytest.fixture(name="run")
def fixture_run(tmp_path, monkeypatch):
    """Run a worker whose copy fails after the VM was stopped; returns the host, the world and what was waited for."""
    world = make_world(tmp_path, monkeypatch)
    monkeypatch.setattr(run_steps, "roll_back", ROLL_BACK)
    monkeypatch.setattr(Context, "release", RELEASE)
    reasons = []

    def run(*failures):
        host = Host(failures)
        monkeypatch.setattr(run_context, "DomainHost", lambda uri: host)
        world.fail["copy"] = BackendError("no space.")
        context = world.context()
        monkeypatch.setattr(run_worker.time, "sleep", lambda seconds: reasons.append(context.store.journal().reason))
        try:
            run_worker._complete(context, MOVED)
        finally:
            context.store.write(context.journal)
        return host, context.journal, reasons

    run.world = world
    return run


def test_a_vm_that_its_rollback_cannot_start_is_started_until_that_succeeds(run):
    lost = BackendError("the connection to libvirtd was lost.")
    host, journal, reasons = run(lost, lost)
    assert host.active and host.starts == 3
    # it does not begin to move again meanwhile, and reports what it waits for
    assert run.world.done.count("copy") == 1 and run.world.done.count("clear there") == 1
    assert len(reasons) == 2 and all("the connection to libvirtd was lost" in each for each in reasons)
    assert (journal.state, journal.reason, journal.facts["held"]) == ("failed", "copy: no space.", None)


def test_a_rollback_that_was_killed_is_completed_by_the_next_worker(run):
    with pytest.raises(Killed):
        run(Killed())
    assert io_owner.away("u") is None
    run.world.done.clear()
    host, journal, unused = run()
    # without another attempt, for which the data at the destination would be missing
    assert host.active and run.world.done == ["clear there"] and journal.reason == "copy: no space."
