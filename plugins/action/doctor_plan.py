# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Report what an operator would check by hand, for the playbook ``doctor``."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import (
    plan_doctor,
    plan_doctor_finding,
    plan_status,
    plan_status_answers,
    run_doctor_journals,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.plugin_utils.plan_action import PlanAction


class ActionModule(PlanAction):
    """Read the inventory, let :mod:`plan_doctor` judge, print, and fail if something must be repaired or is unknown."""

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        result = super().run(tmp, task_vars)
        states = {one["state"] for one in result.get("findings") or ()}
        bad = "failed" if plan_doctor_finding.REPAIR in states else "unreachable" if plan_doctor_finding.UNKNOWN in states else None
        return {"changed": False, "lines": result["lines"], "msg": result["msg"], bad: True} if bad else result

    def plan(self, given: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> Plan:
        """Return the repairs, or the report."""
        hostvars, groups = variables["hostvars"], variables["groups"]
        members, ask = plan_status_answers.asked_in(variables, [])
        excluded = [host for host in ask if host not in given["answers"]]
        ask = {host: one for host, one in ask.items() if host not in excluded}
        vm_hosts = {host: str(hostvars[host].get("vm_host") or "") for host in ask}
        found = plan_status_answers.read_answers(ask, given["answers"], members, vm_hosts, float(given["clock_limit"]))
        declared = plan_doctor.Declared(
            {name: str(hostvars[name]["vm_host"]) for name in groups.get("footprint_vms") or () if hostvars[name].get("vm_host")},
            {host: list(hostvars[host].get("node_roles") or ()) for host in groups.get("virt") or ()},
            given["cluster"],
            run_doctor_journals.unfinished(str(variables.get("inventory_dir") or "")),
            excluded,
        )
        findings = plan_doctor.examine(given["answers"], plan_status.build_status(found), found["clocks"], declared)
        if given["fix"]:
            return Plan((), values={"fixes": plan_doctor_finding.steps(findings)})
        last = plan_doctor.verdict(findings)
        healthy = not any(one.state in (plan_doctor_finding.REPAIR, plan_doctor_finding.UNKNOWN) for one in findings)
        return Plan([*plan_doctor.lines(findings), *([last] if healthy else [])], values={"findings": [one._asdict() for one in findings], "msg": last})
