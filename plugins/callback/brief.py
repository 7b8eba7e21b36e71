# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Callback plugin: only what an operator reads."""

from __future__ import annotations

DOCUMENTATION = r"""
name: brief
type: stdout
short_description: Show only reports, changes and errors
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Shows the texts that tasks print, each changed host, and each error as one sentence, without names of plays, tasks that change nothing, and a recap of
    a run without changes. With C(-v) it shows what P(ansible.builtin.default#callback) does.
  - The name of a task that takes longer than O(patience) is shown, so that a run which waits says what it waits for.
options:
  patience:
    description: Seconds after which the name of a task is shown while it runs; V(0) shows none.
    type: float
    default: 20
    ini: [{section: callback_brief, key: patience}]
    env: [{name: REDUCED_FOOTPRINT_BRIEF_PATIENCE}]
extends_documentation_fragment:
  - default_callback
  - result_format_callback
"""

EXAMPLES = r"""
ansible.cfg: |
  [defaults]
  stdout_callback = reduced.footprint.brief
"""

import threading
import typing as t

from ansible import constants
from ansible.plugins.callback.default import CallbackModule as Default


class CallbackModule(Default):
    """The default callback without what says that nothing happened."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "reduced.footprint.brief"

    def set_options(self, *args: t.Any, **kwargs: t.Any) -> None:
        """Show no task without a change."""
        super().set_options(*args, **kwargs)
        self.brief = not self._display.verbosity
        self._timer: threading.Timer | None = None
        if self.brief:
            self.set_option("display_ok_hosts", False)
            self.set_option("display_skipped_hosts", False)

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        """Show no name of a play."""
        self._play = play
        if not self.brief:
            super().v2_playbook_on_play_start(play)

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        """Show the name of the task later, if it still runs then."""
        super().v2_playbook_on_task_start(task, is_conditional)
        self._await(task)

    def v2_playbook_on_handler_task_start(self, task: t.Any) -> None:
        """Show the name of the handler later, if it still runs then."""
        super().v2_playbook_on_handler_task_start(task)
        self._await(task)

    def v2_runner_on_ok(self, result: t.Any) -> None:
        """Show the text of a task that prints one."""
        super().v2_runner_on_ok(result)
        if self.brief and result.result.get("_ansible_verbose_always") and "msg" in result.result:
            text = result.result["msg"]
            for line in text if isinstance(text, list) else [text]:
                self._display.display(f"    {line}")

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        """Show the message of an error."""
        if not self.brief:
            super().v2_runner_on_failed(result, ignore_errors)
        elif not ignore_errors:
            self._error(result, result.result)

    def v2_runner_item_on_failed(self, result: t.Any) -> None:
        """Show nothing yet: the task fails with the messages of its items."""
        if not self.brief:
            super().v2_runner_item_on_failed(result)

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        """Show the message of an error."""
        if not self.brief:
            super().v2_runner_on_unreachable(result)
        elif not result.task.ignore_unreachable:
            self._error(result, result.result)

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        """Show the recap of a run that changed something."""
        self._await(None)
        if not self.brief or stats.changed:
            super().v2_playbook_on_stats(stats)

    def _await(self, task: t.Any) -> None:
        if self._timer:
            self._timer.cancel()
        patience = float(self.get_option("patience"))
        if self.brief and task and patience:
            # Ansible forks with the lock of its display, which the timer takes as well
            self._timer = threading.Timer(patience, self._display.display, [f"    … {task.get_name().strip()}"])
            # a run that is stopped does not wait for it
            self._timer.daemon = True
            self._timer.start()

    def _error(self, result: t.Any, found: t.Mapping[str, t.Any]) -> None:
        items = [one for one in found.get("results") or () if one.get("failed") or one.get("unreachable")]
        for one in items or [found]:
            where = "" if result.task.run_once else f"{result.host.get_name()}: "
            text = str(one.get("msg") or self._dump_results(one))
            self._display.display(f"{where}{text}", color=constants.COLOR_ERROR, stderr=self.get_option("display_failed_stderr"))
