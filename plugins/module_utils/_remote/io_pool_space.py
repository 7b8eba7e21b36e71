# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The room that is left beside the image of a copy's disk."""

from __future__ import annotations

import os

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text

# a pool with less room than that is full: a file system is given up before the last byte is
_LITTLE = 64 * MIB


def full_pool(image: str) -> BackendError | None:
    """What is to be said when the file system an image lies in has no room left."""
    space = os.statvfs(os.path.dirname(image) or "/")
    free = space.f_bavail * space.f_frsize
    if free >= _LITTLE:
        return None
    return BackendError(
        f"The pool that holds the copy's disk is full: {size_text(free)} free beside {image}.", "pool", "Free room there, or use another pool; then run again."
    )
