# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collect what one host contributes to a diagnostic snapshot. A host that does not answer is a result, which neither fails the run nor is asked again."""

from __future__ import annotations

import typing as t

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic.run_snapshot import keep
from ansible_collections.reduced.footprint.plugins.plugin_utils import host_answer

#: Seconds for the connection and for masking, in addition to the collection.
_CONNECTION = 60


class ActionModule(ActionBase):
    """Run the module, and keep what it returns in the temporary folder of this run."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        super().run(tmp, task_vars)
        asked = self._task.args.get("gather_timeout", 60)
        if not str(asked).isdecimal() or int(asked) < 1:
            hint = "Use 60, for example; in the playbook diagnostic_snapshot the variable is diagnostic_snapshot_timeout."
            return {"failed": True, **InputError(f"{asked!r} is not a number of seconds above 0.", "gather_timeout", hint).as_result()}
        arguments = dict(self._task.args)
        try:
            found = host_answer.within(
                int(asked) + _CONNECTION, lambda: host_answer.result(self, "diagnostic_info", arguments, "diagnostic", task_vars)["diagnostic"]
            )
        except host_answer.NoAnswer as error:
            return {"changed": False, "diagnostic": {"reachable": error.reachable, "reason": error.reason or "does not answer"}}
        file = keep(constants.DEFAULT_LOCAL_TMP, str((task_vars or {}).get("inventory_hostname")), str(found.pop("content")))
        return {"changed": False, "diagnostic": {"reachable": True, "reason": "", **found, "file": file}}
