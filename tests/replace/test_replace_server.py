# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server is destroyed completely, and another machine takes over its name while a client writes.

It had a controller, a VM with a copy on another server, and a VM without one. Chapters run in order on one lab.
"""

from __future__ import annotations

import pytest
from add_server_lab import promises_kept
from replace_lab import NOTES, WEB, ReplaceLab
from support import eventually

pytestmark = pytest.mark.chapter

SERVER = "metal3"
NAME = ("-e", f"replace_server_name={SERVER}")
CONFIRM = ("-e", f"replace_server_confirm={SERVER}")


def test_a_server_has_a_controller_and_other_vms(lab: ReplaceLab) -> None:
    lab.add_vms(SERVER, "metal1")
    lab.whole()
    assert lab.writing() and lab.running(SERVER) == ["controller2", WEB]
    eventually("its VM is copied to another server", lambda: lab.copies("metal1") == [NOTES], 180)
    assert lab.number(SERVER) > 0


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ([], "missing required arguments: replace_server_name"),
        (["replace_server_name=metal3 metal1"], "names several servers. Replace one server at a time."),
        (["replace_server_name=metal3", "replace_server_recreate=controller2"], "replace_server_recreate: controller2 is a controller."),
        (["replace_server_name=metal3", "expert_mode=false"], "expert_mode"),
    ],
)
def test_what_must_not_be_replaced_is_refused(lab: ReplaceLab, variables: list[str], words: str) -> None:
    lab.fails("replace_server", *[word for one in variables for word in ("-e", one.replace(" ", ","))], words=[words])


def test_a_living_server_is_not_replaced(lab: ReplaceLab) -> None:
    before = lab.started("controller2")
    done = lab.succeeds("replace_server", *NAME, *CONFIRM)
    assert done.changed == 0 and "nothing to replace" in done.output
    assert lab.started("controller2") == before


def test_a_destroyed_server_is_not_replaced_before_there_is_another_machine(lab: ReplaceLab) -> None:
    lab.destroy_server(SERVER)
    eventually("rows are written without it", lab.writing, 60)
    lab.fails("replace_server", *NAME, *CONFIRM, words=["metal3 does not answer at", "Nothing was changed"])


def test_the_new_machine_is_accepted_with_its_host_key_and_a_proof(lab: ReplaceLab) -> None:
    old = lab.earlier(SERVER)
    lab.install_server(SERVER)
    assert lab.ssh(SERVER, "cat", "/etc/machine-id").strip() != old
    # only the ssh host key of the earlier machine is known
    lab.fails("replace_server", *NAME, *CONFIRM, words=["metal3 does not answer at"])
    lab.fails("replace_server", *NAME, *lab.host_key(SERVER), words=[f"If the earlier machine ({old}, last at", f"then set replace_server_confirm={SERVER}"])
    lab.fails("replace_server", *NAME, "-e", "replace_server_confirm=metal1", words=["'metal1' is not the server whose loss must be confirmed"])
    assert lab.ssh(SERVER, "ls /var/lib/reduced.footprint", check=False) == ""


def test_check_mode_shows_what_becomes_of_each_vm(lab: ReplaceLab) -> None:
    done = lab.succeeds("replace_server", *NAME, *CONFIRM, "--check", "--diff")
    assert "controller2 is created again, and gets its data from its peers" in done.output
    assert f"{NOTES} is started on metal1 from its copy of" in done.output
    assert f"{WEB} is LOST, and not created: it has no standby" in done.output
    assert "check mode: nothing was changed" in done.output and done.changed == 0
    assert lab.ssh(SERVER, "ls /var/lib/reduced.footprint", check=False) == ""


@pytest.mark.parametrize(
    ("stage", "delay"),
    [("TASK [reduced.footprint.virt_host : Install libvirt and QEMU", 5), ("TASK [reduced.footprint.virt_guests : Define the virtual machines", 3)],
    ids=["provision", "create"],
)
def test_killed_it_leaves_the_others_serving(lab: ReplaceLab, stage: str, delay: float) -> None:
    # the proof is recorded by the first run
    lab.killed("replace_server", *NAME, *CONFIRM, kill_at=stage, kill_delay=delay)
    assert lab.writing()


def test_the_next_run_completes_the_replacement(lab: ReplaceLab) -> None:
    done = lab.succeeds("replace_server", *NAME)
    assert "continues to take over" in done.output
    assert "metal3 was replaced by the machine" in done.output
    assert f"spawn_vms would create {WEB} with empty disks" in done.output
    promises_kept(lab)
    assert lab.running(SERVER) == lab.defined(SERVER) == ["controller2"]
    # started from its copy, and moved back
    assert lab.machines(SERVER) == [NOTES] and lab.machines("metal1") == []
    assert lab.number(SERVER) > 0
    eventually("it is copied again", lambda: lab.copies("metal1") == [NOTES], 180)
    # without a copy the status is degraded
    lab.whole()


def test_a_second_run_changes_nothing(lab: ReplaceLab) -> None:
    before = lab.started("controller2")
    done = lab.succeeds("replace_server", *NAME)
    assert done.changed == 0, done.changed_tasks()
    assert "nothing to replace" in done.output
    assert lab.started("controller2") == before
    lab.remove_vm(WEB)
    # the record of the server lists its VMs
    lab.succeeds("provision_virt")
    for playbook, *more in (("provision_virt",), ("spawn_vms", "-e", "spawn_vms_wait=false"), ("deploy_controllers",)):
        again = lab.succeeds(playbook, *more)
        assert again.changed == 0, (playbook, again.changed_tasks())


def test_no_row_was_lost(lab: ReplaceLab) -> None:
    written = lab.written()
    assert written["rows_lost"] == 0, written
    print(f"largest gap a client saw: {written['largest_gap_seconds']} s at {written['largest_gap_at']} of {written['rows_acked']} rows")
