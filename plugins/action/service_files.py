# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mask the secrets of the inventory in what the module shows: settings may repeat them under other names."""

from __future__ import annotations

import re
import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import secret_texts
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import redact

_SHOWN = ("diff", "error", "exception", "invocation", "module_stderr", "module_stdout", "msg")
_NO_SETTINGS = ("ansible_facts", "groups", "hostvars", "vars")
# other expressions are not evaluated: lookups may be slow, or create what they look for
_REFERENCE = re.compile(r"\A\s*\{\{\s*([A-Za-z_]\w*(?:\.\w+)*)\s*(?:\|[^{}]*)?\}\}\s*\Z")


class ActionModule(ActionBase):
    """Run the module; its result alone is masked, so that no host gets secrets that it does not need."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        super().run(tmp, task_vars)
        result: dict[str, t.Any] = self._execute_module(task_vars=task_vars)
        # newer versions of Ansible show this object instead of the message; without it, they show the message
        event = getattr(result.get("exception"), "event", None)
        if event is not None:
            result["exception"] = event.formatted_traceback or ""
        known = _secrets({name: value for name, value in (task_vars or {}).items() if name not in _NO_SETTINGS})
        return {name: redact(value, known) if name in _SHOWN else value for name, value in result.items()}


def _secrets(variables: t.Mapping[str, t.Any]) -> set[str]:
    """Return the secrets in variables, also in those to which such a variable refers."""
    found, left = set[str](), secret_texts(variables)
    while left - found:
        text = (left - found).pop()
        found.add(text)
        reference = _REFERENCE.match(text)
        if reference:
            value: t.Any = variables
            for name in reference[1].split("."):
                value = value.get(name) if isinstance(value, t.Mapping) else None
            left |= secret_texts({"password": value})
    return {text for text in found if "{{" not in text}
