# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module, and somebody on the control node who watches what it started and says how far it is."""

from __future__ import annotations

import time
import typing as t

from ansible import constants
from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_text import MigrationFailed, progress_line, still_running, summary

_MODULE = "reduced.footprint.master_migrate"
_INFO = "reduced.footprint.master_migrate_info"
_GOOD: t.Mapping[str, t.Container[str]] = {"migrated": ("done", "stopped"), "rolled_back": ("rolled_back",), "retired": ("retired",)}
# seconds for one look, which ends earlier when there is something to tell
_LOOK = 10
_RETRY = 5.0

display = Display()


class ActionModule(ActionBase):
    """Starts the migration, tells its progress, returns what the module would have returned."""

    TRANSFERS_FILES = False
    _supports_async = True
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        super().run(tmp, task_vars)
        given = dict(self._task.args)
        state = given.get("state") or "migrated"
        # somebody who does not wait, or waits in the background, has nobody to tell it to
        alone = self._task.async_val or self._task.check_mode or state not in _GOOD or not boolean(given.get("wait", True), strict=False)
        if alone:
            return self._execute_module(module_name=_MODULE, module_args=given, task_vars=task_vars, wrap_async=bool(self._task.async_val))
        started = self._execute_module(module_name=_MODULE, module_args={**given, "wait": False}, task_vars=task_vars)
        if started.get("failed") or not started.get("changed"):
            for line in started.get("summary", []):
                _tell(line, "")
            return started
        seen = self._watch(started["migration"]["name"], float(given.get("wait_timeout") or 7200), task_vars)
        if "migration" not in seen:
            return {**seen, "changed": True}
        return {**started, **_ended(seen["migration"], _GOOD[state])}

    def _watch(self, name: str, timeout: float, task_vars: t.Any) -> dict[str, t.Any]:
        """Look until the worker has ended; ``migration`` is how it stands then."""
        until = time.monotonic() + timeout
        last = ""
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return {"failed": True, **still_running(name).as_result()}
            look: dict[str, t.Any] = {"name": name, "wait": max(1, min(_LOOK, round(left))), "log_lines": 5}
            try:
                answer = self._execute_module(module_name=_INFO, module_args=look, task_vars=task_vars)
            except AnsibleConnectionFailure as error:
                # the host works on without us
                last = _tell(f"{name}: the host cannot be asked, its work goes on ({error})", last)
                time.sleep(_RETRY)
                continue
            if answer.get("failed") or not answer.get("migrations"):
                return answer if answer.get("failed") else {"failed": True, "msg": f"The migration {name} is gone from its host."}
            migration = answer["migrations"][0]
            if not migration["active"]:
                for line in summary(migration):
                    last = _tell(line, "")
                return {"migration": migration}
            if migration["state"] == "running":
                # else its worker has not begun to tell, or has told all
                last = _tell(progress_line(migration), last)


def _ended(migration: dict[str, t.Any], good: t.Container[str]) -> dict[str, t.Any]:
    """The part of the result that was not known at the start."""
    log = migration.pop("log", [])
    migration.pop("active", None)
    if migration["state"] in good:
        return {"migration": migration, "summary": summary(migration)}
    return {"failed": True, **MigrationFailed(migration, log).as_result()}


def _tell(text: str, last: str) -> str:
    """One line to whoever looks, in a terminal as in a job's output; nothing twice in a row."""
    if text != last:
        # a result that a program reads must stay one document
        display.display(f"    {text}", stderr="json" in str(constants.DEFAULT_STDOUT_CALLBACK))
    return text
