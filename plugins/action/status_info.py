# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask a host once for its part of the status. A host that does not answer is a result, which neither fails the run nor is asked again."""

from __future__ import annotations

import signal
import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.plugin_utils.clock_offset import measure

#: Seconds for the connection and the start of the module, in addition to the answers.
_CONNECTION = 12
_SAMPLES = 2
#: What ssh reports of a host that is off.
_OFF = ("timed out", "no route to host", "host is down", "network is unreachable")


class _Late(Exception):
    """The host accepts connections and does not answer."""


class ActionModule(ActionBase):
    """Run the module, and measure the clock."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        super().run(tmp, task_vars)
        asked = self._task.args.get("query_timeout", 8)
        if not str(asked).isdecimal() or int(asked) < 1:
            hint = "Use 8, for example; in the playbooks status and doctor the variables are status_timeout and doctor_timeout."
            return {"failed": True, **InputError(f"{asked!r} is not a number of seconds above 0.", "query_timeout", hint).as_result()}
        seconds = int(asked) + _CONNECTION

        def late(*_unused: t.Any) -> None:
            raise _Late

        before = signal.signal(signal.SIGALRM, late)
        signal.alarm(seconds)
        try:
            return self._gather(task_vars)
        except _Late:
            return _nothing(f"accepts ssh, but does not answer within {seconds} s")
        except AnsibleConnectionFailure as error:
            return _nothing(_reason(str(error)))
        except AnsibleError as error:
            return _nothing(_reason(str(error)), reachable=True)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)

    def _gather(self, task_vars: t.Any) -> dict[str, t.Any]:
        found: dict[str, t.Any] = self._execute_module(
            module_name="reduced.footprint.status_info", module_args=dict(self._task.args), task_vars=task_vars
        )
        if "host" not in found:
            return _nothing(_reason(str(found.get("module_stderr") or found.get("msg") or "the module did not answer")), reachable=True)
        clock = found["host"]["parts"]["clock"]
        offset = measure(self, _SAMPLES)
        if "value" in clock and offset:
            clock["value"].update(offset)
        elif "value" in clock:
            found["host"]["parts"]["clock"] = {"error": "the host did not report its time"}
        return {"changed": False, "host": found["host"]}


def _nothing(why: str, reachable: bool = False) -> dict[str, t.Any]:
    return {"changed": False, "host": {"reachable": reachable, "reason": why, "parts": {}}}


def _reason(message: str) -> str:
    """Return the last line of an error, empty for a host that is off."""
    line = ([text.strip() for text in message.splitlines() if text.strip()] or [""])[-1]
    # what follows is ssh's own message
    line = line.partition("can be reached over ssh: ")[2] or line
    return "" if any(text in line.lower() for text in _OFF) else line
