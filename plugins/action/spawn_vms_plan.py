# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Add VM details that are given to a run to the inventory, for the playbook ``spawn_vms``."""

from __future__ import annotations

import os
import typing as t

from ansible.inventory.manager import InventoryManager
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, Problems
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import plan_kept, plan_names, run_kept, run_names
from ansible_collections.reduced.footprint.plugins.plugin_utils.plan_action import PlanAction


class ActionModule(PlanAction):
    """Read the inventory files of the servers once more, with the VM details, as the inventory plugin reads them."""

    def plan(self, given: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> Plan:
        """Keep the VM details, and return the hosts that the inventory of this run lacks."""
        details = plan_kept.parse(given["vms"])
        hostvars = variables["hostvars"]
        sources = {name: tuple(hostvars[name].get("footprint_inventory") or ()) for name in variables["groups"]["all"]}
        problems = Problems()
        problems.found += plan_kept.unknown(details, [name for name, files in sources.items() if files])
        read = {}
        for files in dict.fromkeys(sources[name] for name in details if sources.get(name)):
            mine = {name: entries for name, entries in details.items() if sources.get(name) == files}
            read[files[-1]] = problems.call(self._read, files, mine), mine
        for file, (_manager, mine) in read.items():
            problems.found += [InputError(text, file) for text in run_names.slips({name: hostvars.raw_get(name) for name in mine})]
        problems.check()
        lines, hosts, diffs = [], [], []
        for file, (manager, mine) in read.items():
            for server in mine:
                hosts += self._hosts(manager, server, hostvars)
            # documented variables of every job of AWX, whose files are lost when it ends
            lasts = "awx_job_id" not in variables and "tower_job_id" not in variables
            kept = run_kept.keep(file, self._kept(file), lasts, self._task.check_mode)
            diffs += [kept.diff] if kept.changed else []
            lines += plan_kept.lines(kept.path, kept.diff.get("after", ""), kept.refused, self._task.check_mode)
        return Plan(lines, values={"changed": bool(diffs), "hosts": hosts, "diff": diffs})

    def _kept(self, file: str) -> t.Any:
        path = run_kept.file_of(file)
        return self._loader.load_from_file(path, cache="none") if os.path.isfile(path) else None

    def _read(self, files: t.Sequence[str], details: plan_kept.Details) -> InventoryManager:
        missing = next((file for file in files if os.path.isabs(file) and not os.path.exists(file)), None)
        if missing:
            raise InputError("does not exist here.", missing, "Keep the inventory in the project, at the same path as when it was read.")
        run_kept.GIVEN = details
        try:
            manager = InventoryManager(loader=self._loader, sources=list(files))
        finally:
            run_kept.GIVEN = None
        if run_names.READ[files[-1]]:
            raise InputError(run_names.READ[files[-1]], files[-1])
        return manager

    def _hosts(self, manager: InventoryManager, server: str, hostvars: t.Any) -> t.Iterator[dict[str, t.Any]]:
        """Yield a server and its VMs, as arguments of the module ``add_host``, unless the inventory has them."""
        templar = self._templar.copy_with_new_env(available_variables=hostvars.raw_get(server))
        vms = templar.template(manager.hosts[server].vars["vms"])
        if vms == hostvars[server].get("vms"):
            return
        yield {"name": server, "vms": vms}
        for host in manager.hosts.values():
            if host.vars.get("vm_host") == server:
                known = {**host.vars, "vm_details": templar.template(host.vars["vm_details"])}
                # what refers to other variables is known to the inventory only, and not needed to create a VM
                known = {key: value for key, value in known.items() if not plan_names.has_template(value)}
                yield {"name": host.name, "groups": [group.name for group in host.get_groups() if group.name not in ("all", "ungrouped")], **known}
