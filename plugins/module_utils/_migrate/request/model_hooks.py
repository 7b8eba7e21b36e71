# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The user's own commands around the phases of a migration."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import choice, number
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PHASES

WHEN = ("before", "after")
ON = ("source", "destination")


@dataclasses.dataclass(frozen=True)
class Hook:
    """One command, run each time its phase is gone through. ``timeout`` in seconds."""

    phase: str
    when: str
    on: str
    command: tuple[str, ...]
    timeout: int


def parse_hooks(value: t.Sequence[t.Any]) -> tuple[Hook, ...]:
    """The hooks of a request, in their order.

    :raises InputError: with the path of the bad value.
    """
    hooks = []
    for index, entry in enumerate(value):
        path = f"hooks[{index}]"
        if not isinstance(entry, t.Mapping):
            raise InputError("is not a mapping.", path, "Write e.g. {phase: quiesce, when: before, on: source, command: [/usr/local/bin/drain]}.")
        unknown = set(entry) - {"phase", "when", "on", "command", "timeout"}
        if unknown:
            raise InputError(f"has the unknown key {sorted(unknown)[0]!r}.", path, "Use phase, when, on, command and timeout.")
        command = entry.get("command")
        if isinstance(command, str) or not isinstance(command, t.Sequence) or not command:
            raise InputError("is no list of words.", f"{path}.command", "Write the program and its arguments as a list; no shell reads it.")
        for number_, word in enumerate(command):
            if not isinstance(word, str) or "\0" in word or (number_ == 0 and not word):
                raise InputError(f"{word!r} is no word of a command.", f"{path}.command[{number_}]", "Write a text; quote what looks like a number.")
        hook = Hook(
            phase=choice(entry.get("phase"), PHASES, f"{path}.phase"),
            when=choice(entry.get("when") or "before", WHEN, f"{path}.when"),
            on=choice(entry.get("on") or "destination", ON, f"{path}.on"),
            command=tuple(command),
            timeout=number(entry.get("timeout"), 600, 1, 86400, f"{path}.timeout"),
        )
        if (hook.phase, hook.when, hook.on) == (PHASES[-1], "after", "source"):
            raise InputError("asks a source that accepts the key no more.", f"{path}.when", f"Run it before {PHASES[-1]}, or on the destination.")
        hooks.append(hook)
    return tuple(hooks)
