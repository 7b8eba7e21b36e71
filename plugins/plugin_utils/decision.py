# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters that make the decisions of a subject; the first argument chooses the decision."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError


def decision_filter(name: str, **decisions: t.Callable[..., t.Any]) -> dict[str, t.Callable[..., t.Any]]:
    """Return the filter of a subject by its name.

    :arg decisions: functions by the name of their decision; each gets the input of the filter and the other arguments.
    """

    def decide(given: t.Any, decision: str, *arguments: t.Any, **options: t.Any) -> t.Any:
        if decision not in decisions:
            raise AnsibleFilterError(f"{name}: unknown decision {decision!r}; expected one of {', '.join(decisions)}.")
        try:
            return decisions[decision](given, *arguments, **options)
        except FootprintError as error:
            raise AnsibleFilterError(str(error)) from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise AnsibleFilterError(f"{name}: the input of {decision} has an unexpected structure: {error!r}.") from None

    return {name: decide}
