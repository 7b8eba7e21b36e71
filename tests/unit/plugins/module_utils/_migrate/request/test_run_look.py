# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Looking at migrations, on the host that carries them out and on the source. Only the unit's state is made up: no unit runs here."""

from __future__ import annotations

import functools
import threading
import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request import run_look
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_state
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal


@pytest.fixture(name="store")
def fixture_store(tmp_path, monkeypatch):
    monkeypatch.setattr(run_look, "JournalStore", functools.partial(JournalStore, home=tmp_path))
    monkeypatch.setattr(run_look.io_units, "unit_active", lambda unit: True)
    monkeypatch.setattr(run_look, "_POLL", 0.01)
    monkeypatch.setattr(io_state, "HOME", tmp_path / "source")
    store = JournalStore("master", tmp_path)
    store.write(Journal("master", state="running", phase="precopy"))
    return store


def test_a_migration_without_worker_is_interrupted(store, monkeypatch):
    assert run_look.look("master", 0)[0]["state"] == "running"
    monkeypatch.setattr(run_look.io_units, "unit_active", lambda unit: False)
    assert run_look.look("master", 0)[0]["state"] == "interrupted"


@pytest.mark.parametrize("change", [{"phase": "rehearse"}, {"state": "done"}, {"passes": [{"number": 1}]}])
def test_a_change_ends_the_wait(store, change):
    journal = store.read()
    for key, value in change.items():
        setattr(journal, key, value)
    writer = threading.Timer(0.1, store.write, [journal])
    writer.start()
    began = time.monotonic()
    run_look.look("master", 0, wait_timeout=300)
    writer.join()
    assert time.monotonic() - began < 200


def test_progress_alone_does_not_end_the_wait(store):
    journal = store.read()
    journal.progress = {"bytes": 7}
    store.write(journal)
    found = run_look.look("master", 0, wait_timeout=0.05)[0]
    assert found["progress"] == {"bytes": 7}


def test_a_source_returns_the_reports_it_received(store):
    assert run_look.reports() == []
    journal = {**Journal("master", state="running", phase="quiesce").__dict__}
    for name in ("master", "other"):
        io_state.keep_report(name, {"journal": {**journal, "name": name}, "host": "metal1", "host_id": "1", "reported_at": 5.0})
    migration, other = run_look.reports()
    assert (migration["name"], other["name"]) == ("master", "other")
    assert (migration["host"], migration["reported_at"], migration["phase"], migration["state"]) == ("metal1", "1970-01-01T00:00:05Z", "quiesce", "running")
