# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies of a running machine on another server: taken, interrupted, started there, and the return of the first server."""

from __future__ import annotations

import os
import pathlib
import random
import time
import typing as t

import pytest
import yaml

from rflab.plays import play
from rflab.settings import current
from standby_pair import CLUSTER, KILLER, POOL, UNIT, VM, Pair, Refused, Server, eventually, image, lab, machine, sampled, written

PHASES = ("look", "begin", "copy", "finish", "prune")
CUTS = int(os.environ.get("STANDBY_CUTS", "5"))


def overlap(pair: Pair) -> list[tuple[float, float]]:
    """Return samples within half a second of each other in which the machine ran on both servers."""
    here = [at for at, state in sampled(pair.here) if state in ("running", "paused")]
    there = [at for at, state in sampled(pair.there) if state in ("running", "paused")]
    return [(one, other) for one in here for other in there if abs(one - other) < 0.5]


def runs(server: Server) -> bool:
    """Whether the machine runs on a server."""
    return server.state(VM) == "running"


def prepared(pair: Pair, **options: t.Any) -> int:
    """Define the machine and make the first copy; returns the number that the copy contains."""
    pair.define(**options)
    eventually("the machine counts", lambda: pair.counter() > 3)
    assert pair.present()["changed"]
    eventually("the timer makes the first copy", lambda: pair.entry(pair.here)["state"] == "copied", 120)
    return written(pair.there, image(pair.copies()[-1]))[0]


def lose(pair: Pair) -> None:
    """Cut the power of the first server."""
    lab("kill", pair.here.name)


def back(pair: Pair) -> None:
    """Power the first server on again."""
    lab("start", pair.here.name)
    eventually("it is back", lambda: pair.here.ssh("virsh list >/dev/null && echo up", check=False).strip() == "up", 180)
    pair.here.ssh("systemd-run --quiet --unit=sampler python3 /root/sampler.py", check=False)


def test_copies_under_a_writer(pair: Pair) -> None:
    pair.define()
    assert pair.present(check=True)["changed"] is True
    first = prepared(pair)
    assert pair.present()["changed"] is False and pair.present(check=True)["changed"] is False
    assert pair.entry(pair.here)["mode"] == "full"
    numbers = [first]
    for unused in range(3):
        entry = pair.copy()
        assert entry["mode"] == "incremental" and entry["problem"] is None and entry["age_seconds"] < 120
        numbers.append(written(pair.there, image(pair.copies()[-1]))[0])
    assert sorted(set(numbers)) == numbers, "each copy is later than the one before it"
    kept = pair.copies()
    assert len(kept) == 2
    # the merge of older copies left the content of both as it was
    assert [written(pair.there, image(each))[0] for each in kept] == numbers[-2:]
    assert len(pair.here.ssh("virsh", "checkpoint-list", "--name", VM).split()) == 1
    refused = pair.there.ssh("grep standby-m1 /root/.ssh/authorized_keys")
    assert refused.startswith(f'from="{pair.here.address}",restrict,command=') and "expiry-time" not in refused


def test_lost_server(pair: Pair) -> None:
    prepared(pair)
    pair.copy()
    copied = written(pair.there, image(pair.copies()[-1]))[0]
    lose(pair)
    for given, message in (
        ({}, "no one confirmed"),
        ({"confirmed": "metal2"}, "not the name of the server"),
        ({"confirmed": "metal1", "source": "metal3"}, "not from metal3"),
        ({"confirmed": "metal1", "copy": "20200101T000000Z"}, "verified copy 20200101T000000Z"),
        ({"proof": {"by": "bmc", "state": "on"}}, "reports that it is on"),
    ):
        with pytest.raises(Refused, match=message):
            pair.start(**given)
    assert not pair.there.has(f"{POOL}/{VM}-disk0")
    assert pair.start(confirmed="metal1", check=True)["changed"] is True
    assert not pair.there.has(f"{POOL}/{VM}-disk0")
    begun = time.monotonic()
    done = pair.start(confirmed="metal1")
    print(f"started {time.monotonic() - begun:.1f} s after the confirmation, {done['lost_seconds']} s lost")
    assert done["changed"] is True and runs(pair.there)
    assert pair.start()["changed"] is False
    eventually("it counts", lambda: written(pair.there, f"{POOL}/{VM}-disk0")[0] > copied)
    assert written(pair.there, f"{POOL}/{VM}-disk0")[1] == 2, "it booted from the copy"
    back(pair)
    eventually("the first server knows", pair.here.gave_up, 120)
    assert not runs(pair.here)
    assert "it belongs to metal2" in pair.here.ssh(f"virsh start {VM} 2>&1", check=False)
    assert pair.copy(check=False)["state"] == "taken"
    with pytest.raises(Refused, match="was started on its standby"):
        pair.present()
    assert overlap(pair) == []
    # the way back; a live move has both for a moment, the new one paused
    assert pair.here.call("standby", {"id": VM, "cluster": CLUSTER, "state": "released"})["changed"] is True
    assert pair.here.state(VM) == "gone" and not pair.here.has(f"{POOL}/{VM}-disk0")
    move_back(pair)
    assert runs(pair.here) and not runs(pair.there)
    assert pair.there.call("standby", {"id": VM, "cluster": CLUSTER, "state": "returned"})["changed"] is True
    assert pair.present()["changed"] is True
    eventually("it is copied again", lambda: pair.entry(pair.here)["state"] == "copied", 120)
    assert runs(pair.here) and not runs(pair.there)


def move_back(pair: Pair) -> None:
    """Move the machine from its standby to its first server; it ignores shutdown requests, so live."""
    pair.there.call("standby", {"id": "unused", "cluster": CLUSTER, "state": "returned"})
    key = pair.there.call("move", {"id": VM, "state": "prepared"})["public_key"]
    pair.here.call("key", {"name": VM, "purpose": "move", "state": "present", "public_key": key, "allowed_from": [pair.there.address]})
    keys = pair.here.ssh("cat", "/etc/ssh/ssh_host_ed25519_key.pub").splitlines()
    where = {"host": pair.here.address, "name": pair.here.name, "host_keys": keys}
    done = pair.there.call("move", {"id": VM, "cluster": "standbys", "state": "moved", "destination": where})
    assert done["move"]["state"] == "moved", done
    key = pair.there.call("move", {"id": VM, "state": "prepared"})["public_key"]
    pair.here.call("key", {"name": VM, "purpose": "move", "state": "present", "public_key": key, "allowed_from": [pair.there.address]})
    pair.there.call("move", {"id": VM, "state": "confirmed"})


def test_no_answer_after_a_power_cut_of_both(pair: Pair) -> None:
    prepared(pair)
    lose(pair)
    lab("kill", pair.there.name)
    back(pair)
    time.sleep(15)
    assert not runs(pair.here), "the standby did not answer, so it may run there"
    assert "stays off until" in pair.entry(pair.here)["problem"]
    lab("start", pair.there.name)
    eventually("it starts when the standby confirms", lambda: runs(pair.here), 180)
    eventually("copies continue", lambda: pair.copy(check=False)["state"] == "copied", 120)


@pytest.mark.whole
@pytest.mark.parametrize("phase", PHASES)
def test_killed_worker(pair: Pair, phase: str) -> None:
    prepared(pair)
    pair.here.ssh("cat > /root/killer.py", given=KILLER.encode())
    before = pair.copies()
    pair.here.ssh(f"python3 /root/killer.py {phase} & systemctl start {UNIT}.service; wait", check=False)
    assert set(before) <= set(pair.copies()), "a half copy replaced a good one"
    entry = pair.copy()
    assert entry["problem"] is None
    assert written(pair.there, image(pair.copies()[-1]))[0] > 0
    assert pair.here.ssh(f"virsh domblkinfo {VM} vda >/dev/null; ls {POOL}/.{VM}* 2>/dev/null", check=False) == "", "a scratch file is left"


@pytest.mark.whole
def test_lost_link_is_resumed(pair: Pair) -> None:
    pair.define(disks=2)
    pair.here.ssh(f"qemu-img info -U {POOL}/{VM}-disk1 >/dev/null; dd if=/dev/urandom of={POOL}/{VM}-disk1 bs=1M count=24 conv=notrunc status=none")
    pair.present(bandwidth_limit="2 MiB/s")
    eventually("it copies", lambda: pair.entry(pair.here)["phase"] == "copy", 60)
    # what was sent is flushed every five seconds
    time.sleep(9)
    pair.here.ssh(f"ip route add blackhole {pair.there.address}/32")
    eventually("the copy fails", lambda: pair.entry(pair.here)["state"] == "failed", 120)
    pair.here.ssh(f"ip route del blackhole {pair.there.address}/32")
    entry = pair.copy()
    assert "continues an interrupted copy" in pair.log()
    assert entry["sent_bytes"] < 20 << 20, "all of it was sent again"
    sums = [server.ssh(command).split()[0] for server, command in (
        (pair.here, f"sha256sum {POOL}/{VM}-disk1"),
        (pair.there, f"qemu-img convert -O raw {image(pair.copies()[-1], 'vdb')} /tmp/vdb && sha256sum /tmp/vdb"),
    )]  # fmt: skip
    assert sums[0] == sums[1]


@pytest.mark.whole
def test_raw_disk_is_compared(pair: Pair) -> None:
    prepared(pair, form="raw")
    entry = pair.copy()
    assert entry["mode"] == "compared" and entry["sent_bytes"] <= 1 << 20
    pair.here.ssh("virsh", "destroy", VM)
    assert pair.copy()["mode"] == "compared"
    before = pair.copies()
    pair.copy()
    assert pair.copies() == before, "a machine that is off was copied twice"


@pytest.mark.whole
def test_damaged_copy_is_refused(pair: Pair) -> None:
    prepared(pair)
    lose(pair)
    pair.there.ssh("qemu-io", "-f", "qcow2", "-c", "'write -P 7 512 512'", image(pair.copies()[-1]))
    with pytest.raises(Refused, match="is damaged at byte 0"):
        pair.start(confirmed="metal1")
    assert not pair.there.has(f"{POOL}/{VM}-disk0") and pair.entry(pair.there)["state"] == "receiving"


@pytest.mark.whole
def test_power_cuts(pair: Pair) -> None:
    """Cut the power of the first server at random moments, also during a copy; then start the machine on its standby, or not."""
    prepared(pair)
    chance, lost = random.Random(7), []
    for number in range(CUTS):
        known = pair.copies()
        pair.here.ssh(f"systemctl start --no-block {UNIT}.service")
        time.sleep(chance.uniform(0, 12))
        lose(pair)
        assert set(known[-1:]) <= set(pair.copies()), "a half copy replaced a good one"
        if number % 2:
            back(pair)
            eventually("it starts on its first server", lambda: runs(pair.here), 120)
        else:
            begun = time.monotonic()
            done = pair.start(confirmed="metal1")
            lost.append((round(time.monotonic() - begun, 1), done["lost_seconds"]))
            assert runs(pair.there)
            back(pair)
            eventually("the first server knows", pair.here.gave_up, 120)
            assert not runs(pair.here)
            assert overlap(pair) == []
            pair.here.call("standby", {"id": VM, "cluster": CLUSTER, "state": "released"})
            move_back(pair)
            pair.there.call("standby", {"id": VM, "cluster": CLUSTER, "state": "returned"})
            pair.present()
            for server in (pair.here, pair.there):
                server.ssh("rm -f /root/samples")
        eventually("it is copied", lambda: pair.copy(check=False)["state"] == "copied", 120)
        assert overlap(pair) == []
        print(f"cut {number + 1}: {lost[-1] if not number % 2 else 'back on its first server'}", flush=True)


def test_playbooks(pair: Pair, tmp_path: pathlib.Path) -> None:
    """The way of an operator: spawn_vms, the loss of the server, start_standby, move_vm, spawn_vms."""
    vm = {**machine(), "standby": {"server": "metal2", "interval": 3600}}
    hosts = {name: {"ansible_host": address, "node_roles": ["virt"]} for name, address in ((each.name, each.address) for each in (pair.here, pair.there))}
    hosts["metal1"]["vms"] = [vm]
    text = (current().state / "inventory" / "group_vars" / "all.yml").read_text("utf-8")
    shared = yaml.safe_load(text.replace("{{ inventory_dir }}/..", str(current().state)))
    variables = {**shared, "expert_mode": True, "footprint_cluster": CLUSTER, "virt_guests_allow_emulation": True, "spawn_vms_wait": False}
    inventory = tmp_path / "hosts.yml"

    def write() -> None:
        inventory.write_text(yaml.safe_dump({"all": {"vars": variables, "children": {"virt": {"hosts": hosts}}}}), "utf-8")

    def run(name: str, *more: str, fails: str | None = None) -> int:
        done = play(f"reduced.footprint.{name}", *more, inventory=inventory)
        assert (done.rc != 0) == (fails is not None) and (fails or "") in " ".join(done.output.split()), done.output[-4000:]
        return done.changed

    hosts["metal1"]["vms"] = [{**vm, "standby": "metal1"}]
    write()
    run("spawn_vms", fails="metal1.vms[0].standby: metal1 is the server of the VM itself")
    assert pair.here.state(VM) == "gone", "the error came after the change"
    hosts["metal1"]["vms"] = [vm]
    write()
    assert run("spawn_vms") > 0
    eventually("it is copied", lambda: pair.entry(pair.here)["state"] == "copied", 120)
    assert run("spawn_vms") == 0
    start = ("start_standby", "-e", f"start_standby_id={VM}", "-e", "start_standby_server=metal2")
    run(*start, "-e", "start_standby_confirm=metal1", fails="metal1 answers at")
    lose(pair)
    run(*start, fails="is lost. If metal1 still runs the VM")
    run(*start, "-e", "start_standby_confirm=metal2", fails="'metal2' is not the server whose loss must be confirmed")
    assert not runs(pair.there)
    assert run(*start, "-e", "start_standby_confirm=metal1") > 0
    assert runs(pair.there) and run(*start) == 0
    back(pair)
    eventually("the first server knows", pair.here.gave_up, 120)
    assert not runs(pair.here) and overlap(pair) == []
    move = ("move_vm", "-e", f"move_vm_id={VM}", "-e", "move_vm_source=metal2", "-e", "move_vm_destination=metal1")
    assert run(*move) > 0
    assert runs(pair.here) and not runs(pair.there)
    assert run("spawn_vms") > 0
    eventually("it is copied again", lambda: pair.entry(pair.here)["state"] == "copied", 120)
