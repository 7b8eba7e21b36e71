# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the clock of a host through its connection, and add what its module reports."""

from __future__ import annotations

import re
import time
import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError

_MODULE = "reduced.footprint.clock_info"
_TIME = re.compile(r"^([0-9]{9,11}[.][0-9]{6,9})\s*$", re.MULTILINE)


class ActionModule(ActionBase):
    """Ask the host for its time several times; the fastest answer is the most precise one."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        super().run(tmp, task_vars)
        result: dict[str, t.Any] = self._execute_module(module_name=_MODULE, module_args=dict(self._task.args), task_vars=task_vars)
        if result.get("failed") or "clock" not in result:
            return result
        samples = int(result["invocation"]["module_args"]["samples"]) if "invocation" in result else int(self._task.args.get("samples") or 5)
        found = [self._ask() for _number in range(samples)]
        answers = [one for one in found if one]
        if not answers:
            hint = "The command date of the host must support +%s.%N, as that of GNU coreutils does."
            return {"failed": True, **FootprintError("The host did not report its time.", hint=hint).as_result()}
        took, offset = min(answers)
        result["clock"].update(offset_seconds=round(offset, 6), uncertainty_seconds=round(took / 2, 6))
        return result

    def _ask(self) -> tuple[float, float] | None:
        """Return the duration of one request, and the offset at its middle."""
        began, start = time.time(), time.monotonic()
        answer = self._low_level_execute_command("date +%s.%N", sudoable=False)
        took = time.monotonic() - start
        match = _TIME.search(str(answer.get("stdout") or "")) if not answer.get("rc") else None
        return (took, float(match[1]) - (began + took / 2)) if match else None
