# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hooks: commands of the user before and after the phases of a migration."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known, choice, number
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PHASES

WHEN = ("before", "after")
ON = ("source", "destination")


class Hook(t.NamedTuple):
    """One command, run each time its phase runs. ``timeout`` in seconds."""

    phase: str
    when: str
    on: str
    command: tuple[str, ...]
    timeout: int


def parse_hooks(value: t.Sequence[t.Any]) -> tuple[Hook, ...]:
    """Parse the hooks of a request, in order."""
    hooks = []
    for index, entry in enumerate(value):
        path = f"hooks[{index}]"
        if not isinstance(entry, t.Mapping):
            raise InputError("is not a mapping.", path, "Write e.g. {phase: quiesce, when: before, on: source, command: [/usr/local/bin/drain]}.")
        check_known(entry, ("phase", "when", "on", "command", "command_timeout"), path, "")
        command = entry.get("command")
        if isinstance(command, str) or not isinstance(command, t.Sequence) or not command:
            raise InputError("must be a list.", f"{path}.command", "Write the program and its arguments as a list; it is run without a shell.")
        for position, argument in enumerate(command):
            if not isinstance(argument, str) or "\0" in argument or (position == 0 and not argument):
                raise InputError(f"{argument!r} is not a valid argument.", f"{path}.command[{position}]", "Write a string; put numbers in quotes.")
        hook = Hook(
            phase=choice(entry.get("phase"), PHASES, f"{path}.phase"),
            when=choice(entry.get("when") or "before", WHEN, f"{path}.when"),
            on=choice(entry.get("on") or "destination", ON, f"{path}.on"),
            command=tuple(command),
            timeout=number(entry.get("command_timeout"), 600, 1, 86400, f"{path}.command_timeout"),
        )
        if (hook.phase, hook.when, hook.on) == (PHASES[-1], "after", "source"):
            raise InputError(
                f"after is not supported on the source for {PHASES[-1]}: the key is withdrawn by then.",
                f"{path}.when",
                f"Run it before {PHASES[-1]}, or on the destination.",
            )
        hooks.append(hook)
    return tuple(hooks)
