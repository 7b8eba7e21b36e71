# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What modules have in common: how they end, and parameters with secrets."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError


def answer(module: t.Any, use_case: t.Callable[[], t.Mapping[str, t.Any]]) -> None:
    """End a module with the result of a use case, or with its error.

    :arg use_case: returns the result, with ``warnings`` for Ansible; with ``error`` the module fails.
    """
    try:
        values = dict(use_case())
    except FootprintError as error:
        values = error.as_result()
    for warning in values.pop("warnings", ()):
        module.warn(warning)
    if "error" in values:
        module.fail_json(**values)
    module.exit_json(**values)


def quiet(base: t.Any) -> t.Any:
    """Return a module class that never logs its parameters on the host, and returns them only after their validation.

    For secrets in parameters that ``no_log`` of an argument spec cannot cover, such as free keys and texts.
    An invalid parameter fails the module before the secret values are known, and Ansible returns all
    parameters with the failure.
    """

    class QuietModule(base):
        """See :func:`quiet`."""

        def __init__(self, argument_spec: t.Mapping[str, t.Any], **options: t.Any) -> None:
            self._checked = False
            super().__init__(argument_spec, **options)
            self._checked = True

        def _log_invocation(self) -> None:
            # no_log=True has no effect here: it is overridden by no_log of the task
            self.log("Invoked; the parameters are not logged, because they may contain secrets")

        def _return_formatted(self, kwargs: dict[str, t.Any]) -> None:
            if not self._checked:
                kwargs["invocation"] = {"module_args": {str(key): "VALUE_HIDDEN" for key in self.params}}
            super()._return_formatted(kwargs)

    return QuietModule
