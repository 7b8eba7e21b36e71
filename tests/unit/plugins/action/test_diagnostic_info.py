# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host returns is kept for the archive; one that does not answer is a result."""

from __future__ import annotations

import pathlib
import signal
import stat
import time
import types
import typing as t

import pytest
from ansible import constants
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.reduced.footprint.plugins.action import diagnostic_info


class Action(diagnostic_info.ActionModule):
    """The plugin, with a host that answers with a result, or raises an error."""

    def __init__(self, answer: t.Any, **options: t.Any) -> None:
        self.answer = answer
        self._task = t.cast(t.Any, types.SimpleNamespace(args={"gather_timeout": 1, **options}, async_val=0, check_mode=False))
        self._connection = t.cast(t.Any, types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir=None)))

    def _execute_module(self, *unused: t.Any, **options: t.Any) -> t.Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer() if callable(self.answer) else self.answer


def run(answer: t.Any, **options: t.Any) -> dict[str, t.Any]:
    result = Action(answer, **options).run(task_vars={"inventory_hostname": "a/../b"})
    assert signal.alarm(0) == 0
    return result


def test_the_texts_are_kept_for_the_run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    result = run({"diagnostic": {"content": "eA==", "texts": 1, "errors": []}})
    found = result["diagnostic"]
    file = pathlib.Path(found.pop("file"))
    assert found == {"reachable": True, "reason": "", "texts": 1, "errors": []} and result["changed"] is False
    assert file.parent == tmp_path / "diagnostic" and file.read_text() == "eA==" and stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("answer", "reachable", "reason"),
    [
        (AnsibleConnectionFailure("ssh: connect to host m1 port 22: Connection timed out"), False, "does not answer"),
        ({"failed": True, "msg": "hours: 0 is not greater than 0."}, True, "hours: 0 is not greater than 0."),
        (lambda: time.sleep(600), False, "accepts ssh, but does not answer within 1 s"),
    ],
)
def test_a_host_without_an_answer(answer: t.Any, reachable: bool, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostic_info, "_CONNECTION", 0)
    assert run(answer) == {"changed": False, "diagnostic": {"reachable": reachable, "reason": reason}}


@pytest.mark.parametrize("seconds", [0, "-1", "soon"])
def test_a_time_that_is_none_is_an_error(seconds: t.Any) -> None:
    result = run(lambda: pytest.fail("a host was asked"), gather_timeout=seconds)
    assert result["failed"] and result["msg"].startswith(f"gather_timeout: {seconds!r} is not a number of seconds above 0. Use 60")
