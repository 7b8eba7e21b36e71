# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two servers and a witness: each server has a controller, instances and a gateway, and each machine is lost under clients of instances on both.

The gateway of the router is on one of the servers, ``holder``; ``other`` is the other one. Its instances are reached through the gateway. The figures are
recorded in tests/output/controllers/LAB/compute_servers.json.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
import typing as t

import pytest
from cloud_lab import CLOUD, CloudLab
from controllers_lab import notes
from rflab import openstack_client
from support import eventually
from tenant import Client, Instance, Tenant, connects, resources

pytestmark = pytest.mark.chapter
note = notes("compute_servers")
SERVERS, WITNESS = ("metal1", "metal2"), "metal3"
#: The NIC of tunnels, a bridge on servers.
NICS = {**dict.fromkeys(SERVERS, "br-admin"), WITNESS: "eno1"}
GROUPS = {"controller": SERVERS, "virt": SERVERS, "compute": SERVERS, "witness": [WITNESS]}
#: Seconds for which a failure lasts, and after its end.
LASTS = 60
#: An instance on the other server may be unreachable for this long: tunnels are given up after about five seconds.
MOST = 15
#: A server and its instances are back this long after its power; at load 35 an instance took 7.5 minutes.
RETURNED = 900


@pytest.fixture(scope="module", autouse=True)
def inventory(lab: CloudLab) -> None:
    """Two servers and a witness."""
    lab.write_inventory({**CLOUD, **resources(lab.net)}, GROUPS, lab.tunnel_addresses(NICS))


def test_two_servers_and_a_witness_are_deployed_and_stay(lab: CloudLab, reuse_lab: bool) -> None:
    lab.deploy(NICS, reuse_lab, again=("provision_compute", "deploy_controllers"))


def test_resources_are_created(lab: CloudLab) -> None:
    lab.succeeds([{"hosts": SERVERS[0], "gather_facts": False, "roles": [{"role": "reduced.footprint.test_image"}]}])
    lab.succeeds("cloud_bootstrap", extra=openstack_client.variables())


@pytest.fixture(scope="module", name="instances")
def fixture_instances(lab: CloudLab, tenant: Tenant) -> dict[str, Instance]:
    """Server → an instance on it that is reached from outside."""
    tenant.remove()
    found = {host: tenant.create(f"on-{host}", host) for host in SERVERS}
    reached = {host: round(eventually(f"{host}'s instance answers", lambda one=one: connects(one.address), 300), 1) for host, one in found.items()}
    note("instances", active_seconds={host: one.seconds for host, one in found.items()}, reached_seconds_after=reached)
    return found


def holder(lab: CloudLab, *asked: str) -> str:
    """The server with the gateway, according to the first database that answers."""
    for host in asked or (*SERVERS, WITNESS):
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            sbctl = ["ovn-sbctl", "--no-leader-only", "--timeout=5", "--bare"]
            one = lab.run(host, [*sbctl, "--columns=chassis", "find", "Port_Binding", "type=chassisredirect"]).split()
            if one:
                return lab.run(host, [*sbctl, "get", "Chassis", one[0], "hostname"]).strip().strip('"')
    return ""


def processes(lab: CloudLab, host: str) -> set[str]:
    """The processes of instances on a server."""
    return set(lab.run(host, ["pgrep", "-f", "qemu-system.*guest=instance"], check=False).split())


def whole(lab: CloudLab) -> bool:
    """Whether the status finds nothing degraded or down."""
    return lab.play("status").rc == 0


def through(
    lab: CloudLab, instances: t.Mapping[str, Instance], what: str, fail: t.Callable[[str, str], object], restore: t.Callable[[str, str], object]
) -> dict[str, t.Any]:
    """Let something fail under clients of both instances, and restore it; return and record how long they were not reached."""
    before = holder(lab)
    assert before in SERVERS
    other = next(host for host in SERVERS if host != before)
    running = processes(lab, other)
    with Client(instances[before].address) as here, Client(instances[other].address) as there:
        for client in (here, there):
            eventually(f"{client.address} is reached", lambda client=client: len(client.reached) > 10, 120)
        began = time.monotonic()
        extra = fail(before, other)
        time.sleep(LASTS)
        during = holder(lab, other)
        restored = time.monotonic()
        restore(before, other)
        # recorded at once, in case something does not return
        note(f"{what}, meanwhile", unreached_on_other=there.gap(began, restored), unreached_on_holder=here.gap(began, restored))
        back = eventually("both are reached", lambda: None not in [client.since(restored + LASTS / 2) for client in (here, there)], RETURNED)
        ended = time.monotonic()
    figures: dict[str, t.Any] = {
        "holder": before,
        "other": other,
        "holder_during": during,
        "holder_after": holder(lab),
        "unreached_on_other": there.gap(began, restored),
        "unreached_on_holder": here.gap(began, restored),
        "unreached_on_other_while_restored": there.gap(restored, ended),
        "on_holder_reached_after_restored": here.since(restored),
        "both_reached_after_restored_at_most": round(back, 1),
        # there may be more by now
        "same_processes_on_other": bool(running) and running <= processes(lab, other),
        **(extra if isinstance(extra, dict) else {}),
    }
    note(what, **figures)
    return figures


def test_instances_on_both_servers_are_reached(lab: CloudLab, instances: dict[str, Instance]) -> None:
    assert holder(lab) in SERVERS and all(connects(one.address, 5) for one in instances.values())


def test_a_missed_event_of_a_port_is_repeated(lab: CloudLab, instances: dict[str, Instance]) -> None:
    """A worker of a lost controller would have handled it: the port remains down, although OVN has connected it."""
    port = "FROM neutron.ports WHERE device_owner LIKE 'compute:%' ORDER BY id LIMIT 1"

    def status() -> list[str]:
        return lab.run(SERVERS[0], ["mariadb", "-N", "-e", f"SELECT id, status {port}"]).split()

    name, before = status()
    lab.run(SERVERS[0], ["mariadb", "-e", f"UPDATE neutron.ports SET status = 'DOWN' WHERE id = '{name}'"])
    assert (before, status()) == ("ACTIVE", [name, "DOWN"])
    note("missed event of a port", active_after_seconds=round(eventually("the port is active", lambda: status() == [name, "ACTIVE"], 60), 1))
    assert all(connects(one.address, 5) for one in instances.values())


def test_power_loss_of_the_server_with_the_gateway(lab: CloudLab, tenant: Tenant, instances: dict[str, Instance]) -> None:
    lost = power_loss(lab, tenant, instances, "power loss of the server with the gateway", lambda holds, other: holds)
    assert lost["holder_during"] == lost["other"] and lost["unreached_on_other"] <= MOST and lost["same_processes_on_other"]


def test_power_loss_of_the_server_without_the_gateway(lab: CloudLab, tenant: Tenant, instances: dict[str, Instance]) -> None:
    """Here the instance on the holder continues."""
    lost = power_loss(lab, tenant, instances, "power loss of the server without the gateway", lambda holds, other: other)
    assert lost["holder_during"] in ("", lost["holder"]) and lost["unreached_on_holder"] <= MOST


def power_loss(
    lab: CloudLab, tenant: Tenant, instances: dict[str, Instance], what: str, choose: t.Callable[[str, str], str]
) -> dict[str, t.Any]:
    """Cut the power of a server while clients use both instances; create instances at the beginning and after nova has noticed it."""
    made: dict[str, str] = {}

    def fail(holds: str, other: str) -> dict[str, t.Any]:
        victim = choose(holds, other)
        lab.lose_power(victim)
        began = time.monotonic()
        eventually("an instance is accepted", lambda: bool(made.setdefault("at once", tenant.request("at-once"))), 120)
        accepted = round(time.monotonic() - began, 1)
        noticed = eventually("nova has noticed it", lambda: tenant.computes().get(victim) == "down", 300)
        reported = lab.play("status")
        assert reported.rc != 0 and victim in reported.output
        made["later"] = tenant.request("later")
        eventually("a later instance is active", lambda: tenant.state(made["later"])["status"] == "ACTIVE", 180)
        assert tenant.state(made["later"])["OS-EXT-SRV-ATTR:host"] != victim
        at_once = tenant.state(made["at once"])
        return {
            "accepted_seconds": accepted,
            "noticed_seconds": round(noticed, 1),
            "requested_at_once": f"{at_once['status']} {at_once['OS-EXT-STS:task_state'] or ''} on {at_once['OS-EXT-SRV-ATTR:host']}",
        }

    figures = through(lab, instances, what, fail, lambda holds, other: lab.power_on(choose(holds, other)))
    whole_after = eventually("nothing is degraded", lambda: whole(lab), RETURNED)
    states = {name: tenant.state(one)["status"] for name, one in made.items()}
    note(f"{what}, after it", states=states, not_degraded_after_seconds=round(whole_after, 1), computes=tenant.computes())
    assert all(tenant.state(one.id)["status"] == "ACTIVE" for one in instances.values())
    for name in ("at-once", "later"):
        tenant.remove(name)
    return figures


@contextlib.contextmanager
def dropping(lab: CloudLab) -> t.Iterator[t.Callable[[t.Iterable[str]], None]]:
    """Yield a function that drops the frames which match one of some conditions of nftables, until the end."""
    table = f"footprint_tunnels_{lab.settings.bridge.replace('-', '_')}"

    def drop(conditions: t.Iterable[str]) -> None:
        drops = "".join(f"  {condition} drop\n" for condition in conditions)
        rules = f"table bridge {table}\ndelete table bridge {table}\n"
        rules += f"table bridge {table} {{\n chain forward {{\n  type filter hook forward priority -300;\n{drops} }}\n}}\n"
        subprocess.run(["nft", "-f", "-"], input=rules, encoding="ascii", check=True)

    try:
        yield drop
    finally:
        subprocess.run(["nft", "delete", "table", "bridge", table], check=False, capture_output=True)


def test_tunnels_of_the_gateway_are_cut(lab: CloudLab, instances: dict[str, Instance]) -> None:
    nic = lab.settings.host_nic
    with dropping(lab) as drop:

        def cut(holds: str, _other: str) -> None:
            drop(f'{side} "{nic(holds)}" udp dport 6081' for side in ("iifname", "oifname"))

        lost = through(lab, instances, "tunnels of the server with the gateway cut", cut, lambda *unused: drop(()))
    assert lost["holder_during"] == lost["other"] and lost["unreached_on_other"] <= MOST


def test_link_between_the_servers_is_cut(lab: CloudLab, instances: dict[str, Instance]) -> None:
    """Each server reaches the witness, and clients reach both."""
    nic = lab.settings.host_nic
    with dropping(lab) as drop:

        def cut(holds: str, other: str) -> None:
            drop(f'iifname "{nic(one)}" oifname "{nic(two)}"' for one, two in ((holds, other), (other, holds)))

        lost = through(lab, instances, "link between the servers cut", cut, lambda *unused: drop(()))
    assert lost["same_processes_on_other"]


def test_switch_of_the_gateway_hangs(lab: CloudLab, instances: dict[str, Instance]) -> None:
    def signal(name: str) -> t.Callable[[str, str], object]:
        units = ["ovs-vswitchd", "ovn-controller"]
        return lambda holds, other: lab.run(holds, ["systemctl", "kill", f"--signal={name}", *units])

    lost = through(lab, instances, "Open vSwitch and ovn-controller of the server with the gateway hang", signal("STOP"), signal("CONT"))
    assert lost["holder_during"] == lost["other"] and lost["unreached_on_other"] <= MOST


def test_killed_switch_of_the_gateway(lab: CloudLab, instances: dict[str, Instance]) -> None:
    """It is started again at once."""

    def kill(holds: str, _other: str) -> None:
        lab.run(holds, ["systemctl", "kill", "--signal=KILL", "ovs-vswitchd", "ovn-controller"])

    lost = through(lab, instances, "Open vSwitch and ovn-controller of the server with the gateway killed", kill, lambda *unused: None)
    assert max(lost["unreached_on_other"], lost["unreached_on_holder"]) <= MOST


def test_power_loss_of_the_witness(lab: CloudLab, instances: dict[str, Instance]) -> None:
    lost = through(lab, instances, "power loss of the witness", lambda *unused: lab.lose_power(WITNESS), lambda *unused: lab.power_on(WITNESS))
    assert lost["holder_during"] == lost["holder"]
    assert max(lost["unreached_on_other"], lost["unreached_on_holder"]) <= 3


def test_nothing_is_left_to_change(lab: CloudLab, tenant: Tenant) -> None:
    tenant.remove()
    eventually("nothing is degraded", lambda: whole(lab), RETURNED)
    again = lab.succeeds("provision_compute")
    assert again.changed == 0, again.changed_tasks()
