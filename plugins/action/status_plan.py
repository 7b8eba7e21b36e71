# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide which hosts are asked for the status, and report it, for the playbook ``status``."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import (
    plan_controlplane,
    plan_status,
    plan_status_answers,
    plan_status_summary,
    run_status_files,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
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
        hostvars, within = variables["hostvars"], variables["ansible_play_hosts_all"]
        members, ask = plan_status_answers.asked_in(variables, given["services"])
        if given["answers"] is None:
            return Plan((), values={"ask": ask})
        vm_hosts = {host: str(hostvars[host].get("vm_host") or "") for host in ask}
        found = plan_status_answers.read_answers(ask, given["answers"], members, vm_hosts, float(given["clock_limit"]))
        report = plan_status.build_status(found)
        outside = [host for host in ask if host not in within]
        # they cannot be distinguished from those that do not answer
        limit = [f"NOTE --limit: {', '.join(outside)} excluded, and reported as if they did not answer"] if outside else []
        lines = [*plan_status_summary.summary(report), *limit]
        try:
            lines += run_status_files.write(given, report)
        except FootprintError as error:
            # the operator needs the status nevertheless
            return Plan(lines, problems=(error,), values={"ask": ask})
        if report["ok"]:
            lines.append(plan_status_summary.verdict(report))
        return Plan(lines, values={"ask": ask, "status": report})
