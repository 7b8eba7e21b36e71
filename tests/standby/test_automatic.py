# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster of two servers starts a machine by itself: only when its server was really fenced, from the valid disks, and never twice.

The servers are fenced by their management controllers, which are emulated; the power of the lab is behind them.
"""

from __future__ import annotations

import time

import pytest

from lab_bmcs import Controllers
from standby_automatic import NOTHING, Operator, check_never_two, copied, forget_samples, knows, logs, ready, running, taken, up
from standby_pair import CLUSTER, VM, Server, Trio, eventually, lab, sampled

pytestmark = pytest.mark.chapter

OWNER = "crm_attribute -t crm_config -n footprint-owner-m1 -q -G"
START = ("start_standby", f"start_standby_id={VM}", "start_standby_server=metal2")


@pytest.fixture(scope="module", name="operator")
def fixture_operator(trio: Trio, controllers: Controllers, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    """Plays with an inventory of the test."""
    return Operator(trio, tmp_path_factory.mktemp("operator"), controllers)


def only_on(server: Server, other: Server, since: float) -> bool:
    """Whether the machine ran on one server in all samples, and never on the other one."""
    states = {state for at, state in sampled(server) if at > since}
    return states == {"running"} and not [at for at in running(other) if at > since]


def joined(trio: Trio, name: str) -> None:
    """Wait until a server is in the cluster."""
    other = trio.there if name == trio.here.name else trio.here
    eventually(f"{name} has joined the cluster", lambda: name in other.ssh("crm_mon -1 -r | grep Online:", check=False), 180)


def fenced(controllers: Controllers, since: int) -> set[str]:
    """Return the servers whose power was changed."""
    return {line.split()[1] for line in controllers.powered()[since:]}


def move_back(trio: Trio, operator: Operator, *, late: bool = False) -> None:
    """Bring the machine back to its first server with playbooks, after which it is automatic again.

    :arg late: confirm it after the next copy.
    """
    check_never_two(trio)
    move = ("move_vm", f"move_vm_id={VM}", "move_vm_source=metal2", "move_vm_destination=metal1")
    assert operator.run(*move) > 0
    assert trio.here.state(VM) == "running" and trio.there.state(VM) != "running"
    if late:
        assert operator.run("spawn_vms") > 0
        eventually("it is copied", lambda: trio.entry(trio.here)["state"] == "copied", 180)
        assert "the move of m1 to metal1 is not confirmed" in trio.entry(trio.here)["automatic_problem"]
        operator.run("status", fails="move_vm_state=confirmed")
    assert operator.run(*move, "move_vm_state=confirmed") > 0
    forget_samples(trio)
    assert (operator.run("spawn_vms") == 0) == late
    trio.copy()
    copied(trio)
    assert trio.here.ssh(OWNER).strip() == "metal1"


def test_what_cannot_be_fenced_is_refused(trio: Trio, operator: Operator) -> None:
    operator.write(standby_witnesses=None)
    operator.run("spawn_vms", fails="metal1.vms[0].standby.automatic: m1 needs at least one witness")
    operator.write(bmcs=["metal1"])
    operator.run("spawn_vms", fails="metal1.vms[0].standby.automatic: metal2 has no bmc in the inventory, and metal1 and metal2 no hardware watchdog")
    assert trio.here.state(VM) == "gone", "the error came after the change"


def test_it_is_deployed(trio: Trio, operator: Operator) -> None:
    operator.begin()
    assert operator.run("spawn_vms") == 0
    assert operator.run("spawn_vms", "--check", "--diff") == 0
    assert "WaitForAll" in trio.here.ssh("corosync-quorumtool -s", check=False) and trio.here.ssh(OWNER).strip() == "metal1"
    operator.run("status")


def test_stops_on_purpose_start_nothing_elsewhere(trio: Trio, operator: Operator) -> None:
    # a server that is shut down keeps its machine, which ignores the request
    lab("stop", trio.here.name)
    time.sleep(NOTHING)
    assert not running(trio.there), logs(trio)
    lab("start", trio.here.name)
    up(trio, trio.here)
    eventually("it starts again", lambda: trio.here.state(VM) == "running", 180)
    ready(trio)
    # one that crashes is restarted where it was
    trio.here.ssh(f"kill -9 $(cat /run/libvirt/qemu/{VM}.pid)")
    eventually("it is restarted", lambda: trio.here.state(VM) == "running", 60)
    # during a move nothing is started, and it begins again with the copies
    assert trio.here.call("standby", {"id": VM, "cluster": CLUSTER, "state": "paused"})["changed"]
    trio.here.ssh(f"virsh destroy {VM}")
    time.sleep(15)
    assert trio.here.state(VM) == "shut off" and "for a move" in trio.entry(trio.here)["automatic_problem"]
    trio.here.ssh(f"virsh start {VM}")
    # a move begins within two minutes after the pause
    eventually("it is copied again", lambda: trio.copy(check=False)["automatic_problem"] is None, 300)
    assert not running(trio.there)


def test_the_link_between_the_servers_is_cut(trio: Trio, controllers: Controllers) -> None:
    since, before = time.time(), len(controllers.powered())
    trio.split((trio.here, trio.there))
    eventually("the other server is fenced", lambda: "metal2" in fenced(controllers, before), 90)
    trio.join()
    up(trio, trio.there)
    ready(trio)
    assert only_on(trio.here, trio.there, since) and fenced(controllers, before) == {"metal2"}, logs(trio)


def test_the_witness_is_cut_off(trio: Trio, controllers: Controllers) -> None:
    since, before = time.time(), len(controllers.powered())
    trio.split((trio.here, trio.witness), (trio.there, trio.witness))
    eventually("it is reported", lambda: "the witness does not vote" in (trio.entry(trio.here)["automatic_problem"] or ""), 120)
    trio.join()
    ready(trio)
    assert only_on(trio.here, trio.there, since) and not fenced(controllers, before), logs(trio)


def test_the_witness_is_lost(trio: Trio) -> None:
    since = time.time()
    lab("kill", trio.witness.name)
    try:
        eventually("it is reported", lambda: "the witness does not vote" in (trio.entry(trio.here)["automatic_problem"] or ""), 120)
        assert only_on(trio.here, trio.there, since)
        # without a majority nothing is started
        lab("kill", trio.here.name)
        time.sleep(NOTHING)
        assert not running(trio.there), logs(trio)
    finally:
        lab("start", trio.witness.name)
    # after that, not before all three have been seen again
    time.sleep(NOTHING)
    assert not running(trio.there), logs(trio)
    lab("start", trio.here.name)
    up(trio, trio.here)
    eventually("it starts where its disks are", lambda: trio.here.state(VM) == "running", 180)
    ready(trio)
    assert not running(trio.there)


def test_power_cut(trio: Trio, controllers: Controllers) -> None:
    before, lost = len(controllers.powered()), time.time()
    lab("kill", trio.here.name)
    print(f"started {taken(trio, lost):.1f} s after the loss of power")
    eventually("it is recorded", lambda: trio.entry(trio.there)["phase"] == "running", 60)
    assert trio.there.ssh(OWNER).strip() == "metal2"
    # the fencing switches it on again
    up(trio, trio.here)
    assert fenced(controllers, before) == {"metal1"}
    joined(trio, "metal1")
    knows(trio.here)
    assert trio.here.state(VM) == "shut off" and trio.there.state(VM) == "running"
    assert "must not run here" in trio.here.ssh(f"virsh start {VM} 2>&1", check=False)
    check_never_two(trio)


def test_the_first_server_is_not_preferred(trio: Trio, controllers: Controllers) -> None:
    """Who runs the machine keeps the vote, also if it is not the first server in the list."""
    joined(trio, "metal1")
    since, before = time.time(), len(controllers.powered())
    trio.split((trio.here, trio.there))
    eventually("the first server is fenced", lambda: "metal1" in fenced(controllers, before), 90)
    trio.join()
    up(trio, trio.here)
    joined(trio, "metal1")
    assert only_on(trio.there, trio.here, since) and fenced(controllers, before) == {"metal1"}
    # it is restarted there, because the first server has old disks
    trio.there.ssh(f"kill -9 $(cat /run/libvirt/qemu/{VM}.pid)")
    eventually("it is restarted", lambda: trio.there.state(VM) == "running", 60)
    assert not [at for at in running(trio.here) if at > since]


def test_cold_start(trio: Trio) -> None:
    """After both servers were off, the one with the valid disks starts the machine, also if the other one is switched on first."""
    trio.split((trio.here, trio.there), (trio.here, trio.witness), (trio.there, trio.witness))
    for server in (trio.there, trio.here):
        lab("kill", server.name)
    trio.join()
    since = time.time()
    lab("start", trio.here.name)
    up(trio, trio.here)
    time.sleep(NOTHING)
    assert not [at for at in running(trio.here) if at > since], logs(trio)
    lab("start", trio.there.name)
    up(trio, trio.there)
    eventually("the server with the valid disks starts it", lambda: trio.there.state(VM) == "running", 180)
    joined(trio, "metal1")
    time.sleep(5)
    assert not [at for at in running(trio.here) if at > since] and trio.here.ssh(OWNER).strip() == "metal2"


def test_the_way_back(trio: Trio, operator: Operator) -> None:
    entry = trio.entry(trio.there)
    assert entry["taken_over"] and entry["phase"] == "running"
    operator.run("spawn_vms", fails="m1 was started on its standby metal2. Move it back with move_vm.")
    operator.run("status", says="was started on metal2 by itself at")
    move_back(trio, operator, late=True)
    assert operator.run("spawn_vms") == 0


def test_dead_controllers(trio: Trio, operator: Operator, controllers: Controllers) -> None:
    """Nothing starts until a person states that the server is off; start_standby checks the name, and that it does not answer."""
    operator.run(*START, "start_standby_confirm=metal1", fails="metal1 answers at")
    controllers.__exit__()
    try:
        lost = time.time()
        lab("kill", trio.here.name)
        time.sleep(NOTHING)
        assert not running(trio.there), logs(trio)
        operator.run(*START, "start_standby_confirm=metal2", fails="is not the server whose loss must be confirmed")
        operator.run(*START, "start_standby_confirm=metal1")
        print(f"started by a person {running(trio.there)[0] - lost:.0f} s after the loss")
        eventually("the cluster knows", lambda: trio.there.ssh(OWNER, check=False).strip() == "metal2", 60)
    finally:
        controllers.__enter__()
    lab("start", trio.here.name)
    up(trio, trio.here)
    knows(trio.here)
    joined(trio, "metal1")
    assert trio.here.state(VM) == "shut off" and trio.there.state(VM) == "running"
    move_back(trio, operator)


def test_its_server_is_cut_off(trio: Trio, controllers: Controllers) -> None:
    before, lost = len(controllers.powered()), time.time()
    trio.split((trio.here, trio.there), (trio.here, trio.witness))
    print(f"started {taken(trio, lost):.1f} s after the cut")
    trio.join()
    up(trio, trio.here)
    joined(trio, "metal1")
    check_never_two(trio)
    assert trio.there.state(VM) == "running" and trio.here.state(VM) == "shut off" and fenced(controllers, before) == {"metal1"}


def test_it_ends(trio: Trio, operator: Operator) -> None:
    move_back(trio, operator)
    since = time.time()
    operator.write(automatic=False)
    assert operator.run("spawn_vms") > 0
    for server in (trio.here, trio.there):
        assert server.ssh("systemctl is-active pacemaker corosync", check=False).split() == ["inactive", "inactive"]
        assert not server.has("/etc/corosync/corosync.conf")
    assert operator.run("spawn_vms") == 0
    assert only_on(trio.here, trio.there, since)
