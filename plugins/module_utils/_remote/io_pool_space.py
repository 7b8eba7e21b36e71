# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Free space of the pool with a copy's disk image."""

from __future__ import annotations

import os

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text

# less free space counts as full: a file system fails before the last byte is used
_LITTLE = 64 * MIB


def full_pool(image: str) -> BackendError | None:
    """Return an error when the file system of an image is full, else ``None``."""
    space = os.statvfs(os.path.dirname(image) or "/")
    free = space.f_bavail * space.f_frsize
    if free >= _LITTLE:
        return None
    return BackendError(
        f"The pool with the copy's disk is full: {size_text(free)} free at {image}.", "pool", "Free space there, or use another pool; then run again."
    )
