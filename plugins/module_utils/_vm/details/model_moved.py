# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The note a host keeps about a VM that left it, or that is on its way to it: here it must not be started, nor made anew."""

from __future__ import annotations

import dataclasses
import json

# on its way away, the old copy is still needed; gone, the old copy is kept; gone for good; on its way here
MOVING = "moving"
MOVED = "moved"
CONFIRMED = "confirmed"
ARRIVING = "arriving"


@dataclasses.dataclass(frozen=True)
class Moved:
    """``to`` is the name of the server that has the VM now or will have it, ``at`` when that was written (UTC)."""

    id: str
    cluster: str
    name: str
    uuid: str
    to: str
    at: str
    state: str

    def to_json(self) -> str:
        """The note as it is written."""
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True) + "\n"


def parse_moved(text: str) -> Moved | None:
    """A note from its text, ``None`` when it is none."""
    try:
        data = json.loads(text)
        return Moved(**{field.name: str(data[field.name]) for field in dataclasses.fields(Moved)})
    except (ValueError, TypeError, KeyError):
        return None
