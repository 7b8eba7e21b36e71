# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The clock of a host: what the kernel reports, and the measurement through a connection."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.action.clock_info import ActionModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_clock, run_clock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError


def test_the_kernel_reports_its_clock() -> None:
    found = io_clock.read_clock()
    assert abs(found["time"] - time.time()) < 5
    assert found["synchronized"] in (True, False, None)
    assert (found["error_seconds"] is not None) is bool(found["synchronized"])
    assert set(run_clock.clock(5)) == {"offset_seconds", "uncertainty_seconds", "synchronized", "error_seconds"}


@pytest.mark.parametrize("samples", [0, -1, 101])
def test_invalid_number_of_samples(samples: int) -> None:
    with pytest.raises(InputError, match="expected a number from 1 to 100"):
        run_clock.clock(samples)


class Host:
    """A host whose clock is ahead, behind a connection that needs some time."""

    def __init__(self, ahead: float, delays: t.Sequence[float], answer: str = "") -> None:
        self.ahead, self.delays, self.answer = ahead, list(delays), answer

    def ask(self, command: str, sudoable: bool = True) -> dict[str, t.Any]:
        assert command == "date +%s.%N" and not sudoable
        delay = self.delays.pop(0)
        time.sleep(delay / 2)
        now = time.time() + self.ahead
        time.sleep(delay / 2)
        return {"rc": 0, "stdout": self.answer or f"Welcome\n{now:.9f}\n"}


def measured(host: Host, monkeypatch: pytest.MonkeyPatch) -> dict[str, t.Any]:
    class Task:
        args: t.ClassVar[dict[str, t.Any]] = {"samples": len(host.delays)}
        async_val = 0
        check_mode = True
        environment = None

    action = ActionModule.__new__(ActionModule)
    action._task = Task()
    monkeypatch.setattr(ActionModule.__mro__[1], "run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(action, "_execute_module", lambda **given: {"clock": dict.fromkeys(("offset_seconds", "uncertainty_seconds"))})
    monkeypatch.setattr(action, "_low_level_execute_command", host.ask)
    return action.run()


@pytest.mark.parametrize("ahead", [0.0, 31.5, -7200.0])
def test_the_fastest_answer_counts(ahead: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = measured(Host(ahead, [0.3, 0.02, 0.3]), monkeypatch)["clock"]
    assert abs(clock["offset_seconds"] - ahead) <= clock["uncertainty_seconds"] + 0.001
    assert 0.01 <= clock["uncertainty_seconds"] < 0.15


def test_a_host_that_does_not_report_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(Host(0.0, [0.0, 0.0], "1700000000.%N"), monkeypatch)
    assert found["failed"] and found["msg"].startswith("The host did not report its time.") and "%N" in found["error"]["hint"]
