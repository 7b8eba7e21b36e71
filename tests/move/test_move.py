# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moves between two servers with real libvirt: a container by copy, a machine live, with failures during the move.

``--whole`` kills the worker in every phase and tries more of what can go wrong.
"""

from __future__ import annotations

import json
import time

import pytest
from move_pair import CLUSTER, POOL, ROOT, Pair, Refused, Server, container, counted, eventually, machine, remembered, steps
from rflab.plays import play
from rflab.settings import current

# the switch itself takes no longer than finding out that it began
COPIED = ("preflight", "receive", "precopy", "stop", "copy", "verify", "place", "start", "settle")
LIVE = ("preflight", "receive", "precopy", "place", "migrate", "start", "settle")
DISK = f"{POOL}/m1-disk0"
JOURNAL = "/var/lib/reduced.footprint/moves/c1/journal.json"


def corpus(server: Server) -> dict[str, object]:
    """Describe the difficult files of the container by content, owner, attributes, links, holes."""
    script = (ROOT / "tests" / "torture" / "corpus.py").read_bytes()
    return json.loads(server.ssh("python3", "-", "describe", f"{POOL}/c1-root/srv/corpus", given=script))


def one_runs(pair: Pair, name: str, where: Server) -> None:
    """Check that the VM runs on exactly one server."""
    other = pair.there if where is pair.here else pair.here
    assert where.runs(name), f"{name} does not run on {where.name}"
    assert not other.runs(name), f"{name} runs twice"


def test_container_is_moved_by_copy_and_confirmed(pair: Pair, guest: str) -> None:
    awkward, before = corpus(pair.here), steps(pair.here, guest)
    rehearsed = pair.move(guest, check=True)
    assert rehearsed["method"] == "copy"
    assert "container" in rehearsed["move"]["live_blockers"][0]
    assert pair.there.ssh("ls /etc/reduced.footprint/vms") == ""

    done = pair.move(guest)
    assert (done["changed"], done["method"], done["move"]["verified"]) == (True, "copy", True)
    assert pair.left_of_key(guest) == []
    one_runs(pair, guest, pair.there)
    assert corpus(pair.there) == awkward
    eventually("it counts on from where it was", lambda: steps(pair.there, guest) > before)
    last = steps(pair.here, guest)
    assert last >= before
    # by hand neither: libvirt asks the record
    refused = pair.here.ssh(f"virsh -c lxc:///system start {guest} 2>&1", check=False)
    assert f"it belongs to {pair.there.name}" in refused and not pair.here.runs(guest), refused
    uuid, macs = done["move"]["uuid"], done["move"]["macs"]
    definition = pair.there.ssh("virsh", "-c", "lxc:///system", "dumpxml", guest)
    assert uuid in definition and all(mac in definition for mac in macs)

    assert pair.move(guest)["changed"] is False
    left = pair.here.call("define", {"cluster": CLUSTER, "vms": [container(guest)]})
    assert (left["changed"], left["vms"][0]["state"], left["vms"][0]["moved_to"]) == (False, "moved", "metal2")
    assert pair.there.call("define", {"cluster": CLUSTER, "vms": [container(guest)]}, check=True)["vms"][0]["actions"] == []

    assert pair.move(guest, "confirmed")["changed"] is True
    assert pair.left_of_key(guest) == []
    assert pair.move(guest, "confirmed")["changed"] is False
    assert not pair.here.has(f"{POOL}/{guest}-root")
    assert pair.here.has(f"{POOL}/images/steps.tar")
    # an inventory that is behind makes no second one
    assert pair.here.call("define", {"cluster": CLUSTER, "vms": [container(guest)]})["vms"][0]["state"] == "moved"
    one_runs(pair, guest, pair.there)


def test_machine_is_moved_live_and_returned_with_its_changes(pair: Pair, counter: str) -> None:
    before = remembered(pair.here, counter)[0]
    done = pair.move(counter)
    assert (done["method"], done["move"]["live_blockers"]) == ("live", [])
    one_runs(pair, counter, pair.there)
    moved, starts = remembered(pair.there, counter)
    # it was not restarted: its memory was transferred
    assert starts == 1 and moved > before
    eventually("the machine continues to count", lambda: remembered(pair.there, counter)[0] > moved)
    eventually("its disk has what it counted there", lambda: counted(pair.there, DISK)[0] > moved)

    with pytest.raises(Refused, match="still runs"):
        pair.move(counter, "returned", shutdown_timeout=2)
    one_runs(pair, counter, pair.there)
    assert pair.move(counter)["move"]["state"] == "moved"
    before = remembered(pair.there, counter)[0]
    assert pair.move(counter, "returned", shutdown_timeout=2, force=True)["move"]["state"] == "returned"
    assert pair.left_of_key(counter) == []
    one_runs(pair, counter, pair.here)
    eventually("it started once more", lambda: counted(pair.here, DISK)[1] == 2)
    assert counted(pair.here, DISK)[0] > before
    assert not pair.there.has(DISK)
    assert pair.move(counter, "returned")["changed"] is False


@pytest.mark.parametrize("phases", [("copy", "start"), *(pytest.param((phase,), marks=pytest.mark.whole) for phase in COPIED)], ids="-".join)
def test_killed_copy_is_completed(pair: Pair, guest: str, phases: tuple[str, ...]) -> None:
    awkward, before = corpus(pair.here), steps(pair.here, guest)
    when = pair.killed(guest, phases)
    try:
        pair.move(guest)
    except Refused:
        assert pair.move(guest)["move"]["state"] == "moved"
    assert when() == list(phases)
    assert pair.left_of_key(guest) == []
    one_runs(pair, guest, pair.there)
    assert corpus(pair.there) == awkward
    eventually("it counts on from where it was", lambda: steps(pair.there, guest) > before)


@pytest.mark.whole
@pytest.mark.parametrize("phases", [(phase,) for phase in LIVE], ids="-".join)
def test_killed_live_move_is_completed(pair: Pair, counter: str, phases: tuple[str, ...]) -> None:
    when = pair.killed(counter, phases)
    try:
        pair.move(counter)
    except Refused:
        assert pair.move(counter)["move"]["state"] == "moved"
    assert when() == list(phases)
    assert pair.left_of_key(counter) == []
    one_runs(pair, counter, pair.there)
    moved, starts = remembered(pair.there, counter)
    assert starts == 1
    eventually("the machine continues to count", lambda: remembered(pair.there, counter)[0] > moved)


@pytest.mark.whole
def test_all_obstacles_are_reported_in_one_error(pair: Pair, counter: str) -> None:
    taken = "<domain type='qemu'><name>m1</name><memory unit='MiB'>16</memory><os><type>hvm</type></os></domain>"
    pair.there.ssh("cat > /root/taken.xml && virsh -q define /root/taken.xml", given=taken.encode())
    pair.there.ssh(f"truncate -s 1M {DISK}")
    with pytest.raises(Refused) as checked:
        pair.move(counter, check=True)
    with pytest.raises(Refused) as refused:
        pair.move(counter)
    for message in (str(checked.value), str(refused.value)):
        assert "another domain at the destination has the name m1" in message and "already exists at the destination" in message
    one_runs(pair, counter, pair.here)
    assert pair.here.call("define", {"cluster": CLUSTER, "vms": [machine(counter)]})["changed"] is False
    assert pair.there.ssh("virsh", "list", "--all", "--name").split() == ["m1"]
    assert pair.there.ssh("stat", "--format=%s", DISK).strip() == "1048576"


@pytest.mark.whole
def test_guest_that_ignores_its_shutdown_stays_on_the_source(pair: Pair, counter: str) -> None:
    with pytest.raises(Refused, match="still runs 2 s after the shutdown request"):
        pair.move(counter, method="copy", shutdown_timeout=2)
    one_runs(pair, counter, pair.here)
    assert not pair.there.has(DISK)
    assert pair.move(counter, "returned")["changed"] is False
    assert pair.here.call("define", {"cluster": CLUSTER, "vms": [machine(counter)]})["changed"] is False


def test_second_run_of_the_playbook_changes_nothing(pair: Pair, guest: str) -> None:
    # what the module sends along is packed by Ansible alone
    more = ["-e", f"move_vm_id={guest}", "-e", f"move_vm_cluster={CLUSTER}", "-e", "move_vm_source=metal1", "-e", "move_vm_destination=metal2"]
    inventory = current().state / "inventory"
    checked = play("reduced.footprint.move_vm", "--check", "--diff", *more, inventory=inventory)
    assert (checked.rc, checked.changed) == (0, 1), checked.output[-3000:]
    assert "on metal2 (copy)" in checked.output
    for changed in (True, False):
        done = play("reduced.footprint.move_vm", *more, inventory=inventory)
        assert (done.rc, done.changed > 0) == (0, changed), done.output[-3000:]
    done = play("reduced.footprint.move_vm", *more, "-e", "move_vm_state=confirmed", inventory=inventory)
    assert done.rc == 0, done.output[-3000:]
    one_runs(pair, guest, pair.there)


@pytest.mark.whole
def test_full_destination_is_refused(pair: Pair, guest: str) -> None:
    holds = int(pair.here.ssh("du", "-sk", f"{POOL}/{guest}-root").split()[0])
    pair.there.ssh(f"mount -t tmpfs -o size={holds // 2}k tmpfs {POOL} && virsh -q pool-refresh default")
    try:
        with pytest.raises(Refused, match="available, the VM needs"):
            pair.move(guest)
        one_runs(pair, guest, pair.here)
    finally:
        pair.there.ssh(f"umount {POOL} && virsh -q pool-refresh default")


@pytest.mark.whole
def test_reboot_of_the_destination_leaves_the_vm_on_the_source(pair: Pair, guest: str) -> None:
    before = steps(pair.here, guest)
    pair.move(guest, wait=False, bandwidth_limit="20 MiB/s", max_passes=1)
    eventually("it copies", lambda: pair.phase(guest) in ("precopy", "stop", "copy"), 120)
    pair.there.ssh("systemctl", "reboot", check=False)
    eventually("the move ends", lambda: pair.journal(guest)["state"] == "failed", 240)
    one_ran = pair.here.runs(guest)
    assert one_ran and steps(pair.here, guest) > before
    eventually("the destination is back", lambda: pair.there.ssh("virsh", "list", check=False) != "", 120)
    assert pair.move(guest)["move"]["state"] == "moved"
    one_runs(pair, guest, pair.there)


@pytest.mark.whole
def test_move_continues_after_a_reboot_of_the_source(pair: Pair, guest: str) -> None:
    before = steps(pair.here, guest)
    pair.move(guest, wait=False, bandwidth_limit="20 MiB/s", max_passes=1)
    eventually("it copies", lambda: pair.phase(guest) in ("precopy", "stop", "copy"), 120)
    pair.here.ssh("systemctl", "reboot", check=False)
    eventually("the move ends without anyone's help", lambda: '"state": "moved"' in pair.here.ssh("cat", JOURNAL, check=False), 300)
    one_runs(pair, guest, pair.there)
    eventually("it counts on from where it was", lambda: steps(pair.there, guest) > before)
    assert "at-boot" not in pair.here.ssh("ls", "/etc/systemd/system")
    assert pair.move(guest)["changed"] is False


@pytest.mark.whole
def test_moved_vm_is_started_with_the_destination(pair: Pair, guest: str) -> None:
    pair.move(guest)
    pair.there.ssh("systemctl", "reboot", check=False)
    time.sleep(5)
    eventually("it runs again", lambda: pair.there.runs(guest), 180)
    assert not pair.here.runs(guest)


@pytest.mark.whole
def test_changes_are_discarded_on_request(pair: Pair, guest: str) -> None:
    pair.move(guest)
    eventually("it counts there", lambda: steps(pair.there, guest) > steps(pair.here, guest) + 5)
    written = steps(pair.there, guest)
    done = pair.move(guest, "returned", discard_changes=True)
    one_runs(pair, guest, pair.here)
    assert done["move"]["kept"] == [f"metal2:{POOL}/{guest}-root"]
    assert steps(pair.there, guest) >= written


def test_worker_that_is_started_again_after_its_end_changes_nothing(pair: Pair, guest: str) -> None:
    pair.move(guest)
    # as systemd starts one that was killed while it withdrew its key
    module = "ansible_collections.reduced.footprint.plugins.module_utils._move.run_worker"
    again = f"PYTHONPATH=$(ls -t /var/lib/reduced.footprint/lib/*.zip | head -n 1) python3 -m {module} {guest}"
    pair.here.ssh(again)
    one_runs(pair, guest, pair.there)
    assert pair.journal(guest)["switched"] and pair.move(guest)["changed"] is False
    assert pair.move(guest, "returned")["move"]["state"] == "returned"
    pair.here.ssh(again)
    one_runs(pair, guest, pair.here)
    assert pair.move(guest, "returned")["changed"] is False


@pytest.mark.whole
def test_return_waits_for_a_destination_that_does_not_answer(pair: Pair, guest: str) -> None:
    # also for the copy back, which takes 20 seconds then
    pair.move(guest, bandwidth_limit="20 MiB/s")
    before = steps(pair.there, guest)
    pair.there.ssh(f"head -c 400M /dev/urandom > {POOL}/{guest}-root/srv/large")
    pair.move(guest, "returned", wait=False)
    eventually("it was stopped there", lambda: not pair.there.runs(guest), 60)
    pair.here.ssh("ip", "route", "add", "blackhole", f"{pair.there.address}/32")
    try:
        eventually("it waits", lambda: "waiting for metal2" in str(pair.journal(guest)["reason"]), 240)
        assert not pair.here.runs(guest) and not pair.there.runs(guest)
    finally:
        pair.here.ssh("ip", "route", "del", "blackhole", f"{pair.there.address}/32")
    eventually("it returns without anyone's help", lambda: pair.journal(guest)["state"] == "returned", 240)
    one_runs(pair, guest, pair.here)
    eventually("it counts on from where it was", lambda: steps(pair.here, guest) > before)


@pytest.mark.whole
def test_return_leaves_no_data_in_files_that_were_added(pair: Pair, counter: str) -> None:
    pair.move(counter)
    pair.there.ssh("virsh", "-q", "snapshot-create-as", counter, "one", "--disk-only", "--no-metadata", "--diskspec", f"vda,file={POOL}/m1-overlay")
    with pytest.raises(Refused, match="are not those that were moved there: new .*m1-overlay"):
        pair.move(counter, "returned", shutdown_timeout=2, force=True)
    one_runs(pair, counter, pair.there)
    done = pair.move(counter, "returned", shutdown_timeout=2, force=True, discard_changes=True)
    assert f"metal2:{POOL}/m1-overlay" in done["move"]["kept"] and pair.there.has(DISK)
    one_runs(pair, counter, pair.here)
