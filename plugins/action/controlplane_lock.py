# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let a module record the run of a playbook, which only the control node knows, and find out whether the run that it found has ended."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import run_run_lock

_MODULE = "reduced.footprint.controlplane_lock"


class ActionModule(ActionBase):
    """Ask the host, and once more if the run that it has recorded was killed."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        super().run(tmp, task_vars)
        mine = run_run_lock.this_run()
        given = {**self._task.args, "run": mine}
        result: dict[str, t.Any] = self._execute_module(module_name=_MODULE, module_args=given, task_vars=task_vars)
        found = result.get("holder")
        if found and not run_run_lock.same(found, mine) and run_run_lock.run_ended(found):
            result = self._execute_module(module_name=_MODULE, module_args={**given, "ended": found}, task_vars=task_vars)
            found = result.get("holder")
        if found and not run_run_lock.same(found, mine):
            host = str(self._task.delegate_to or (task_vars or {}).get("inventory_hostname", "the host"))
            return {"failed": True, **run_run_lock.refusal(found, host).as_result()}
        return result
