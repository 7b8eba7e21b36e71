# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a host about a VM that was replaced: the old one is taken away once, however often the run is repeated."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import REPLACEMENT

# the old VM is being taken away; it is gone, the new one may be created; the new one works
RETIRING, RETIRED, COMPLETED = "retiring", "retired", "completed"
#: Added to the names of disks that are kept, followed by the time of the replacement.
SUFFIX = ".replaced-"


class Replacement(t.NamedTuple):
    """The record.

    :arg at: time of the replacement (UTC), which is the same on all servers and identifies it.
    :arg source: the server of the old VM, ``to`` that of the new one.
    :arg disks: paths of the old disks that are kept here.
    """

    id: str
    cluster: str
    uuid: str
    at: str
    source: str
    to: str
    state: str
    disks: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible."""
        return {**self._asdict(), "disks": list(self.disks)}

    def to_json(self) -> str:
        """Return the record as JSON text."""
        return json.dumps(REPLACEMENT.mark(self.as_dict()), indent=1, sort_keys=True) + "\n"


def parse_replacement(text: str, place: t.Any) -> Replacement:
    """Return the record from its JSON text."""
    try:
        found = REPLACEMENT.load(text, place)
        values = {name: str(found[name]) for name in Replacement._fields if name != "disks"}
        return Replacement(**values, disks=tuple(str(path) for path in found.get("disks") or ()))
    except (ValueError, TypeError, KeyError) as error:
        raise model_errors.BackendError(f"{place} is not a record of a replacement.", hint="Remove it after you checked where the VM runs.") from error
