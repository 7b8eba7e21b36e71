# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a use case did."""

from __future__ import annotations

import typing as t


class Changes(t.NamedTuple):
    """Actions that were taken, or in check mode would be, and the state before and after, without secrets."""

    actions: t.Sequence[str]
    before: t.Mapping[t.Any, t.Any] | None = None
    after: t.Mapping[t.Any, t.Any] | None = None
    warnings: t.Sequence[str] = ()

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return bool(self.actions)

    def as_result(self, key: str = "") -> dict[str, t.Any]:
        """Return the result of a module."""
        diff: dict[str, t.Any] = {"before": "", "after": "".join(f"{action}\n" for action in self.actions)}
        if self.before is not None and self.after is not None:
            diff = {"before": dict(self.before, actions=[]), "after": dict(self.after, actions=list(self.actions))}
        found = {"changed": self.changed, "actions": list(self.actions), "warnings": list(self.warnings), "diff": diff}
        return {**found, key: dict(self.after or {})} if key else found
