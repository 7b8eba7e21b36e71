# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clock of this host."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_clock
from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

MOST = 100


def clock(samples: int) -> dict[str, t.Any]:
    """Return what this host knows about its clock; the control node measures the offset."""
    if not 1 <= samples <= MOST:
        raise model_errors.InputError(f"expected a number from 1 to {MOST}, got {samples}.", "samples", "5 are enough for most connections.")
    found = io_clock.read_clock()
    return {"offset_seconds": None, "uncertainty_seconds": None, "synchronized": found["synchronized"], "error_seconds": found["error_seconds"]}
