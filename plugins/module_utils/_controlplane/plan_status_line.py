# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A line of the status report."""

from __future__ import annotations

import dataclasses

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_controlplane import DEGRADED, DOWN, OK, UNKNOWN, WIP

_WORDS = {OK: "ok  ", WIP: "wip ", DEGRADED: "DEGRADED", UNKNOWN: "UNKNOWN", DOWN: "DOWN"}


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of the report: topic, state and text.

    A ``note`` is information, not a problem; ``silent`` is a host that does not answer.
    """

    topic: str
    ok: bool
    text: str
    note: bool = False
    state: str = ""
    silent: bool = False

    @property
    def grade(self) -> str:
        """Return the state, one of those of a service."""
        return self.state or (OK if self.ok else DOWN)

    def __str__(self) -> str:
        return f"{'NOTE' if self.note else _WORDS[self.grade]} {self.topic}: {self.text}"
