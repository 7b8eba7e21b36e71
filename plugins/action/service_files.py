# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mask the secrets of the inventory in what the module shows: settings may repeat them under other names."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import secret_texts
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import redact

_SHOWN = ("diff", "error", "invocation", "msg")
_NO_SETTINGS = ("ansible_facts", "groups", "hostvars", "vars")


class ActionModule(ActionBase):
    """Run the module; its result alone is masked, so that no host gets secrets that it does not need."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        super().run(tmp, task_vars)
        result: dict[str, t.Any] = self._execute_module(task_vars=task_vars)
        known = secret_texts({name: value for name, value in (task_vars or {}).items() if name not in _NO_SETTINGS})
        known = {text for text in known if "{{" not in text}
        return {name: redact(value, known) if name in _SHOWN else value for name, value in result.items()}
