# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide which hosts are asked for the status, and report it, for the playbook ``status``."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controlplane, plan_status_summary, run_status_files
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.plugin_utils.footprint_status import Status
from ansible_collections.reduced.footprint.plugins.plugin_utils.plan_action import PlanAction


class ActionModule(PlanAction):
    """Read the inventory, let :mod:`plan_status` judge, print, and fail unless everything is healthy."""

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        result = super().run(tmp, task_vars)
        report = result.get("status")
        if not report:
            return result
        found = {"changed": False, "lines": result["lines"], "state": report["state"], "msg": plan_status_summary.verdict(report)}
        if report["ok"]:
            return {**found, "ask": result["ask"], "status": report}
        return {**found, "unreachable" if report["state"] == plan_controlplane.UNKNOWN else "failed": True}

    def plan(self, given: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> Plan:
        """Return the hosts that are asked, and the report on their answers."""
        status = Status(given["services"], variables)
        if given["answers"] is None:
            return Plan((), values={"ask": status.ask})
        report, lines = status.report(given["answers"], float(given["clock_limit"]))
        try:
            lines += run_status_files.write(given, report)
        except FootprintError as error:
            # the operator needs the status nevertheless
            return Plan(lines, problems=(error,), values={"ask": status.ask})
        if report["ok"]:
            lines.append(plan_status_summary.verdict(report))
        return Plan(lines, values={"ask": status.ask, "status": report})
