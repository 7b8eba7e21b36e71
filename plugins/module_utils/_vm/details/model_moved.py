# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a VM that is moved from or to a host, where it must not be started or created again."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import MOVED_VM

# leaving, the old copy is still needed; moved, the old copy is kept; moved for good; arriving here
MOVING = "moving"
MOVED = "moved"
CONFIRMED = "confirmed"
ARRIVING = "arriving"


@dataclasses.dataclass(frozen=True)
class Moved:
    """The record: ``to`` is the name of the destination server, ``at`` the time of the record (UTC)."""

    id: str
    cluster: str
    name: str
    uuid: str
    to: str
    at: str
    state: str

    def to_json(self) -> str:
        """Return the record as JSON text."""
        return json.dumps(MOVED_VM.mark(dataclasses.asdict(self)), indent=1, sort_keys=True) + "\n"


def parse_moved(text: str, place: t.Any) -> Moved | None:
    """Return the record from its JSON text, ``None`` if it is not valid.

    :arg place: where the text is from, for messages.
    :raises RefusedError: it is from a newer version of the collection.
    """
    try:
        data = MOVED_VM.load(text, place)
        return Moved(**{field.name: str(data[field.name]) for field in dataclasses.fields(Moved)})
    except (ValueError, TypeError, KeyError):
        return None
