# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks and a machine that its standby starts by itself: moves, starts by a person, removals, and repeated losses of its server."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from rflab.plays import play
from rflab.settings import current
from standby_automatic import (
    NOTHING, Operator, back, begun, check_never_two, copied, forget_samples, knows, ready, running, taken,
)  # fmt: skip
from standby_pair import CLUSTER, VM, Trio, eventually, lab, sampled
from test_standby import move_back

MOVE = ("move_vm", f"move_vm_id={VM}")
START = ("start_standby", f"start_standby_id={VM}", "start_standby_server=metal2")
CONFIRM = "start_standby_confirm=metal1"
# the machine ignores requests to shut down
REMOVE = ("remove_virt_node_remove_vms=true", "remove_virt_node_force=true", "remove_virt_node_shutdown_timeout=3")
# what must be left of no VM
TRACES = (
    "find /etc/systemd /run/systemd/system -name 'reduced-footprint-standby*'; systemctl list-units --plain --no-legend 'reduced-footprint-standby*'; "
    "systemctl show -p RuntimeWatchdogUSec | grep -v '=0$'; ls /etc/modules-load.d | grep reduced-footprint; "
    "grep -oE 'reduced.footprint-migrate-(standby|takeover)[^ ]*' /root/.ssh/authorized_keys; "
    "ls /var/lib/reduced.footprint/standby-fence; "
    "find /var/lib/reduced.footprint/standby /var/lib/reduced.footprint/standby-watches /var/lib/reduced.footprint/standby-ended -type f"
)
# what a VM that was removed leaves on other servers by intention: copies, and who had which lease
RECORDS = (
    "find /var/lib/reduced.footprint/standby-copies /var/lib/reduced.footprint/standby-leases /run/reduced.footprint/standby-grants -type f "
    "-not -name '*.lock'"
)


@pytest.fixture(name="operator")
def fixture_operator(trio: Trio, tmp_path: pathlib.Path) -> Operator:
    """Plays with an inventory of the test."""
    return Operator(trio, tmp_path)


def lose(trio: Trio) -> float:
    """Cut the power of the first server; returns when."""
    lost = time.time()
    lab("kill", trio.here.name)
    return lost


def armed(trio: Trio) -> bool:
    """Whether the second server would start the machine."""
    return bool(trio.entry(trio.here)["automatic_armed"] and trio.entry(trio.there)["automatic_armed"])


def never_ended(trio: Trio, since: float) -> bool:
    """Whether the machine ran on its first server in all samples."""
    states = {state for at, state in sampled(trio.here) if at > since}
    return states == {"running"} and not running(trio, trio.there)


def traces(trio: Trio, command: str = TRACES) -> dict[str, list[str]]:
    """Return what is left of automatic starts on each machine."""
    found = {each.name: each.ssh(f"{{ {command}; }} 2>/dev/null", check=False).splitlines() for each in (trio.here, trio.there, trio.witness)}
    return {name: lines for name, lines in found.items() if lines}


def returned(trio: Trio, operator: Operator) -> None:
    """Bring the machine back to its first server with playbooks, after which it is automatic again."""
    check_never_two(trio)
    assert operator.run(*MOVE, "move_vm_source=metal2", "move_vm_destination=metal1") > 0
    assert trio.here.state(VM) == "running" and trio.there.state(VM) != "running"
    forget_samples(trio)
    assert operator.run("spawn_vms") > 0
    copied(trio)
    assert operator.run("spawn_vms") == 0
    assert trio.entry(trio.witness)["state"] == "receiving" and not running(trio, trio.there)


def with_watchdog(trio: Trio, operator: Operator) -> None:
    """Create the machine on a server of which systemd believes that it has a watchdog."""
    trio.here.ssh("touch /dev/watchdog0")
    begun(trio, watchdog="required")
    operator.write(standby_watchdog=None)
    assert trio.here.ssh("systemctl show -p RuntimeWatchdogUSec --value").strip() == "20s"


def provision(name: str) -> None:
    """Make a server a virt host again."""
    done = play("reduced.footprint.provision_virt", "--limit", name, inventory=current().state / "inventory")
    assert done.rc == 0, done.output[-4000:]


def test_move_vm_brings_it_back(trio: Trio, operator: Operator) -> None:
    operator.begin()
    print(f"started after {taken(trio, lose(trio)):.0f} s")
    eventually("it is recorded", lambda: trio.entry(trio.there)["phase"] == "running", 60)
    assert trio.entry(trio.there)["taken_over"]
    back(trio)
    eventually("the witness knows", lambda: trio.entry(trio.witness)["state"] == "started", 60)
    # an operator who does not know of the start
    operator.run("spawn_vms", fails="m1 was started on its standby metal2. Move it back with move_vm.")
    assert trio.there.state(VM) == "running" and trio.here.state(VM) == "shut off"
    operator.run("status", fails=None, says="was started on metal2 by itself at")
    returned(trio, operator)


def test_move_vm_to_its_standby(trio: Trio, operator: Operator) -> None:
    """Both servers exchange their parts: the machine is moved for good, and started on its first server when the second one is lost."""
    operator.begin()
    assert operator.run(*MOVE, "move_vm_source=metal1", "move_vm_destination=metal2") > 0
    assert trio.there.state(VM) == "running" and trio.here.state(VM) == "shut off" and not armed(trio)
    forget_samples(trio)
    operator.write(home="metal2", standby="metal1")
    assert operator.run("spawn_vms") > 0
    copied(trio, trio.there, trio.here)
    assert operator.run("spawn_vms") == 0
    assert operator.run(*MOVE, "move_vm_source=metal1", "move_vm_destination=metal2", "move_vm_state=confirmed") > 0
    ready(trio, trio.there, trio.here)
    operator.run("status")
    left = trio.there.ssh("systemctl is-active reduced-footprint-standby-takeover; ls /var/lib/reduced.footprint/standby-watches/*", check=False).split()
    assert left == ["inactive"], "its own server still watches it"
    lost = time.time()
    lab("kill", trio.there.name)
    print(f"started on the other server after {taken(trio, lost, trio.here):.0f} s")
    check_never_two(trio)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_start_by_a_person(trio: Trio, operator: Operator, before: bool) -> None:
    begun(trio)
    operator.write()
    operator.run(*START, CONFIRM, fails="metal1 answers at")
    assert armed(trio)
    ready(trio)
    lost = lose(trio)
    if before:
        assert operator.run(*START, CONFIRM) > 0
        began = running(trio, trio.there)[0] - lost
        print(f"started by a person after {began:.0f} s")
        assert began < 95, "too late to show it"
        time.sleep(max(0.0, NOTHING - (time.time() - lost)))
        assert not trio.entry(trio.there)["taken_over"]
    else:
        print(f"started by itself after {taken(trio, lost):.0f} s")
        eventually("it is recorded", lambda: trio.entry(trio.there)["phase"] == "running", 60)
    # a person who comes too late
    for given in ((), (CONFIRM,)):
        assert operator.run(*START, *given, says=f"{VM} runs on metal2 from the copy") == 0
    assert trio.there.state(VM) == "running"
    back(trio)
    assert trio.here.state(VM) == "shut off"
    check_never_two(trio)
    if before:
        returned(trio, operator)


def test_remove_virt_node_of_its_server(trio: Trio, operator: Operator) -> None:
    with_watchdog(trio, operator)
    since = time.time()
    try:
        operator.run("remove_virt_node", "remove_virt_node_name=metal1", fails="remove_virt_node_confirm")
        # without remove_vms it continues there
        operator.run("remove_virt_node", "remove_virt_node_name=metal1", "remove_virt_node_confirm=metal1")
        assert armed(trio) and never_ended(trio, since)
        assert operator.run("remove_virt_node", "remove_virt_node_name=metal1", "remove_virt_node_confirm=metal1", *REMOVE) > 0
        assert trio.here.state(VM) == "gone" and traces(trio) == {}
        assert operator.run("remove_virt_node", "remove_virt_node_name=metal1", "remove_virt_node_confirm=metal1", *REMOVE) == 0
        time.sleep(NOTHING)
        assert not running(trio, trio.there)
    finally:
        provision("metal1")


def test_remove_virt_node_of_its_standby(trio: Trio, operator: Operator) -> None:
    with_watchdog(trio, operator)
    since = time.time()
    name = ("remove_virt_node_name=metal2", "remove_virt_node_confirm=metal2")
    try:
        operator.run("remove_virt_node", *name, *REMOVE, fails="metal2 would start m1 by itself")
        assert armed(trio)
        operator.write(standby=None)
        assert operator.run("spawn_vms") > 0
        assert traces(trio) == {} and trio.there.name not in traces(trio, RECORDS)
        operator.run("remove_virt_node", *name, *REMOVE)
        time.sleep(40)
        assert never_ended(trio, since), "its leases ended while it was needed"
    finally:
        provision("metal2")


def test_destroy_environment(trio: Trio, operator: Operator) -> None:
    with_watchdog(trio, operator)
    since = time.time()
    operator.run("destroy_environment", fails="destroy_environment_confirm")
    assert armed(trio) and never_ended(trio, since)
    confirm = (f"destroy_environment_confirm={CLUSTER}", "destroy_environment_force=true", "destroy_environment_shutdown_timeout=3")
    assert operator.run("destroy_environment", *confirm) > 0
    ended = running(trio, trio.here)[-1]
    assert traces(trio) == {} and traces(trio, RECORDS) == {}
    assert operator.run("destroy_environment", *confirm) == 0
    time.sleep(max(0.0, NOTHING - (time.time() - ended)))
    assert [trio.here.state(VM), trio.there.state(VM)] == ["gone", "gone"]
    assert not running(trio, trio.there) and running(trio, trio.here)[-1] == ended


def test_replace_server(trio: Trio, operator: Operator) -> None:
    """Its server is destroyed, and another machine takes over the name, after the machine was started by itself."""
    # without its first server the lab is not whole, and would be removed
    operator.write(home="metal2", standby="metal1")
    assert operator.run("spawn_vms") > 0
    copied(trio, trio.there, trio.here)
    home, known = current().state / "metal2", current().state / "known_hosts"
    lost = time.time()
    lab("kill", "metal2")
    taken(trio, lost, trio.here)
    points = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    for point in reversed([each for each in points if each.startswith(f"{home}/")]):
        subprocess.run(["umount", point], check=True)
    shutil.rmtree(home)
    lab("up", "--servers", "2")
    key = (home / "root/etc/ssh/ssh_host_ed25519_key.pub").read_text("ascii").rsplit(" ", 1)[0]
    more = json.dumps({"replace_server_host_key": key, "replace_server_known_hosts": str(known), "replace_server_name": "metal2"})
    operator.run("replace_server", more, fails="replace_server_confirm")
    assert trio.here.state(VM) == "running"
    assert operator.run("replace_server", more, "replace_server_confirm=metal2", says="m1 was started on its standby metal1") > 0
    # without what the tests have placed on the earlier one
    trio = Trio()
    assert trio.there.state(VM) == "running" and trio.here.state(VM) != "running"
    copied(trio, trio.there, trio.here)
    assert operator.run("replace_server", more) == 0
    # the new machine has no base images yet
    assert operator.run("spawn_vms") > 0
    assert operator.run("spawn_vms") == 0
    assert trio.entry(trio.there)["automatic_armed"] and trio.entry(trio.here)["automatic_armed"]


def test_cuts(trio: Trio, whole: bool) -> None:
    """Cut the power of the first server, and its links to both others, in turn; the number is that of STANDBY_CUTS."""
    begun(trio, interval_seconds=60)
    rows = []
    for number in range(int(os.environ.get("STANDBY_CUTS", "10" if whole else "1"))):
        lost = time.time()
        if number % 2:
            trio.split((trio.here, trio.there), (trio.here, trio.witness))
        else:
            lab("kill", trio.here.name)
        started = taken(trio, lost)
        eventually("it is recorded", lambda: trio.entry(trio.there)["phase"] == "running", 60)
        eventually("the witness knows", lambda: trio.entry(trio.witness)["state"] == "started", 60)
        if number % 2:
            trio.join()
            knows(trio.here)
        else:
            back(trio)
        check_never_two(trio)
        ended = running(trio, trio.here)[-1] - lost
        kind = "links" if number % 2 else "power"
        killed = f"{ended:.1f} s" if number % 2 else "–"
        rows.append(f"| {kind} | {killed} | {started:.1f} s | {trio.start()['lost_seconds']:.0f} s |")
        print(f"cut {number + 1}: {rows[-1]}", flush=True)
        trio.here.call("standby", {"id": VM, "cluster": CLUSTER, "state": "released"})
        move_back(trio)
        for server in (trio.witness, trio.there):
            server.call("standby", {"id": VM, "cluster": CLUSTER, "state": "returned"})
        forget_samples(trio)
        trio.automatic(interval_seconds=60)
        copied(trio)
        assert not running(trio, trio.there)
    print("| cut | killed after | started after | age of the copy |", *rows, sep="\n")
