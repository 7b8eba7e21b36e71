# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks and a machine that the cluster starts by itself: its move for good, and removals, after which nothing starts it any more."""

from __future__ import annotations

import time

import pytest

from lab_bmcs import Controllers
from rflab.plays import play
from rflab.settings import current
from standby_automatic import NOTHING, Operator, check_never_two, copied, forget_samples, running, taken, up
from standby_pair import CLUSTER, POOL, VM, Trio, lab

pytestmark = pytest.mark.chapter

MOVE = ("move_vm", f"move_vm_id={VM}", "move_vm_source=metal1", "move_vm_destination=metal2")
# the machine ignores requests to shut down
REMOVE = ("remove_virt_node_remove_vms=true", "remove_virt_node_force=true", "remove_virt_node_shutdown_timeout=3")
# what must be left of no VM
TRACES = (
    "find /etc/systemd /run/systemd/system -name 'reduced-footprint-standby*'; "
    "ls /etc/corosync/corosync.conf /etc/corosync/authkey /usr/lib/ocf/resource.d/footprint/vm; "
    "systemctl is-active corosync pacemaker corosync-qdevice | grep -v inactive; grep -oE 'reduced.footprint-migrate-standby[^ ]*' /root/.ssh/authorized_keys; "
    "find /etc/reduced.footprint/failover /var/lib/pacemaker/cib /var/lib/reduced.footprint/standby /var/lib/reduced.footprint/standby-ended -type f"
)


@pytest.fixture(scope="module", name="operator")
def fixture_operator(trio: Trio, controllers: Controllers, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    """Plays with an inventory of the test."""
    return Operator(trio, tmp_path_factory.mktemp("operator"), controllers)


def traces(trio: Trio) -> dict[str, list[str]]:
    """Return what is left of automatic starts on both servers."""
    found = {each.name: each.ssh(f"{{ {TRACES}; }} 2>/dev/null", check=False).splitlines() for each in (trio.here, trio.there)}
    return {name: lines for name, lines in found.items() if lines}


def test_move_vm_to_its_standby(trio: Trio, operator: Operator) -> None:
    """Both servers exchange their parts: the machine is moved for good, and started on its first server when the second one is lost."""
    operator.begin()
    assert operator.run(*MOVE) > 0
    assert trio.there.state(VM) == "running" and trio.here.state(VM) == "shut off"
    forget_samples(trio)
    assert operator.run(*MOVE, "move_vm_state=confirmed") > 0
    operator.write(home="metal2", standby="metal1")
    assert operator.run("spawn_vms") > 0
    copied(trio, trio.there)
    lost = time.time()
    lab("kill", trio.there.name)
    print(f"started on the other server after {taken(trio, lost, trio.here):.1f} s")
    up(trio, trio.there)
    check_never_two(trio)
    assert operator.run(*MOVE) > 0
    assert operator.run(*MOVE, "move_vm_state=confirmed") > 0
    assert operator.run("spawn_vms") > 0
    copied(trio, trio.there)


def test_remove_virt_node_of_its_standby_is_refused(trio: Trio, operator: Operator) -> None:
    name = ("remove_virt_node_name=metal1", "remove_virt_node_confirm=metal1")
    operator.run("remove_virt_node", *name, *REMOVE, fails="metal1 would start m1 by itself")
    assert trio.entry(trio.there)["automatic_problem"] is None


def test_remove_virt_node_of_its_server(trio: Trio, operator: Operator) -> None:
    forget_samples(trio)
    name = ("remove_virt_node_name=metal2", "remove_virt_node_confirm=metal2")
    try:
        assert operator.run("remove_virt_node", *name, *REMOVE) > 0
        assert trio.there.state(VM) == "gone" and traces(trio) == {}
        assert operator.run("remove_virt_node", *name, *REMOVE) == 0
        time.sleep(NOTHING)
        assert not running(trio.here)
    finally:
        done = play("reduced.footprint.provision_virt", "--limit", "metal2", inventory=current().state / "inventory")
    assert done.rc == 0, done.output[-4000:]


def test_destroy_environment(trio: Trio, operator: Operator) -> None:
    trio.here.call("standby", {"id": VM, "cluster": CLUSTER, "state": "absent"})
    # the machine was removed with the server to which it had been moved
    trio.here.ssh("rm -f /etc/reduced.footprint/vms/*.json")
    # its disks were kept there
    trio.there.ssh(f"rm -f {POOL}/{VM}-disk*")
    operator.begin()
    forget_samples(trio)
    confirm = (f"destroy_environment_confirm={CLUSTER}", "destroy_environment_force=true", "destroy_environment_shutdown_timeout=3")
    assert operator.run("destroy_environment", *confirm) > 0
    assert traces(trio) == {}
    assert operator.run("destroy_environment", *confirm) == 0
    time.sleep(NOTHING)
    assert [trio.here.state(VM), trio.there.state(VM)] == ["gone", "gone"] and not running(trio.there)
