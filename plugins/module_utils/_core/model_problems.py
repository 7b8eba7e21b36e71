# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several errors of one input, reported together."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError


class Problems:
    """Collects errors, so that a user corrects all of them before the next run."""

    def __init__(self) -> None:
        self.found: list[FootprintError] = []

    def call(self, function: t.Callable[..., t.Any], *args: t.Any) -> t.Any:
        """Return what a function returns, ``None`` after an error."""
        try:
            return function(*args)
        except FootprintError as error:
            self.found.append(error)
            return None

    def check(self) -> None:
        """Raise the error, or one :class:`InputError` with a line for each."""
        lines = list(dict.fromkeys(str(error) for error in self.found))
        if len(lines) == 1:
            raise self.found[0]
        if lines:
            raise InputError("\n  ".join([f"{len(lines)} errors:", *lines]))
