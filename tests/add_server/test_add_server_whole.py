# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes wrong on the way from two servers to three: killed at each stage, moves that fail. With ``--whole`` alone.

Runs after test_add_server.py in the same lab. Each chapter first takes the controller back to the server it came from.
"""

from __future__ import annotations

import pytest
from add_server_lab import AddServerLab, kill_worker, moved_vm, one_of_each, promises_kept, assert_output
from support import eventually

STAGES = [
    ("TASK [Move the virtual address", 1),
    ("TASK [Redirect the clients", 1),
    ("TASK [Create the one-time key of the move", 1),
    ("TASK [Change the VM", 1),
    ("TASK [Change the VM", 12),
    ("TASK [Wait until the moved controller answers", 1),
    ("TASK [Confirm the move", 2),
    ("TASK [Stop writing rows", 0.3),
]
pytestmark = [pytest.mark.chapter, pytest.mark.whole]


def take_back(lab: AddServerLab) -> str:
    """The footprint as it was before: the controller on metal1 again."""
    name = moved_vm(lab)
    target = ["-e", f"move_vm_id={name}", "-e", "move_vm_source=metal3", "-e", "move_vm_destination=metal1"]
    lab.succeeds("move_vm", *target)
    eventually("all members are synced", lambda: len(lab.status()["database_members"]) == 3, 180)
    lab.succeeds("move_vm", *target, "-e", "move_vm_state=confirmed")
    lab.write_inventory(servers=3)
    return name


def well(lab: AddServerLab) -> None:
    """All controllers once, all rows, full availability."""
    one_of_each(lab)
    report = lab.status()
    assert (report["ok"], report["ha_grade"]) == (True, "quorum"), report["lines"]
    promises_kept(lab)


def test_a_dry_run_moves_nothing(lab: AddServerLab) -> None:
    name = take_back(lab)
    dry = lab.succeeds("add_server", "--check")
    assert "high availability is restart now, and will be quorum" in dry.output
    assert name in lab.running("metal1")
    lab.succeeds("add_server")
    well(lab)


@pytest.mark.parametrize("worker", [False, True], ids=["the play", "the play and its worker"])
@pytest.mark.parametrize("stage, delay", STAGES)
def test_killed_at_each_stage_it_is_completed(lab: AddServerLab, stage: str, delay: float, worker: bool) -> None:
    take_back(lab)
    lab.killed("add_server", kill_at=stage, kill_delay=delay)
    if worker:
        kill_worker(lab, "metal1")
    eventually("rows are written", lab.writing, 60)
    lab.succeeds("add_server")
    well(lab)
    again = lab.succeeds("add_server")
    assert again.changed == 0, again.changed_tasks()


def test_controller_that_does_not_rejoin_is_moved_back(lab: AddServerLab) -> None:
    name = take_back(lab)
    # on the new server the database cannot reach its peers; an interruption would not suffice if the controller rejoins quickly
    rules = "add table bridge fault\nadd chain bridge fault pass { type filter hook forward priority 0; }\n"
    rules += "".join(f"add rule bridge fault pass ip protocol tcp tcp {end} 4567 drop\n" for end in ("sport", "dport"))
    lab.ssh("metal3", "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install nftables")
    lab.ssh("metal3", "nft", "-f", "-", stdin=rules)
    try:
        done = lab.play("add_server", "-e", "add_server_rejoin_timeout=30")
    finally:
        lab.ssh("metal3", "nft", "delete", "table", "bridge", "fault")
    assert done.rc != 0
    assert f"{name} was not moved" in done.output
    assert "It is back on metal1, and the control plane is healthy" in done.output
    assert name in lab.running("metal1")
    one_of_each(lab)
    promises_kept(lab)
    lab.succeeds("add_server")
    well(lab)


def test_no_controller_is_moved_while_another_is_unhealthy(lab: AddServerLab) -> None:
    take_back(lab)
    lab.ssh(lab.address("controller3"), "systemctl", "stop", "mariadb")
    done = lab.play("add_server", "-e", "add_server_gate_timeout=5", "-e", "add_server_write_probe=false")
    assert done.rc != 0
    assert_output(done.output, "was not changed, because the control plane is unhealthy: .*controller3")
    assert lab.running("metal3") == []
    lab.ssh(lab.address("controller3"), "systemctl", "start", "mariadb")
    eventually("all members are synced again", lambda: len(lab.status()["database_members"]) == 3, 180)
    lab.succeeds("add_server")
    well(lab)
