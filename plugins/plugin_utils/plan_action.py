# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Base class of the action plugins that plan a playbook: they decide from their options and the inventory, and change nothing."""

from __future__ import annotations

import importlib
import typing as t

import yaml
from ansible import constants
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan

display = Display()


def arguments(name: str) -> dict[str, t.Any]:
    """Return the argument spec of an action plugin: the options in its documentation, which is a module of that name."""
    module = importlib.import_module(f"ansible_collections.reduced.footprint.plugins.modules.{name}")
    return _spec(yaml.safe_load(module.DOCUMENTATION)["options"])


def _spec(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    found = {name: {key: value for key, value in option.items() if key not in ("description", "suboptions")} for name, option in options.items()}
    for name, option in options.items():
        if "suboptions" in option:
            found[name]["options"] = _spec(option["suboptions"])
    return found


class PlanAction(ActionBase):
    """Prints the lines of a plan, and returns it; fails with the reasons against it."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def plan(self, given: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> Plan:
        """Return the plan.

        :arg given: the options.
        :arg variables: those of the host, with ``hostvars`` and ``groups``.
        :raises FootprintError: an invalid option.
        """
        raise NotImplementedError

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Entry point."""
        super().run(tmp, task_vars)
        spec = arguments(type(self).__module__.rpartition(".")[2])
        _checked, given = self.validate_argument_spec(spec)
        for name in (name for name, option in spec.items() if option.get("elements") == "str"):
            # separated by commas, as the answer to a question of AWX, which may be empty
            given[name] = [each.strip() for each in given[name] if each.strip()]
        try:
            plan = self.plan(given, task_vars or {})
        except FootprintError as error:
            plan = Plan((), problems=(error,))
        except (AttributeError, KeyError, TypeError) as error:
            plan = Plan((), problems=(FootprintError(f"a result that was read has an unexpected structure: {error!r}."),))
        for line in plan.lines:
            # to stderr with a JSON callback, whose stdout must remain one document
            display.display(f"    {line}", stderr="json" in str(constants.DEFAULT_STDOUT_CALLBACK))
        return plan.as_result()
