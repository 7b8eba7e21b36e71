# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What moves and migrations do alike around their phases; systemd and the other host are not real here."""

from __future__ import annotations

import pathlib
import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote import run_jobs
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal


@pytest.fixture(name="systemd")
def fixture_systemd(monkeypatch: pytest.MonkeyPatch) -> t.Any:
    """A systemd whose units run for so many looks."""
    systemd = types.SimpleNamespace(looks=0, started=[], error=None)

    def active(unit: str) -> bool:
        systemd.looks -= 1
        return systemd.looks >= 0

    def start(*words: t.Any, **more: t.Any) -> None:
        systemd.started.append((words, more))
        if systemd.error:
            raise systemd.error

    monkeypatch.setattr(run_jobs.io_units, "unit_active", active)
    monkeypatch.setattr(run_jobs.io_units, "start_unit", start)
    monkeypatch.setattr(run_jobs.io_units, "keep_code", lambda: pathlib.Path("/code.zip"))
    monkeypatch.setattr(run_jobs, "_POLL", 0.0)
    monkeypatch.setattr(run_jobs, "_PAUSE", 0.0)
    return systemd


@pytest.mark.parametrize("kind", [JournalStore, MoveStore])
def test_a_job_is_stored_before_its_worker_starts(systemd: t.Any, tmp_path: pathlib.Path, kind: type[JournalStore]) -> None:
    store = kind("c1", tmp_path)
    run_jobs.start(store, "moved", {"id": "c1"}, "the.module", "the.service", description="Move")
    assert store.read_job() == {"action": "moved", "params": {"id": "c1"}}
    (words, more), = systemd.started
    assert words[2:4] == ("the.module", ["c1"]) and more == {"unit": "the.service", "at_boot": True, "description": "Move"}


def test_a_unit_that_another_caller_started_does_the_work(systemd: t.Any, tmp_path: pathlib.Path) -> None:
    systemd.error, systemd.looks = CommandError(["systemd-run"], 1, "exists"), 1
    run_jobs.start(JournalStore("m", tmp_path), "migrate", {}, "the.module", "the.service")
    with pytest.raises(CommandError):
        run_jobs.start(JournalStore("m", tmp_path), "migrate", {}, "the.module", "the.service")


@pytest.mark.parametrize(("kind", "words"), [(JournalStore, "The migration x is already in progress"), (MoveStore, "The move x is already in progress")])
def test_a_job_is_not_replaced_below_its_worker(systemd: t.Any, tmp_path: pathlib.Path, kind: type[JournalStore], words: str) -> None:
    store = kind("x", tmp_path)
    with store.locked(), pytest.raises(RefusedError, match=words):
        run_jobs.start(store, "migrate", {}, "the.module", "the.service")
    assert store.read_job() is None and not systemd.started


@pytest.mark.parametrize(
    ("params", "looks", "expected"),
    [({}, 3, True), ({"wait": True, "wait_timeout": 9}, 3, True), ({"wait": False}, 9, True), ({"wait_timeout": -1}, 9, False)],
)
def test_the_end_is_waited_for_on_request(systemd: t.Any, params: dict[str, t.Any], looks: int, expected: bool) -> None:
    systemd.looks = looks
    assert run_jobs.ended("the.service", params) is expected


def test_a_key_is_made_once_and_not_in_check_mode(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(directory: pathlib.Path, name: str) -> str:
        (directory / "id_ed25519").write_text("private")
        (directory / "id_ed25519.pub").write_text(f"ssh-ed25519 {name}")
        return f"ssh-ed25519 {name}"

    monkeypatch.setattr(run_jobs.io_remote_source, "ensure_key", make)
    marker = run_jobs.io_remote_source.key_marker("m")
    assert run_jobs.prepare_key(tmp_path, "m", check_mode=True) == {"changed": True, "public_key": None, "key_marker": marker}
    made = {"changed": True, "public_key": "ssh-ed25519 m", "key_marker": marker}
    assert run_jobs.prepare_key(tmp_path, "m", check_mode=False) == made
    assert run_jobs.prepare_key(tmp_path, "m", check_mode=True) == {**made, "changed": False}


@pytest.mark.parametrize(("fails", "attempts", "asked", "failed"), [(0, 3, 1, False), (2, 3, 3, False), (9, 3, 3, True), (9, 0, 0, False)])
def test_a_key_ends_here_whatever_the_other_host_does(systemd: t.Any, tmp_path: pathlib.Path, fails: int, attempts: int, asked: int, failed: bool) -> None:
    seen = []

    class Other:
        def ask(self, command: str, given: t.Mapping[str, t.Any]) -> None:
            seen.append((command, given))
            if len(seen) <= fails:
                raise BackendError(f"no answer {len(seen)}.")

    (tmp_path / "id_ed25519").touch()
    error = run_jobs.withdraw_key(Other(), tmp_path, "leave", {"marker": "m"}, attempts=attempts)
    assert seen == [("leave", {"marker": "m"})] * asked and not list(tmp_path.iterdir())
    assert (error.message if error else None) == ("no answer 3." if failed else None)


@pytest.mark.parametrize(("error", "traced"), [(FootprintError("no room."), False), (KeyError("odd"), True)])
def test_a_failure_is_in_journal_and_log(tmp_path: pathlib.Path, error: Exception, traced: bool) -> None:
    store, journal = JournalStore("m", tmp_path), Journal("m", phase="final")
    try:
        raise error
    except Exception as caught:
        run_jobs.record_failure(store, journal, caught)
    log = "\n".join(store.tail())
    assert (journal.state, journal.reason) == ("failed", f"final: {error}") and journal.ended
    assert f"final: failed: {error}" in log and ("Traceback" in log) == traced == (__file__ in log)


@pytest.mark.parametrize(("state", "looked"), [("failed", 3), ("moved", 3), ("running", 0), ("new", 0)])
def test_a_worker_that_has_recorded_its_result_is_awaited(systemd: t.Any, tmp_path: pathlib.Path, state: str, looked: int) -> None:
    """It deletes the key at its end, and a key that is prepared before would be deleted too."""
    store = MoveStore("c1", tmp_path)
    journal = store.journal()
    journal.state = state
    store.write(journal)
    (store.directory / "id_ed25519").touch()
    systemd.looks = 2
    run_jobs.await_ending(store, "the.service")
    assert systemd.looks == 2 - looked


def test_a_worker_without_a_key_is_not_awaited(systemd: t.Any, tmp_path: pathlib.Path) -> None:
    store = MoveStore("c1", tmp_path)
    journal = store.journal()
    journal.state = "failed"
    store.write(journal)
    systemd.looks = 2
    run_jobs.await_ending(store, "the.service")
    assert systemd.looks == 2
