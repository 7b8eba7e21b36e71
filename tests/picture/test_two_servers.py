# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cloud of `make demo CLOUD=1`: after the demo each of its machines is lost under clients, then all, both servers are maintained with instances, a
third server replaces the witness, and the other way round.

The figures are recorded in tests/output/picture.json.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
import types
import typing as t

import pytest
from messages import Messages, install
from rflab import openstack_client, tunnels
from rflab.cloud_clients import Cloud
from rflab.picture import THIRD, TUNNELS, Inventory
from rflab.plays import REPOSITORY
from rflab.under_clients import UnderClients
from support import Lab, eventually

pytestmark = [pytest.mark.chapter, pytest.mark.whole]
SERVERS, WITNESS = ("metal1", "metal2"), "laptop"
#: The machine's name in the inventory, once it is the witness.
KNOWN_AS = {WITNESS: "witness1"}
OUTPUT = REPOSITORY / "tests" / "output"
#: Seconds for which a machine has no power, until everything answers again afterwards, and until nothing is degraded.
LASTS, RETURNED, WHOLE = 30, 900, 900
#: Seconds for which what still runs may not answer, and an instance that is migrated.
MOST, MIGRATED = 30, 30
#: A controller and a witness for some time, which make the number of votes even.
LEAVES = ("-e", "footprint_witness_leaves=true")


@pytest.fixture(scope="module", name="cloud")
def fixture_cloud(lab: Lab) -> Cloud:
    """The administrator of the cloud."""
    return Cloud(lab.settings, lab.state / "inventory")


def addresses(cloud: Cloud) -> dict[str, str]:
    """Instance → its floating address."""
    found = {}
    for server in cloud.connection.compute.servers():
        every = [each for network in server.addresses.values() for each in network]
        found[server.name] = next(each["addr"] for each in every if each["OS-EXT-IPS:type"] == "floating")
    return found


def note(what: str, **figures: t.Any) -> None:
    """Record figures for the report."""
    path = OUTPUT / "picture.json"
    there = json.loads(path.read_text("utf-8")) if path.exists() else {}
    figures["load"] = os.getloadavg()[0]
    path.write_text(json.dumps({**there, what: figures}, indent=2) + "\n", "utf-8")
    print(json.dumps({what: figures}, indent=2))


def whole(lab: Lab) -> bool:
    """Whether the status finds nothing degraded or down."""
    return lab.play("status").rc == 0


def running(lab: Lab) -> dict[str, set[str]]:
    """Server → the UUIDs of the VMs that run on it, of both owners."""
    uris = ("lxc:///", "qemu:///system")
    return {name: {one for uri in uris for one in lab.ssh(name, "virsh", "--quiet", "--connect", uri, "list", "--uuid").split()} for name in SERVERS}


def lose(lab: Lab, cloud: Cloud, *machines: str) -> dict[str, float]:
    """Cut the power of machines under clients for some time; return the longest times without an answer meanwhile, when all is as before."""
    before = running(lab)
    title = " and ".join(machines)
    with UnderClients(lab.settings, cloud, addresses(cloud), "lost_" + "_".join(machines)) as clients:
        cut = time.monotonic()
        kills = [subprocess.Popen([str(REPOSITORY / "lab" / "lab"), "kill", name], stdout=subprocess.DEVNULL) for name in machines]
        codes = [each.wait(timeout=60) for each in kills]
        assert not any(codes), codes
        status = lab.play("status")
        assert status.rc != 0 and all(KNOWN_AS.get(name, name) in status.output for name in machines), status.output[-4000:]
        time.sleep(max(0.0, cut + LASTS - time.monotonic()))
        on = time.monotonic()
        for name in machines:
            # the address of the laptop has the VM of the master
            lab.command("start", name, "--no-wait")
        for name in clients.watches:
            eventually(f"{name} is reached", lambda name=name: clients.reached_since(name, on), RETURNED)
        eventually("nothing is degraded", lambda: whole(lab), WHOLE)
        end = time.monotonic()
    during, after = clients.gaps(cut, on), clients.gaps(on, end)
    lost = clients.contradictions()
    figures = {"status_seconds": status.seconds, "unreached": during, "unreached_with_power_again": after, "whole_after": end - on}
    note(f"{title} without power", **figures, acknowledged=len(clients.sql.acknowledged()), lost=lost)
    assert not lost
    assert running(lab) == before
    return {name: max(seconds, after[name]) for name, seconds in during.items()}


def test_demo(lab: Lab, reuse_lab: bool) -> None:
    """All but the following: deployed, the master moved, a second run, the loss of the server with the master."""
    if reuse_lab:
        return
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with (OUTPUT / "picture-demo.log").open("w", encoding="utf-8") as log:
        demo = [sys.executable, str(REPOSITORY / "lab" / "demo-cloud")]
        done = subprocess.run(demo, env={**os.environ, "KEEP": "1"}, stdout=log, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, (OUTPUT / "picture-demo.log").read_text("utf-8")[-4000:]


def test_the_master_returns_to_its_server(lab: Lab) -> None:
    where = ("-e", "move_vm_id=master", "-e", "move_vm_source=metal2", "-e", "move_vm_destination=metal1")
    lab.succeeds("move_vm", *where)
    lab.succeeds("spawn_vms")
    assert lab.health()
    # otherwise its standby could not start it
    lab.succeeds("move_vm", *where, "-e", "move_vm_state=confirmed")
    eventually("nothing is degraded", lambda: whole(lab), WHOLE)


def test_power_loss_of_the_server_without_the_master(lab: Lab, cloud: Cloud) -> None:
    lost = lose(lab, cloud, "metal2")
    assert max(lost[name] for name in ("SQL", "API", "master", "on-metal1")) <= MOST, lost


def test_power_loss_of_the_witness(lab: Lab, cloud: Cloud) -> None:
    lost = lose(lab, cloud, WITNESS)
    assert max(lost.values()) <= MOST, lost


def test_power_loss_of_all_machines(lab: Lab, cloud: Cloud) -> None:
    """All return without a person."""
    lose(lab, cloud, *SERVERS, WITNESS)


def test_both_servers_are_maintained_with_their_instances(lab: Lab, cloud: Cloud) -> None:
    before = cloud.states()
    with UnderClients(lab.settings, cloud, addresses(cloud), "maintained") as clients:
        began = time.monotonic()
        done = lab.play("maintain_virt_node", "-e", "maintain_virt_node_reboot=false", extra=openstack_client.variables())
        end = time.monotonic()
    gaps, lost = clients.gaps(began, end), clients.contradictions()
    note("both servers maintained", seconds=round(done.seconds), unreached=gaps, acknowledged=len(clients.sql.acknowledged()), lost=lost)
    assert done.rc == 0, done.output[-6000:]
    assert not lost and cloud.states() == before
    assert max(gap for name, gap in gaps.items() if name != "master") <= MIGRATED, gaps


def test_nothing_is_left_to_change(lab: Lab) -> None:
    again = lab.succeeds("site", extra=openstack_client.variables())
    assert again.changed == 0, again.changed_tasks()
    assert whole(lab)


def change(lab: Lab, cloud: Cloud, title: str, *runs: tuple[str, tuple[str, ...]]) -> None:
    """Run playbooks under clients of the database, the API, the queue, the instances and the master; note the longest times without an answer."""
    install()
    members = {f"controller{number}": lab.address(f"controller{number}") for number in (1, 2)}
    of_queue = types.SimpleNamespace(
        state=lab.state, inventory_path=lab.state / "inventory", addresses=members, run=lambda name, argv: lab.ssh(members[name], shlex.join(argv))
    )
    queue = Messages(of_queue, f"{title}-{time.time_ns()}", list(members))
    queue.start()
    seconds: dict[str, int] = {}
    try:
        with UnderClients(lab.settings, cloud, addresses(cloud), title) as clients:
            began, since = time.monotonic(), time.time()
            for name, arguments in runs:
                seconds[name] = round(lab.succeeds(name, *arguments, extra=openstack_client.variables()).seconds)
            end, until = time.monotonic(), time.time()
    finally:
        queue.stop()
    gaps = {**clients.gaps(began, end), "queue": queue.pause(since, until)}
    lost, messages = clients.contradictions(), queue.lost()
    counts = {"acknowledged": len(clients.sql.acknowledged()), "lost": lost, "confirmed_messages": len(queue.confirmed()), "lost_messages": messages}
    note(title, seconds=seconds, unreached=gaps, **counts)
    assert not lost and not messages
    # its VM stays where it is
    assert max(gaps.values()) <= MOST, gaps


def votes(lab: Lab) -> list[int]:
    """Return the number of votes that each controller sees in the cluster of the database."""
    statement = "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'"
    command = shlex.join(["mariadb", "--batch", "--skip-column-names", "--execute", statement])
    return [int(lab.ssh(lab.address(name), command).split()[1]) for name in lab.inventory()["controller"]["hosts"]]


def as_deployed(lab: Lab) -> None:
    """Check that nothing is degraded, and that a deployment changes nothing."""
    eventually("nothing is degraded", lambda: whole(lab), WHOLE)
    report = lab.status()
    assert report["ha_grade"] == "quorum", report["lines"]
    for name in ("deploy_controllers", "provision_compute"):
        again = lab.succeeds(name)
        assert again.changed == 0, again.changed_tasks()


def test_a_third_server_replaces_the_witness(lab: Lab, cloud: Cloud) -> None:
    # it writes the inventory of the lab again
    lab.command("up", "--servers", "3")
    inventory, three = Inventory(lab.settings), (*SERVERS, THIRD)
    inventory.write(three)
    inventory.add_witness()
    address = tunnels.variables(TUNNELS[THIRD])["ovn_chassis_address"]
    tunnels.place("br-admin", address, lambda argv, stdin="": lab.ssh(THIRD, shlex.join(argv), stdin=stdin))
    left = KNOWN_AS[WITNESS]
    removal = (*LEAVES, "-e", f"remove_controller_name={left}", "-e", f"remove_controller_confirm={left}")
    change(lab, cloud, "third_server", ("provision_virt", ()), ("spawn_vms", ()), ("deploy_controllers", LEAVES), ("remove_controller", removal))
    assert votes(lab) == [3, 3, 3]
    # until then it would be a chassis, which OVN's databases do not admit any more
    inventory.change(left, roles=[])
    lab.succeeds("provision_compute")
    as_deployed(lab)
    where, active, login = cloud.create_instance(f"on-{THIRD}", THIRD)
    note("instance on the third server", address=where, active=active, login=login)


def test_a_witness_replaces_the_third_controller(lab: Lab, cloud: Cloud) -> None:
    cloud.connection.delete_server(f"on-{THIRD}", wait=True, delete_ips=True)
    Inventory(lab.settings).change(KNOWN_AS[WITNESS], roles=["witness"])
    left = "controller3"
    removal = (*LEAVES, "-e", f"remove_controller_name={left}", "-e", f"remove_controller_confirm={left}")
    change(lab, cloud, "third_server_leaves", ("deploy_controllers", LEAVES), ("remove_controller", removal))


def test_the_third_server_is_removed(lab: Lab, cloud: Cloud) -> None:
    more = [f"remove_virt_node_{name}" for name in (f"name={THIRD}", f"confirm={THIRD}", "remove_vms=true", "migrate_instances=true")]
    lab.succeeds("remove_virt_node", *(word for each in more for word in ("-e", each)), extra=openstack_client.variables())
    Inventory(lab.settings).remove(THIRD)
    for service in cloud.connection.compute.services(host=THIRD):
        cloud.connection.compute.delete_service(service)
    for agent in cloud.connection.network.agents(host=THIRD):
        cloud.connection.network.delete_agent(agent)
    assert votes(lab) == [3, 3]
    # the controllers' allow-lists forget the server
    for name in ("deploy_controllers", "provision_compute"):
        lab.succeeds(name)
    as_deployed(lab)
