# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the files of filters have in common: the class that Ansible loads, and errors in one sentence."""

from __future__ import annotations

import importlib
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError

Function = t.Callable[..., t.Any]
_UTILS = "ansible_collections.reduced.footprint.plugins.module_utils"


def filter_module(name: str, function: Function) -> type:
    """Return the class of a file with one filter."""

    def call(*arguments: t.Any, **options: t.Any) -> t.Any:
        return _call(name, function, *arguments, **options)

    class FilterModule:
        """The filter of a file."""

        def filters(self) -> dict[str, Function]:
            """Return the filter by its name."""
            return {name: call}

    return FilterModule


def imported(module: str, name: str) -> Function:
    """Return a function below ``module_utils`` that is imported when it is called: Ansible loads the files of all filters for each task with one."""

    def call(*arguments: t.Any, **options: t.Any) -> t.Any:
        function: Function = getattr(importlib.import_module(f"{_UTILS}.{module}"), name)
        return function(*arguments, **options)

    return call


def decision_module(name: str, **decisions: Function) -> type:
    """Return the class of a file with the decisions of a subject; the first argument of the filter chooses one.

    :arg decisions: functions by the name of their decision; each gets the input of the filter and the other arguments.
    """

    def decide(given: t.Any, decision: str, /, *arguments: t.Any, **options: t.Any) -> t.Any:
        if decision not in decisions:
            raise InputError(f"{name}: unknown decision {decision!r}; expected one of {', '.join(decisions)}.")
        return _call(f"{name} {decision}", decisions[decision], given, *arguments, **options)

    return filter_module(name, decide)


def _call(name: str, function: Function, /, *arguments: t.Any, **options: t.Any) -> t.Any:
    try:
        return function(*arguments, **options)
    except FootprintError as error:
        raise AnsibleFilterError(str(error)) from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"{name}: an argument has an unexpected structure: {error!r}.") from None
