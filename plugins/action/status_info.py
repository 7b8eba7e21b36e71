# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask a host once for its part of the status. A host that does not answer is a result, which neither fails the run nor is asked again."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.plugin_utils import host_answer
from ansible_collections.reduced.footprint.plugins.plugin_utils.clock_offset import measure

#: Seconds for the connection and the start of the module, in addition to the answers.
_CONNECTION = 12
_SAMPLES = 2


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
        try:
            return host_answer.within(int(asked) + _CONNECTION, lambda: self._gather(task_vars))
        except host_answer.NoAnswer as error:
            return {"changed": False, "host": {"reachable": error.reachable, "reason": error.reason, "parts": {}}}

    def _gather(self, task_vars: t.Any) -> dict[str, t.Any]:
        found = host_answer.result(self, "status_info", dict(self._task.args), "host", task_vars)
        clock = found["host"]["parts"]["clock"]
        offset = measure(self, _SAMPLES)
        if "value" in clock and offset:
            clock["value"].update(offset)
        elif "value" in clock:
            found["host"]["parts"]["clock"] = {"error": "the host did not report its time"}
        return {"changed": False, "host": found["host"]}
