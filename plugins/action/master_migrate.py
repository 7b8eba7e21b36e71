# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the module without waiting, then poll the migration from the controller and show its progress."""

from __future__ import annotations

import time
import typing as t

from ansible import constants
from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_text import MigrationFailed, progress_line, still_running, summary
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import waits_until

_MODULE = "reduced.footprint.master_migrate"
_INFO = "reduced.footprint.master_migrate_info"
_GOOD: t.Mapping[str, t.Container[str]] = {"migrated": ("done", "stopped"), "rolled_back": ("rolled_back",), "retired": ("retired",)}
# seconds for one poll, which returns earlier on a change
_POLL = 10
_RETRY = 5.0

display = Display()


class ActionModule(ActionBase):
    """Start the migration, show its progress, and return what the module would have returned."""

    TRANSFERS_FILES = False
    _supports_async = True
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        super().run(tmp, task_vars)
        given = dict(self._task.args)
        state = given.get("state") or "migrated"
        # no progress is shown without waiting, in check mode and with async
        module_only = self._task.async_val or self._task.check_mode or state not in _GOOD or not boolean(given.get("wait", True), strict=False)
        if module_only:
            return self._execute_module(module_name=_MODULE, module_args=given, task_vars=task_vars, wrap_async=bool(self._task.async_val))
        started = self._execute_module(module_name=_MODULE, module_args={**given, "wait": False}, task_vars=task_vars)
        if started.get("failed") or not started.get("changed"):
            for line in started.get("summary", []):
                _show(line, "")
            return started
        ended = self._watch(started["migration"]["name"], float(given.get("wait_timeout", 7200)), task_vars)
        if "migration" not in ended:
            return {**ended, "changed": True}
        return {**started, **_result(ended["migration"], _GOOD[state])}

    def _watch(self, name: str, timeout: float, task_vars: t.Any) -> dict[str, t.Any]:
        """Poll until the worker has ended; returns its ``migration``, or a failed result."""
        until = time.monotonic() + timeout
        last = ""
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return {"failed": True, **still_running(name).as_result()}
            arguments: dict[str, t.Any] = {"name": name, "wait": True, "wait_timeout": max(1, min(_POLL, round(left))), "log_lines": 5}
            try:
                answer = self._execute_module(module_name=_INFO, module_args=arguments, task_vars=task_vars)
            except AnsibleConnectionFailure as error:
                # the worker continues without the connection
                last = _show(f"{name}: the host cannot be reached, the migration continues ({error})", last)
                time.sleep(_RETRY)
                continue
            if answer.get("failed"):
                return answer
            if not answer.get("migrations"):
                return {"failed": True, **FootprintError(f"The migration {name} does not exist on its host any more.").as_result()}
            migration = answer["migrations"][0]
            if not migration["active"] or waits_until(migration):
                for line in summary(migration):
                    last = _show(line, "")
                return {"migration": migration}
            if migration["state"] == "running":
                # otherwise its worker has not reported yet, or has ended
                last = _show(progress_line(migration), last)


def _result(migration: dict[str, t.Any], good: t.Container[str]) -> dict[str, t.Any]:
    """Return the part of the result that is known at the end only."""
    log = migration.pop("log", [])
    active = migration.pop("active", False)
    if migration["state"] in good or (active and waits_until(migration)):
        return {"migration": migration, "summary": summary(migration)}
    return {"failed": True, **MigrationFailed(migration, log).as_result()}


def _show(text: str, last: str) -> str:
    """Display a line unless it repeats the last one; returns the line."""
    if text != last:
        # to stderr with a JSON callback, whose stdout must remain one document
        display.display(f"    {text}", stderr="json" in str(constants.DEFAULT_STDOUT_CALLBACK))
    return text
