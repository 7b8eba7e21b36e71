# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ``--diff`` output of one VM."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_work
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import hidden


def diff_of(work: run_work.Work) -> list[dict[str, str]]:
    """State, autostart, volumes, each change and the rendered document, before and after; empty when there is nothing to change."""
    if not work.result.actions or work.plan is None:
        return []
    actual, owned = work.actual, work.actual.owned if work.actual else None
    before = [f"state: {actual.state if actual else 'absent'}"]
    after = [f"state: {work.plan.state}"]
    if actual:
        before.append(f"autostart: {_yes(actual.autostart)}")
    if work.steps:
        before += work.steps.before
    renders = work.document is not None
    if renders:
        on = {plan_domain.AUTOSTART_ON: True, plan_domain.AUTOSTART_OFF: False}
        autostart = next((on[action] for action in work.plan.actions if action in on), actual.autostart if actual else False)
        after.append(f"autostart: {_yes(autostart)}")
        if owned and work.has(plan_domain.UPDATE_METADATA) and work.wanted and owned.protected != work.wanted.protected:
            before.append(f"protected: {_yes(owned.protected)}")
            after.append(f"protected: {_yes(work.wanted.protected)}")
        if work.has(plan_domain.POWER_CYCLE):
            before.append("restart: due")
            after.append("restart: done")
    if work.steps:
        after += work.steps.after
    for change in work.changes:
        if change.due:
            values = change.as_result()
            before.append(f"{change.path}: {_shown(values['before'])}")
            after.append(f"{change.path}: {_shown(values['after'])} ({change.cls})")
    before_text = "\n".join(before) + "\n" + (owned.applied if owned else "")
    after_text = "\n".join(after) + "\n" + (work.applied if work.has(*plan_domain.DEFINING) else owned.applied if owned and renders else "")
    header = f"VM {work.result.name}"
    return [{"before_header": header, "after_header": header, "before": hidden(before_text), "after": hidden(after_text)}]


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _shown(value: str | None) -> str:
    return "none" if value is None else value
