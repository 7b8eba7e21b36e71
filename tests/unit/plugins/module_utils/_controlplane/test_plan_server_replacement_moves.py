# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM that was on its way to another server when its own was lost may be complete there."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.filter.controlplane_decision import replace_server

NAMES = ("metal1", "metal2", "metal3")
COPY = {"id": "20261126T100000Z", "source": "metal2", "copied": "2026-11-26T10:00:00Z", "verified": "2026-11-26T10:00:09Z"}
COPIES = [{"id": "notes", "part": "standby", "state": "receiving", "phase": None, "copies": [COPY]}]
DISKS = [{"size": "1 GiB", "format": "qcow2"}]
RECORD = {"name": "metal2", "machine_id": "2" * 32, "product_uuid": "", "address": "", "at": "20261124T190000Z", "state": "known", "old": [], "proof": ""}


def planned(arriving: t.Mapping[str, t.Any], standbys: t.Sequence[t.Any], *recreate: str) -> dict[str, t.Any]:
    """Plan the replacement of metal2 while metal3 has the VM notes."""
    servers: dict[str, t.Any] = {}
    for number, name in enumerate(NAMES):
        identity = {"here": {"machine_id": str(number + 3) * 32}, "records": [RECORD] if name != "metal2" else []}
        servers[name] = {"identity": identity, "vms": [arriving] if name == "metal3" else [], "standbys": standbys if name == "metal1" else []}
    vms = [{"id": "notes", "ram": 1, "hypervisor": "qemu", "disks": DISKS, "standby": "metal1"}]
    known = {"servers": {name: "" for name in NAMES}, "hosts": NAMES, "vms": vms, "extra": [], "cluster": "lab"}
    return replace_server({"name": "metal2", "confirm": "metal2", "recreate": list(recreate)}, known, {}, servers, now="20261126T110000Z")


@pytest.mark.parametrize(("standbys", "recreate"), [(COPIES, ()), ([], ("notes",))])
@pytest.mark.parametrize(("moved", "allowed"), [("metal3", False), ("metal2", True)])
def test_a_vm_that_was_arriving_elsewhere_is_neither_started_nor_created(standbys: t.Any, recreate: t.Any, moved: str, allowed: bool) -> None:
    # moved to metal2: the old VM of a move from metal3
    result = planned({"id": "notes", "name": "notes", "state": "paused", "moved": moved}, standbys, *recreate)
    assert result["ok"] == allowed, result["why"]
    assert ("notes was being moved to metal3, which has it (paused): with another one it could run twice." in " ".join(result["why"])) != allowed
