# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide whether a VM may be started from its copy, for the playbook ``start_standby``."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.module_utils._standby import plan_elsewhere
from ansible_collections.reduced.footprint.plugins.plugin_utils.plan_action import PlanAction


class ActionModule(PlanAction):
    """Let :mod:`plan_elsewhere` decide."""

    def plan(self, given: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> Plan:
        """Return the plan."""
        wanted = plan_elsewhere.Wanted(given["id"], given["uuid"], given["source"], given["abandon_move"], given["lost"])
        return plan_elsewhere.plan(wanted, *(given[key].get("results") or () for key in ("vms", "moves")))
