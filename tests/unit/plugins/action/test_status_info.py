# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that does not answer is a result of the status, and is asked once."""

from __future__ import annotations

import signal
import time
import types
import typing as t

import pytest
from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure, AnsibleError

from ansible_collections.reduced.footprint.plugins.action import status_info

SENT = 'Data could not be sent to remote host "m". Make sure this host can be reached over ssh:'


class Action(status_info.ActionModule):
    """The plugin, with a host that answers with a result, or raises an error."""

    def __init__(self, answer: t.Any, clock: str = "1700000000.123456") -> None:
        self.answer, self.clock, self.asked = answer, clock, 0
        self._task = t.cast(t.Any, types.SimpleNamespace(args={"query_timeout": 1}, async_val=0, check_mode=False))
        self._connection = t.cast(t.Any, types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir=None)))

    def _execute_module(self, *unused: t.Any, **options: t.Any) -> t.Any:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer() if callable(self.answer) else self.answer

    def _low_level_execute_command(self, *unused: t.Any, **options: t.Any) -> t.Any:
        return {"rc": 0, "stdout": f"{self.clock}\n"}


def run(answer: t.Any, clock: str = "1700000000.123456") -> dict[str, t.Any]:
    action = Action(answer, clock)
    result = action.run(task_vars={})
    assert action.asked == 1 and not result.get("failed") and not result.get("unreachable") and signal.alarm(0) == 0
    return result["host"]


@pytest.mark.parametrize(
    ("error", "reachable", "reason"),
    [
        (AnsibleConnectionFailure("Failed to connect to the host via ssh: ssh: connect to host m1 port 22: Connection timed out"), False, ""),
        (AnsibleConnectionFailure("Failed to connect: ssh: connect to host m1 port 22: No route to host"), False, ""),
        (AnsibleConnectionFailure("Connection timed out during banner exchange"), False, ""),
        (AnsibleConnectionFailure("Warning: added\nssh: connect to host m1: Connection refused\n"), False, "ssh: connect to host m1: Connection refused"),
        (AnsibleConnectionFailure(f"{SENT} ssh: Could not resolve hostname m"), False, "ssh: Could not resolve hostname m"),
        (AnsibleAuthenticationFailure("Permission denied"), False, "Failed to authenticate: Permission denied"),
        (AnsibleError("no Python"), True, "no Python"),
    ],
)
def test_errors_of_the_connection(error: Exception, reachable: bool, reason: str) -> None:
    assert run(error) == {"reachable": reachable, "reason": reason, "parts": {}}


@pytest.mark.parametrize("seconds", [0, -5, "0", "-5", "soon", ""])
def test_a_time_that_is_none_is_an_error(seconds: t.Any) -> None:
    action = Action(lambda: pytest.fail("a host was asked"))
    action._task.args["query_timeout"] = seconds
    result = action.run(task_vars={})
    assert result["failed"] and result["msg"].startswith(f"query_timeout: {seconds!r} is not a number of seconds above 0.")
    assert "status_timeout" in result["msg"] and signal.alarm(0) == 0


def test_errors_of_the_module() -> None:
    assert run({"failed": True, "msg": "probes.shop: 'x' is not a probe."}) == {"reachable": True, "reason": "probes.shop: 'x' is not a probe.", "parts": {}}
    assert run({"failed": True, "msg": "MODULE FAILURE", "module_stderr": "Traceback\nImportError: x"})["reason"] == "ImportError: x"


def test_a_host_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_info, "_CONNECTION", 0)
    before = signal.getsignal(signal.SIGALRM)
    assert run(lambda: time.sleep(600)) == {"reachable": False, "reason": "accepts ssh, but does not answer within 1 s", "parts": {}}
    assert signal.getsignal(signal.SIGALRM) is before


def test_the_clock_is_measured() -> None:
    def answer(clock: t.Any) -> dict[str, t.Any]:
        return {"host": {"reachable": True, "reason": "", "parts": {"clock": clock, "vms": {"value": []}}}}

    host = run(answer({"value": {"synchronized": True}}))
    assert host["parts"]["clock"]["value"]["offset_seconds"] < -1e6 and host["parts"]["vms"] == {"value": []}
    assert run(answer({"value": {}}), "Sun Nov 29")["parts"]["clock"] == {"error": "the host did not report its time"}
    assert run(answer({"error": "late"}))["parts"]["clock"] == {"error": "late"}
