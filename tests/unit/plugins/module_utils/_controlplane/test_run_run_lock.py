# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run at a time restarts members: a second one is refused, a killed one is continued, also after the control node lost power."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.action.controlplane_lock import ActionModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_playbook_run, run_run_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError

Run = dict[str, str]
#: A run is known by the process that starts the tasks, not by the child that executes one.
OTHER = """
import json, multiprocessing, time
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_playbook_run
task = multiprocessing.get_context("fork").Process(target=lambda: print(json.dumps(io_playbook_run.this_run()), flush=True))
task.start()
task.join()
time.sleep(600)
"""


class Host:
    """A managed host that this test is a run on; the module runs in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path) -> None:
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(io_lock, "lock_folder", lambda: folder / "locks")
        monkeypatch.setattr(ActionModule.__mro__[1], "run", lambda self, tmp=None, task_vars=None: {})
        self.record = folder / "locks" / run_run_lock.FILE

    def ask(self, run: Run | None = None, delegated: str | None = None, **options: t.Any) -> dict[str, t.Any]:
        """Run the task as another run, or as this one, on the host of the play or for it on another host."""

        class Task:
            args: t.ClassVar[dict[str, t.Any]] = {"playbook": "rolling_restart", **options}
            delegate_to = delegated

        def execute(module_args: dict[str, t.Any], **unused: t.Any) -> dict[str, t.Any]:
            given = {**module_args["run"], "playbook": module_args["playbook"]}
            if module_args.get("state") == "absent":
                run_run_lock.release(given, check_mode=False)
                return {"changed": False}
            takeover, ended = module_args.get("takeover", False), module_args.get("ended")
            return {"changed": False, "holder": run_run_lock.take(given, ended, takeover=takeover, check_mode=options.get("check", False))}

        action = ActionModule.__new__(ActionModule)
        action._task = Task()
        self.monkeypatch.setattr(action, "_execute_module", execute)
        with pytest.MonkeyPatch.context() as patch:
            if run:
                patch.setattr(run_run_lock, "this_run", lambda: dict(run))
            return t.cast("dict[str, t.Any]", action.run(task_vars={"inventory_hostname": "c1"}))


@pytest.fixture(name="host")
def _host(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Host:
    return Host(monkeypatch, tmp_path)


@contextlib.contextmanager
def other_run() -> t.Iterator[tuple[Run, t.Callable[[], object]]]:
    """Another run on this control node, and how to kill it."""
    with subprocess.Popen([sys.executable, "-c", OTHER], stdout=subprocess.PIPE, text=True) as process:
        try:
            run = json.loads(process.stdout.readline())  # type: ignore[union-attr]
            # its process is listed until it is waited for
            yield run, lambda: (process.kill(), os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT))
        finally:
            process.kill()


def test_all_tasks_of_a_run_are_the_same_run(host: Host) -> None:
    found: t.Any = multiprocessing.get_context("fork").SimpleQueue()
    task = multiprocessing.get_context("fork").Process(target=lambda: found.put(io_playbook_run.this_run()))
    task.start()
    assert found.get() == io_playbook_run.this_run()
    task.join()
    first = host.ask()["holder"]
    assert "failed" not in host.ask(playbook="deploy_controllers") and first["since"] == host.ask()["holder"]["since"]
    host.ask(state="absent")
    assert not host.record.exists()


def test_a_second_run_is_refused_while_the_first_is_alive_and_continues_it_once_it_was_killed(host: Host) -> None:
    with other_run() as (run, kill):
        since = host.ask(run)["holder"]["since"]
        found = host.ask(playbook="deploy_controllers")
        assert found["failed"] and found["msg"].startswith(f"rolling_restart of {run['user']} on {run['node']} (process {run['process']}) has been restarting")
        assert f"since {since}, according to c1." in found["msg"] and found["msg"].endswith("continue with -e footprint_takeover=true.")
        assert "according to c2." in host.ask(delegated="c2")["msg"]
        assert host.ask(check=True)["failed"]
        host.ask(state="absent")
        assert json.loads(host.record.read_text("utf-8"))["process"] == run["process"], "the record of another run is kept"
        kill()
        # not waited for yet: its process is still listed
        assert "failed" not in host.ask()
    assert io_playbook_run.run_ended(run)
    assert host.ask(run)["failed"], "the killed run does not come back"


def test_check_mode_records_nothing(host: Host) -> None:
    assert "failed" not in host.ask(check=True) and not host.record.exists()


ELSEWHERE: t.Mapping[str, tuple[Run, bool]] = {
    "a process that has the number of the killed one": ({"start": "1"}, True),
    "the control node was restarted": ({"boot": "earlier"}, True),
    "another control node": ({"node": "other", "machine": "other", "boot": "other"}, False),
    "another control node with the same name": ({"machine": "other", "boot": "other"}, False),
    "another container": ({"namespace": "pid:[1]", "process": "1"}, False),
    "not a process": ({"process": "-1"}, False),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_only_a_run_that_is_known_to_have_ended_is_continued(case: str, host: Host) -> None:
    changes, ended = ELSEWHERE[case]
    run = {**io_playbook_run.this_run(), "machine": "m", **changes}
    host.monkeypatch.setattr(io_playbook_run, "_line", lambda path, read=io_playbook_run._line: "m" if "machine" in path else read(path))
    host.ask(run)
    assert host.ask().get("failed", False) is not ended
    assert "failed" not in host.ask(takeover=True)
    # a run that was taken over although it was alive finds out before its next member
    assert host.ask(run)["failed"]


def test_containers_without_a_machine_id_are_not_taken_for_a_restarted_one(host: Host) -> None:
    host.monkeypatch.setattr(io_playbook_run, "_line", lambda path: "" if "machine" in path else "boot")
    host.ask({**io_playbook_run.this_run(), "boot": "other"})
    assert host.ask()["failed"]


@pytest.mark.parametrize("text, allowed", [("", True), ("{", True), ("[]", True), ('{"schema": 99}', False)])
def test_a_record_that_cannot_be_read(text: str, allowed: bool, host: Host) -> None:
    host.ask()
    host.record.write_text(text, "utf-8")
    with contextlib.nullcontext() if allowed else pytest.raises(RefusedError, match="has the schema 99"):
        assert "failed" not in host.ask()
