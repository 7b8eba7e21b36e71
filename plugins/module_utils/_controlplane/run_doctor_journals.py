# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: the journals of runs that this control node has not completed, next to the inventory."""

from __future__ import annotations

import pathlib

_PLAYBOOKS = {".rolling-*.json": "rolling_restart", ".maintenance-*.json": "maintain_virt_node"}


def unfinished(directory: str) -> dict[str, str]:
    """Return file → playbook, which removes it when it is complete. A journal at another place, by a variable, is not found."""
    return {str(path): name for pattern, name in _PLAYBOOKS.items() for path in sorted(pathlib.Path(directory).glob(pattern))} if directory else {}
