# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From two servers to three, while a client writes.

Chapters run in order on one lab. ``--whole`` adds those in which it is killed and in which moves fail.
"""

from __future__ import annotations

import pytest
from add_server_lab import SERVERS, AddServerLab, kill_worker, moved_vm, one_of_each, promises_kept, assert_output
from support import eventually

pytestmark = pytest.mark.chapter


def test_two_servers_cannot_lose_the_first(lab: AddServerLab) -> None:
    report = lab.status()
    assert report["ok"], report["lines"]
    assert report["ha_grade"] == "restart"


def test_a_third_server_joins(lab: AddServerLab) -> None:
    lab.command("up", "--servers", "3")
    lab.write_inventory(servers=3)
    assert lab.writing()


def test_add_server_killed_during_a_move_loses_nothing(lab: AddServerLab) -> None:
    lab.killed("add_server", kill_at="TASK [Change the VM", kill_delay=6)
    kill_worker(lab, "metal1")
    names = [name for server in SERVERS for name in lab.running(server)]
    assert len(names) == len(set(names)), "no controller runs twice"
    eventually("rows are written while one controller is under way", lab.writing, 30)


def test_the_next_run_completes_it(lab: AddServerLab) -> None:
    done = lab.succeeds("add_server")
    assert "continues its move from metal1 to metal3" in done.output
    assert "high availability was restart and is quorum" in done.output or "high availability was quorum and is quorum" in done.output
    assert len(lab.running("metal3")) == 1
    one_of_each(lab)
    felt = assert_output(done.output, r"clients: (\d+) rows written in [\d.]+ s, 0 lost, largest write gap ([\d.]+) s")
    assert int(felt[1]) > 50
    promises_kept(lab)


def test_again_nothing_moves(lab: AddServerLab) -> None:
    done = lab.succeeds("add_server")
    assert done.changed == 0, done.changed_tasks()
    assert "no controller has to be moved" in done.output
    assert f"inventory: move the entry of {moved_vm(lab)} from the vms of metal1 to the vms of metal3" in done.output


def test_the_old_inventory_makes_no_second_vm(lab: AddServerLab) -> None:
    done = lab.succeeds("spawn_vms", "-e", "spawn_vms_wait=false")
    assert done.recap["metal1"]["changed"] == 0, done.changed_tasks()
    assert f"{moved_vm(lab)}" in done.output
    one_of_each(lab)


def test_any_server_may_be_lost_now(lab: AddServerLab) -> None:
    name = moved_vm(lab)
    lab.write_inventory(servers=3, placement={name: "metal3"})
    report = lab.status()
    assert report["ok"], report["lines"]
    assert report["ha_grade"] == "quorum"
    again = lab.succeeds("spawn_vms", "-e", "spawn_vms_wait=false")
    # images are fetched to the new server for VMs to come; the VM itself is as its details say
    assert not [task for task in again.changed_tasks() if "Define the virtual machines" in task], again.changed_tasks()
    promises_kept(lab)
    written = lab.written()
    assert written["rows_lost"] == 0, written
    print(f"largest gap a client saw: {written['largest_gap_seconds']} s at {written['largest_gap_at']} of {written['rows_acked']} rows")
