# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controllers are replaced while a client writes: one with a destroyed disk, one whose server is lost.

Chapters run in order on one lab.
"""

from __future__ import annotations

import pytest
from add_server_lab import one_of_each, promises_kept
from replace_lab import ReplaceLab
from support import eventually

pytestmark = pytest.mark.chapter

FIRST = ("-e", "replace_controller_name=controller1")
THIRD = ("-e", "replace_controller_name=controller3", "-e", "replace_controller_server=metal1")


def test_three_controllers_serve(lab: ReplaceLab) -> None:
    lab.whole()
    assert lab.writing()


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ([], "missing required arguments: replace_controller_name"),
        (["replace_controller_name=contoller1"], "replace_controller_name: contoller1 is not a controller. Did you mean controller1?"),
        (["replace_controller_name=controller1", "replace_controller_server=metal4"], "replace_controller_server: metal4 is not a virt host. Did you mean"),
        (["replace_controller_name=controller1"], "replace_controller_name: controller1 is alive, it answers."),
        (["replace_controller_name=controller1", "expert_mode=false"], "expert_mode"),
    ],
)
def test_what_must_not_be_replaced_is_refused(lab: ReplaceLab, variables: list[str], words: str) -> None:
    before = {name: lab.started(name) for name in lab.homes}
    lab.fails("replace_controller", *[word for one in variables for word in ("-e", one)], words=[words])
    assert {name: lab.started(name) for name in lab.homes} == before


def test_the_last_member_of_a_majority_is_refused(lab: ReplaceLab) -> None:
    address = lab.address("controller2")
    lab.ssh(address, "systemctl", "stop", "mariadb")
    before = lab.started("controller1")
    words = ["without controller1 galera has 1 of 3 members and needs 2", "Nothing was changed"]
    lab.fails("replace_controller", *FIRST, "-e", "replace_controller_stop=true", words=words)
    assert lab.started("controller1") == before
    lab.ssh(address, "systemctl", "start", "mariadb")
    eventually("all members are synced again", lambda: len(lab.status()["database_members"]) == 3, 180)


def test_check_mode_shows_the_replacement_and_changes_nothing(lab: ReplaceLab) -> None:
    lab.destroy_disk("controller1", "metal1")
    eventually("rows are written without it", lab.writing, 60)
    done = lab.succeeds("replace_controller", *FIRST, "--check", "--diff")
    assert "controller1 is created again on metal1" in done.output
    assert "check mode: nothing was changed" in done.output
    assert lab.defined("metal1") == ["controller1"] and lab.running("metal1") == []
    assert lab.ssh("metal1", "ls /var/lib/libvirt/images").split() == ["controller1-disk0", "images"]


@pytest.mark.parametrize(
    ("stage", "delay"),
    [("TASK [Take the old virtual machine away on", 1.5), ("TASK [reduced.footprint.virt_guests : Define the virtual machines", 3)],
)
def test_killed_it_leaves_the_others_serving(lab: ReplaceLab, stage: str, delay: float) -> None:
    lab.killed("replace_controller", *FIRST, kill_at=stage, kill_delay=delay)
    assert lab.writing()


def test_the_next_run_replaces_the_controller_whose_disk_was_destroyed(lab: ReplaceLab) -> None:
    done = lab.succeeds("replace_controller", *FIRST)
    assert "which an interrupted run began" in done.output
    assert "controller1 was replaced on metal1, and the control plane is healthy" in done.output
    lab.whole()
    one_of_each(lab)
    promises_kept(lab)
    # the old disk is kept, and was taken away once
    kept = [name for name in lab.ssh("metal1", "ls /var/lib/libvirt/images").split() if ".replaced-" in name]
    assert len(kept) == 1 and kept[0].startswith("controller1-disk0.replaced-"), kept


def test_a_second_run_changes_nothing(lab: ReplaceLab) -> None:
    before = lab.started("controller1")
    done = lab.succeeds("replace_controller", *FIRST)
    assert done.changed == 0, done.changed_tasks()
    assert lab.started("controller1") == before
    for playbook in ("spawn_vms", "deploy_controllers"):
        again = lab.succeeds(playbook)
        assert again.changed == 0, (playbook, again.changed_tasks())


def test_a_lost_server_must_be_confirmed(lab: ReplaceLab) -> None:
    lab.command("kill", "metal2")
    eventually("rows are written without it", lab.writing, 60)
    lab.fails("replace_controller", "-e", "replace_controller_name=controller3", words=["replace_controller_server: metal2 does not answer"])
    lab.fails("replace_controller", *THIRD, words=["Make sure that it is off, then set replace_controller_confirm=metal2"])
    lab.fails("replace_controller", *THIRD, "-e", "replace_controller_confirm=metal3", words=["'metal3' is not the server whose loss must be confirmed"])


def test_the_controller_of_a_lost_server_is_created_on_another_one(lab: ReplaceLab) -> None:
    done = lab.succeeds("replace_controller", *THIRD, "-e", "replace_controller_confirm=metal2")
    assert "controller3 was replaced on metal1, and the control plane is healthy" in done.output
    assert "inventory: move the entry of controller3 from the vms of metal2 to the vms of metal1" in done.output
    assert "the old VM on metal2 still exists" in done.output
    assert lab.running("metal1") == ["controller1", "controller3"]
    promises_kept(lab)
    again = lab.succeeds("replace_controller", *THIRD, "-e", "replace_controller_confirm=metal2")
    assert again.changed == 0, again.changed_tasks()


def test_the_old_vm_of_a_server_that_is_back_is_taken_away(lab: ReplaceLab) -> None:
    lab.come_back("metal2")
    # it has no note yet; its hook found the new VM in the network
    assert (lab.defined("metal2"), lab.running("metal2")) == (["controller3"], [])
    assert "runs on another server" in lab.ssh("metal2", "virsh -q -c lxc:/// start controller3 2>&1", check=False)
    assert lab.running("metal2") == []
    done = lab.succeeds("replace_controller", *THIRD, "-e", "replace_controller_confirm=metal2")
    assert "metal2 is back: its old VM is taken away" in done.output
    one_of_each(lab)
    # neither the server nor a playbook with the old inventory starts it again
    lab.command("reboot", "metal2")
    eventually("metal2 answers", lambda: lab.defined("metal2") == [], 120)
    lab.succeeds("spawn_vms", "-e", "spawn_vms_wait=false", "--limit", "metal2")
    assert lab.defined("metal2") == []
    one_of_each(lab)
    promises_kept(lab)
    again = lab.succeeds("replace_controller", *THIRD, "-e", "replace_controller_confirm=metal2")
    assert again.changed == 0, again.changed_tasks()


def test_no_row_was_lost(lab: ReplaceLab) -> None:
    lab.place("controller3", "metal1")
    eventually("the control plane is healthy", lambda: lab.status()["state"] == "ok", 180)
    written = lab.written()
    assert written["rows_lost"] == 0, written
    print(f"largest gap a client saw: {written['largest_gap_seconds']} s at {written['largest_gap_at']} of {written['rows_acked']} rows")
