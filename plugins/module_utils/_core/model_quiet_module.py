# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""For modules whose parameters hold secrets that no argument spec can name: they stand below free keys, or in texts."""

from __future__ import annotations

import typing as t


def quiet(base: t.Any) -> t.Any:
    """A class of modules that keeps its parameters out of the log of the host, and out of the result until they are checked.

    A wrong parameter ends a module before it can say which values are secret, and Ansible returns all
    parameters with the failure.

    :arg base: ``AnsibleModule``.
    """

    class QuietModule(base):
        """See :func:`quiet`."""

        def __init__(self, argument_spec: t.Mapping[str, t.Any], **options: t.Any) -> None:
            self._checked = False
            super().__init__(argument_spec, **options)
            self._checked = True

        def _log_invocation(self) -> None:
            # no_log=True is of no use here: what the task says takes its place
            self.log("Invoked; the parameters are not logged, since they may hold secrets")

        def _return_formatted(self, kwargs: dict[str, t.Any]) -> None:
            if not self._checked:
                kwargs["invocation"] = {"module_args": {str(key): "VALUE_HIDDEN" for key in self.params}}
            super()._return_formatted(kwargs)

    return QuietModule
