# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records of VMs that other hosts have, as events leave them, and the folder for them in a test."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import (
    ARRIVING,
    CONFIRMED,
    FORMER,
    INCOMING,
    MOVE,
    MOVED,
    MOVING,
    STOPPED,
    TAKEOVER,
    Operation,
    Record,
)

TAKEN = "taken"


def away(state: str, to: str, vm_id: str = "c1", uuid: str = "u", *, cluster: str = "lab", at: str = "2026-11-26T10:00:00Z") -> Record:
    """Return a record with a state; ``taken`` is that of a VM that was started on its standby."""
    record = Record(cluster, vm_id, uuid, vm_id, 1, to=to, at=at)
    changes: dict[str, dict[str, t.Any]] = {
        MOVING: {"to": "metal1", "operation": Operation(MOVE, "1", to, "metal1", STOPPED)},
        MOVED: {"role": FORMER, "operation": Operation(MOVE, "1", to, "metal1", STOPPED)},
        CONFIRMED: {"role": FORMER},
        ARRIVING: {"role": INCOMING, "operation": Operation(MOVE, "1", to, "metal1")},
        TAKEN: {"role": FORMER, "operation": Operation(TAKEOVER, "", to)},
    }
    return record._replace(**changes[state])


def use_folder(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the records and permits of this test below a folder."""
    for name, path in (("HOME", home / "vms"), ("RUN", home / "run"), ("PERMITS", home / "run/standby")):
        monkeypatch.setattr(io_owner, name, path)
