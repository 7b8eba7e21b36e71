# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one-time key at every ending of a worker."""

from __future__ import annotations

import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_commit
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_authorized_keys
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal

FILES = ("id_ed25519", "id_ed25519.pub", "id_ed25519.new", "known_hosts", "known_hosts_vm")


class Source:
    """A source that fails so many times."""

    def __init__(self, fails: int) -> None:
        self.fails, self.asked = fails, []

    def ask(self, command, given):
        self.asked.append((command, given["marker"]))
        if len(self.asked) <= self.fails:
            raise BackendError("no answer.")


@pytest.fixture(name="context")
def fixture_context(tmp_path, monkeypatch):
    monkeypatch.setattr(run_commit.run_jobs, "_PAUSE", 0.0)
    store = JournalStore("master", tmp_path)
    store.directory.mkdir(parents=True)
    for name in (*FILES, "journal.json"):
        (store.directory / name).touch()
    journal = Journal("master", state="failed", started=1.0)
    context = types.SimpleNamespace(store=store, journal=journal, source=Source(0), key_marker="m-master", save=lambda: None, keep=lambda: None)
    context.left = lambda: sorted(path.name for path in store.directory.iterdir())
    return context


@pytest.mark.parametrize("state", ["failed", "done", "stopped", "rolled_back", "retired", "running"])
def test_it_is_withdrawn_at_every_ending(context, state):
    context.journal.state = state
    run_commit.leave_at_end(context)
    assert context.source.asked == [("leave", "m-master")] and context.left() == ["journal.json"]
    # a worker that has already withdrawn it sends no request
    run_commit.leave_at_end(context)
    assert len(context.source.asked) == 1


def test_another_hosts_key_of_the_same_name_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(io_authorized_keys, "PATH", tmp_path / "authorized_keys")
    lines = ["ssh-rsa A me", "ssh-ed25519 OURS m-master", 'from="192.0.2.9" ssh-ed25519 THEIRS m-master', "ssh-ed25519 OURS m-master2"]
    io_authorized_keys.PATH.write_text("\n".join(lines) + "\n")
    assert io_authorized_keys.forget("m-master", "OURS") is True
    assert io_authorized_keys.PATH.read_text().splitlines() == [lines[0], *lines[2:]]
    assert io_authorized_keys.forget("m-master", "OURS") is False
    assert io_authorized_keys.forget("m-master") is True and io_authorized_keys.PATH.read_text().splitlines() == [lines[0], lines[3]]


def test_a_run_that_left_something_under_way_keeps_it_for_the_next(context):
    context.journal.phases = {"quiesce": {"state": "failed"}}
    run_commit.leave_at_end(context)
    assert context.source.asked == [] and "id_ed25519" in context.left()
    context.journal.state = "rolled_back"
    run_commit.leave_at_end(context)
    assert context.left() == ["journal.json"]


def test_a_source_that_is_away_for_a_moment_is_asked_again(context):
    context.source = Source(2)
    run_commit.leave_at_end(context)
    assert len(context.source.asked) == 3 and context.journal.warnings == [] and context.left() == ["journal.json"]


def test_unreachable_source_keeps_an_unusable_line(context):
    context.source = Source(99)
    run_commit.leave_at_end(context)
    assert context.left() == ["journal.json"]
    assert "ends in m-master" in context.journal.warnings[0] and "expires" in context.journal.warnings[0]
