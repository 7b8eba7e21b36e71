# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the clock of a host through its connection, and add what its module reports."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.plugin_utils.clock_offset import measure

_MODULE = "reduced.footprint.clock_info"


class ActionModule(ActionBase):
    """Run the module, and measure the clock."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        super().run(tmp, task_vars)
        result: dict[str, t.Any] = self._execute_module(module_name=_MODULE, module_args=dict(self._task.args), task_vars=task_vars)
        if result.get("failed") or "clock" not in result:
            return result
        samples = int(result["invocation"]["module_args"]["samples"]) if "invocation" in result else int(self._task.args.get("samples") or 5)
        found = measure(self, samples)
        if not found:
            hint = "The command date of the host must support +%s.%N, as that of GNU coreutils does."
            return {"failed": True, **FootprintError("The host did not report its time.", hint=hint).as_result()}
        result["clock"].update(found)
        return result
