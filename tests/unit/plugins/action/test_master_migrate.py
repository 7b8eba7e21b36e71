# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin that shows the progress of a migration. Both modules are replaced by lists of answers; the lab tests the real ones."""

from __future__ import annotations

import types

import pytest

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.reduced.footprint.plugins.action import master_migrate as action
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal, report


def migration(state, phase="precopy", active=True, **more):
    journal = Journal("master", state=state, phase=phase)
    for key, value in more.items():
        setattr(journal, key, value)
    if phase == "cutover":
        journal.phases["quiesce"] = {"state": "done"}
    return {**report(journal), "host": "metal1", "active": active, "log": ["last words"]}


@pytest.fixture(name="play")
def fixture_play(monkeypatch, capsys):
    """Run the task with arguments; ``looks`` are the answers of the info module, one after the other."""
    monkeypatch.setattr(action, "_RETRY", 0.0)

    def play(arguments, looks=(), started=None, async_val=0, check_mode=False):
        asked = []
        task = types.SimpleNamespace(args=arguments, async_val=async_val, check_mode=check_mode)
        plugin = action.ActionModule(task, None, None, None, None, None)
        answers = iter(looks)

        def execute(module_name, module_args, task_vars, wrap_async=False):
            asked.append((module_name.rpartition(".")[2], dict(module_args), wrap_async))
            if module_name.endswith("_info"):
                answer = next(answers)
                if isinstance(answer, Exception):
                    raise answer
                return {"changed": False, "migrations": [answer]} if "state" in answer else answer
            return started or {"changed": True, "migration": migration("running")}

        monkeypatch.setattr(plugin, "_execute_module", execute)
        monkeypatch.setattr(action.ActionBase, "run", lambda *unused: {})
        result = plugin.run(None, {})
        return result, asked, [line.strip() for line in capsys.readouterr().out.splitlines()]

    return play


def test_progress_is_shown_and_the_result_once(play):
    live = {"phase": "precopy", "number": 1, "percent": 40, "bytes": 3 * 2**30, "rate": "98.5MB/s", "seconds_left": 75}
    looks = [
        # what an earlier run left, before the worker writes its own
        migration("rolled_back", phase="cutover"),
        migration("running", progress=live),
        migration("running", progress=live),
        migration("running", phase="cutover", progress={"phase": "cutover", "waiting_for": "tcp 3306: refused"}, downtime={"predicted": 31.0}),
        migration("done", phase="commit", active=False, verified=True, downtime={"seconds": 28.0, "predicted": 31.0, "parts": {"quiesce": 1.5}}),
    ]
    result, asked, lines = play({"name": "master"}, looks)
    assert lines[0] == "master: precopy, pass 1, 40 %, 3 GiB, 98.5MB/s, 1 min 15 s left"
    assert lines[1] == "master: cutover, waiting: tcp 3306: refused, predicted downtime 31 s"
    assert lines[2] == "master serves from a VM of metal1"
    assert lines[3] == "downtime: 28 s, predicted 31 s (quiesce 1.5 s)"
    assert len(lines) == 5
    assert asked[0] == ("master_migrate", {"name": "master", "wait": False}, False)
    assert result["changed"] and not result.get("failed") and result["summary"] == lines[2:]
    assert result["migration"]["state"] == "done" and not {"log", "active"} & set(result["migration"])


@pytest.mark.parametrize(
    ("arguments", "more"),
    [({"wait": False}, {}), ({"wait": "no"}, {}), ({"state": "prepared"}, {}), ({}, {"check_mode": True}), ({}, {"async_val": 60})],
)
def test_module_runs_alone_without_waiting(play, arguments, more):
    result, asked, lines = play(arguments, **more)
    assert asked == [("master_migrate", arguments, bool(more.get("async_val")))] and not lines
    assert result["changed"]


def test_unchanged_migration_shows_its_summary(play):
    result, asked, lines = play({}, started={"changed": False, "migration": migration("done"), "summary": ["as before"]})
    assert (len(asked), lines, result["changed"]) == (1, ["as before"], False)


def test_failed_start_returns_the_module_result(play):
    result, asked, lines = play({}, started={"failed": True, "msg": "no"})
    assert result == {"failed": True, "msg": "no"} and len(asked) == 1 and not lines


@pytest.mark.parametrize(
    ("last", "word"),
    [
        (
            migration("rolled_back", phase="cutover", active=False, reason="cutover: not healthy"),
            "rolled back: the source serves as before): cutover: not healthy",
        ),
        (migration("failed", active=False, reason="precopy: disk full"), "the source serves as before): precopy: disk full"),
        (migration("interrupted", active=False), "its worker died; last words"),
    ],
)
def test_failed_migration_names_the_serving_machine(play, last, word):
    result, _asked, lines = play({}, [last])
    assert result["failed"] and word in result["msg"] and result["error"]["hint"]
    assert result["migration"]["state"] == last["state"] and lines


def test_a_host_that_cannot_be_asked_is_asked_again(play):
    result, _asked, lines = play({}, [AnsibleConnectionFailure("gone"), AnsibleConnectionFailure("gone"), migration("done", active=False)])
    assert result["migration"]["state"] == "done"
    assert lines[0].startswith("master: the host cannot be reached, the migration continues")
    assert len([each for each in lines if "cannot be reached" in each]) == 1


def test_wait_timeout_ends_the_wait(play, monkeypatch):
    times = iter((0.0, 1.0, 99.0))
    monkeypatch.setattr(action.time, "monotonic", lambda: next(times))
    result, _asked, _lines = play({"wait_timeout": 60}, [migration("running")])
    assert result["failed"] and "still running" in result["msg"] and result["changed"]


def test_json_callback_gets_no_lines_on_stdout(play, monkeypatch):
    monkeypatch.setattr(action.constants, "DEFAULT_STDOUT_CALLBACK", "ansible.posix.json")
    _result, _asked, lines = play({}, [migration("done", active=False)])
    assert not lines


@pytest.mark.parametrize("active", [True, False])
def test_a_copy_that_waits_for_its_time_ends_the_wait(play, active):
    progress = {"phase": "rehearse", "step": "waiting", "cutover_at": "2026-12-24T01:00:00Z"}
    seen = migration("running" if active else "interrupted", phase="rehearse", active=active, progress=progress, downtime={"predicted": 31.0})
    result, _asked, lines = play({}, [seen])
    assert bool(result.get("failed")) != active
    words = "master: the copy is kept up to date; the source serves until 2026-12-24T01:00:00Z, predicted downtime 31 s"
    assert (words in lines) == active and "active" not in result["migration"]
