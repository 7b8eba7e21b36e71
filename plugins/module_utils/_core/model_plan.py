# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a playbook: what it does, in which order, and the reasons against it."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError


class Plan(t.NamedTuple):
    """A decision that an action plugin prints and returns.

    :arg steps: what the playbook does, in this order; each has the key ``action``.
    :arg problems: the reasons against it; with one of them nothing is changed.
    :arg locks: hosts of the control plane that no other run may restart meanwhile.
    :arg values: more for the playbook, by its name in the result.
    """

    lines: t.Sequence[str]
    steps: t.Sequence[t.Mapping[str, t.Any]] = ()
    problems: t.Sequence[FootprintError] = ()
    locks: t.Sequence[str] = ()
    report: t.Sequence[str] = ()
    values: t.Mapping[str, t.Any] = {}

    def as_result(self) -> dict[str, t.Any]:
        """Return the result of the action plugin; it failed if there are problems."""
        why = [str(problem) for problem in self.problems]
        found: dict[str, t.Any] = {name: list(getattr(self, name)) for name in ("lines", "steps", "locks", "report")}
        found |= self.values
        if not why:
            return {"changed": False, "why": why, **found}
        error = self.problems[0] if len(why) == 1 else FootprintError(" ".join(why))
        # a playbook that ignores the failure has no steps
        return {"failed": True, "why": why, **found, "steps": [], **error.as_result(), "msg": f"Nothing was changed: {' '.join(why)}"}
