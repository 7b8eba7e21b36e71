# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hooks: the user's commands before and after phases, on source or destination."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_hooks import Hook


def run_hooks(context: Context, phase: str, when: str) -> None:
    """Run the hooks before or after a phase, in their order.

    :raises BackendError: a hook failed; its phase fails with it.
    """
    for index, hook in enumerate(context.spec.hooks):
        if (hook.phase, hook.when) == (phase, when):
            context.log(f"hook {index} {when} {phase} on the {hook.on}: {hook.command[0]}")
            context.progress(phase=phase, hook=index)
            _run_hook(context, index, hook)
            context.journal.progress.pop("hook", None)


def _run_hook(context: Context, index: int, hook: Hook) -> None:
    try:
        if hook.on == "destination":
            run(hook.command, timeout=hook.timeout)
        else:
            # finds the address that answers, so that the hook is sent to that one only: it may not be repeated
            context.source.ask("state", timeout=20)
            context.source.ask("run", {"command": list(hook.command), "timeout": hook.timeout}, timeout=hook.timeout + 30, once=True)
    except FootprintError as error:
        raise BackendError(
            f"The hook {hook.when} {hook.phase} on the {hook.on} failed: {error.message}", f"hooks[{index}]", "Correct its command, or remove the hook."
        ) from error
