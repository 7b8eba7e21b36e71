# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the moves of servers into VMs, and report them, for the playbook ``migrate_server``."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request import plan_servers
from ansible_collections.reduced.footprint.plugins.plugin_utils.plan_action import PlanAction

_PREFIX = "master_migrate_"


class ActionModule(PlanAction):
    """Read the inventory, and let :mod:`plan_servers` decide."""

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        result = super().run(tmp, task_vars)
        if not result.get("missing"):
            return result
        missing = ", ".join(result["missing"])
        text = f"Not moved: {missing}. What has moved stays. Run this again to continue."
        return {"failed": True, "lines": result["lines"], "msg": f"Problems of {missing}." if self._task.check_mode else text}

    def plan(self, given: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> Plan:
        """Return the plan, or the report."""
        hostvars, nodes = variables["hostvars"], list(given["defaults"])
        virt = variables["groups"].get("virt", ())
        servers = [_server(name, hostvars[name], given["defaults"], nodes)._replace(kind=_kind(name, hostvars[name], virt)) for name in given["servers"]]
        if given["failures"] is not None:
            failures = {name: text for each in given["failures"].values() for name, text in each.items()}
            checked = {name for each in given["ended"].values() for name in each} if self._task.check_mode else None
            lines, missing = plan_servers.report(servers, given["migrations"], failures, checked)
            return Plan(lines, values={"missing": missing})
        site = plan_servers.Site(given["nodes"], given["migrations"], set(variables["groups"]["all"]))
        # in check mode nothing is changed
        return plan_servers.plan(servers, site, given["confirm"] or (None if self._task.check_mode else ()))


def _kind(name: str, mine: t.Mapping[str, t.Any], virt: t.Container[str]) -> str:
    """Return what a host is that is a part of the footprint itself, else an empty text."""
    if name in virt:
        return "a virt host"
    return f"a VM of {mine['vm_host']}" if mine.get("vm_host") else ""


def _server(name: str, mine: t.Mapping[str, t.Any], defaults: t.Mapping[str, t.Mapping[str, t.Any]], nodes: t.Sequence[str]) -> plan_servers.Server:
    """Return a server with its own variables of the role, before those of its virt host."""
    node = str(mine.get(f"{_PREFIX}destination") or nodes[0])
    options = {key.removeprefix(_PREFIX): mine.get(key, value) for key, value in defaults.get(node, defaults[nodes[0]]).items()}
    options["name"] = mine.get(f"{_PREFIX}name") or name
    options["admin_address"] = mine.get(f"{_PREFIX}admin_address") or mine.get("ansible_host") or name
    after, own = mine.get("migrate_server_after") or (), [key for key in defaults[nodes[0]] if key in mine]
    after = [after] if isinstance(after, str) else list(after)
    return plan_servers.Server(name, node, after, str(mine.get("migrate_server_standby") or ""), options, own)
