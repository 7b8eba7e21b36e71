# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Patch day with instances: two servers with an instance on each, of which one has the only controller, are maintained under clients of both instances.

The figures are recorded in tests/output/controllers/LAB/patch_day.json.
"""

from __future__ import annotations

import contextlib
import time
import typing as t

import pytest
from capture import Capture
from cloud_client import COMPUTE
from cloud_lab import CLOUD, CloudLab
from controllers_lab import notes
from intruder import connects as opens
from rflab import openstack_client
from rflab.plays import PlayRun
from support import eventually
from tenant import Client, Instance, Tenant, connects, resources

pytestmark = pytest.mark.chapter
note = notes("patch_day")
SERVERS = ("metal1", "metal2")
NICS = dict.fromkeys(SERVERS, "br-admin")
GROUPS = {"controller": SERVERS[:1], "virt": SERVERS, "compute": SERVERS}
LIBVIRT, QEMU = 16514, range(49152, 49216)
TLS = "/etc/reduced.footprint/libvirt"
#: An instance is unreachable for this many seconds at most while it is migrated: emulated, on a machine with 2 cores.
MOST = 20


@pytest.fixture(scope="module", autouse=True)
def inventory(lab: CloudLab) -> None:
    """Two servers, the first with a controller."""
    lab.write_inventory({**CLOUD, **resources(lab.net)}, GROUPS, lab.tunnel_addresses(NICS))


def test_two_servers_are_deployed_and_stay(lab: CloudLab, reuse_lab: bool) -> None:
    # the settings of libvirt have two owners
    lab.deploy(NICS, reuse_lab, again=("provision_virt", "provision_compute"))


def test_resources_are_created(lab: CloudLab) -> None:
    lab.succeeds([{"hosts": SERVERS[0], "gather_facts": False, "roles": [{"role": "reduced.footprint.test_image"}]}])
    lab.succeeds("cloud_bootstrap", extra=openstack_client.variables())


@pytest.fixture(scope="module", name="instances")
def fixture_instances(tenant: Tenant) -> dict[str, Instance]:
    """Server → an instance on it that is reached from outside."""
    tenant.remove()
    found = {host: tenant.create(f"on-{host}", host) for host in SERVERS}
    for one in found.values():
        eventually(f"{one.address} answers", lambda one=one: connects(one.address), 300)
    return found


def places(tenant: Tenant, instances: t.Mapping[str, Instance]) -> dict[str, str]:
    """Server → the server on which its instance is now, if that is active."""
    found = {host: tenant.state(one.id) for host, one in instances.items()}
    return {host: state["OS-EXT-SRV-ATTR:host"] for host, state in found.items() if state["status"] == "ACTIVE" and not state["OS-EXT-STS:task_state"]}


@contextlib.contextmanager
def clients(instances: t.Mapping[str, Instance]) -> t.Iterator[dict[str, Client]]:
    """Clients of all instances, which have been reached."""
    with contextlib.ExitStack() as stack:
        found = {host: stack.enter_context(Client(one.address)) for host, one in instances.items()}
        for client in found.values():
            eventually(f"{client.address} is reached", lambda client=client: len(client.reached) > 10, 120)
        yield found


def enabled(tenant: Tenant) -> dict[str, str]:
    """Server → the state of its compute service and the reason."""
    services = tenant.cloud.send(COMPUTE, "/v2.1/os-services?binary=nova-compute", "GET")["services"]
    return {str(one["host"]): f"{one['status']} {one['disabled_reason'] or ''}".strip() for one in services}


def test_an_instance_is_migrated_over_tls_and_reached_meanwhile(lab: CloudLab, tenant: Tenant, instances: dict[str, Instance]) -> None:
    one = instances["metal1"]
    for target in ("metal2", "metal1"):
        # the memory of every guest with Linux contains this text
        with clients({"metal1": one}) as reached, Capture([lab.settings.host_nic(name) for name in SERVERS], b"Linux version ") as heard:
            began = time.monotonic()
            tenant.cloud.send(COMPUTE, f"/v2.1/servers/{one.id}/action", **{"os-migrateLive": {"host": target, "block_migration": "auto"}})
            seconds = eventually("it is there", lambda: places(tenant, {"metal1": one}) == {"metal1": target}, 600)
            eventually("it is reached", lambda: reached["metal1"].since(time.monotonic() - 1) is not None, 60)
            gap = reached["metal1"].gap(began, time.monotonic())
        ports = {port: count for port, count in heard.bytes.items() if port == LIBVIRT or port in QEMU}
        note(f"migrated to {target}", seconds=round(seconds, 1), unreached_seconds=gap, bytes_by_port=ports)
        assert ports[LIBVIRT] > 1000 and sum(ports.values()) > 10 << 20, ports
        assert not heard.seen & set(ports) and gap <= MOST


def test_no_unauthorized_client_reaches_libvirt(lab: CloudLab) -> None:
    """The machine of the tests is not a compute server; nova, and a guest that took over QEMU, are on one."""
    for host in SERVERS:
        listening = lab.run(host, ["ss", "-Hltn"]).splitlines()
        addresses = {line.split()[3] for line in listening}
        assert f"{lab.addresses[host]}:{LIBVIRT}" in addresses
        assert not [one for one in addresses if one.endswith((":16509", f"*:{LIBVIRT}", f"0.0.0.0:{LIBVIRT}", f"]:{LIBVIRT}"))]
        assert not opens(lab.addresses[host], LIBVIRT) and not opens(lab.addresses[host], QEMU[0])
    assert "refused" in lab.ssh("laptop", f"timeout 5 bash -c '</dev/tcp/{lab.addresses['metal2']}/{LIBVIRT}' 2>&1 || true")

    uri = f"qemu+tls://{lab.addresses['metal2']}/system?pkipath={TLS}"
    assert lab.run("metal1", ["virsh", "--connect", uri, "hostname"]).startswith("metal2")
    assert not lab.answers("metal1", ["runuser", "-u", "nova", "--", "virsh", "--connect", uri, "hostname"])
    # libvirtd sends one byte to a client that it accepts
    script = f"(sleep 3) | timeout 20 openssl s_client -quiet -connect {lab.addresses['metal2']}:{LIBVIRT} -cert $0 -key $1 2>/dev/null | wc -c"
    pairs = {"own": (f"{TLS}/clientcert.pem", f"{TLS}/clientkey.pem")}
    pairs["QEMU's"] = ("/etc/pki/qemu/footprint/client-cert.pem", "/etc/pki/qemu/footprint/client-key.pem")
    accepted = {name: lab.run("metal1", ["sh", "-c", script, *files]).strip() for name, files in pairs.items()}
    assert accepted == {"own": "1", "QEMU's": "0"}


@pytest.fixture(name="patch")
def fixture_patch(lab: CloudLab) -> t.Callable[..., PlayRun]:
    """Runs the maintenance with a harmless change instead of upgrades and restarts: one server has the only controller."""
    tasks = lab.state / "patch.yml"
    tasks.write_text("- name: Change something\n  ansible.builtin.command: touch /run/patched\n  changed_when: true\n", "utf-8")

    def run(*arguments: str, **options: t.Any) -> PlayRun:
        variables = {"maintain_virt_node_reboot": False, "maintain_virt_node_tasks": str(tasks), "maintain_virt_node_accept_outage": True}
        variables |= options.pop("variables", {})
        return lab.play("maintain_virt_node", *arguments, variables=variables, extra=openstack_client.variables(), **options)

    return run


def test_an_instance_in_an_error_is_refused_by_name(
    lab: CloudLab, tenant: Tenant, instances: dict[str, Instance], patch: t.Callable[..., PlayRun]
) -> None:
    path = f"/v2.1/servers/{instances['metal2'].id}/action"
    tenant.cloud.send(COMPUTE, path, **{"os-resetState": {"state": "error"}})
    try:
        refused = patch("-e", "maintain_virt_node_servers=metal2", variables={"maintain_virt_node_verify_cloud": False})
    finally:
        tenant.cloud.send(COMPUTE, path, **{"os-resetState": {"state": "active"}})
    assert refused.rc != 0 and "instance on-metal2 is ERROR, and cannot be migrated live" in " ".join(refused.output.split()), refused.output[-3000:]
    assert set(enabled(tenant).values()) == {"enabled"} and "/run/patched" not in lab.run("metal2", ["find", "/run", "-name", "patched"])


def test_a_check_lists_where_each_instance_goes(tenant: Tenant, instances: dict[str, Instance], patch: t.Callable[..., PlayRun]) -> None:
    checked = patch("--check")
    assert checked.rc == 0, checked.output[-4000:]
    for host, other in (SERVERS, SERVERS[::-1]):
        assert f"instance on-{host} is migrated live to {other}, and returns afterwards" in checked.output
    assert places(tenant, instances) == {host: host for host in SERVERS} and set(enabled(tenant).values()) == {"enabled"}


def test_both_servers_are_maintained_while_instances_are_reached(
    lab: CloudLab, tenant: Tenant, instances: dict[str, Instance], patch: t.Callable[..., PlayRun]
) -> None:
    with clients(instances) as reached:
        began = time.monotonic()
        done = patch()
        for host, client in reached.items():
            eventually(f"{host}'s instance is reached", lambda client=client: client.since(time.monotonic() - 1) is not None, 60)
        gaps = {host: client.gap(began, time.monotonic()) for host, client in reached.items()}
    assert done.rc == 0, done.output[-6000:]
    migrations = [line.strip(' ",') for line in done.output.splitlines() if "migrate instance on-" in line]
    note("both servers maintained", seconds=round(done.seconds), unreached_seconds=gaps, migrations=migrations)
    assert len(migrations) == 4 and max(gaps.values()) <= MOST
    # the last instances of others were those of its verifications: before, and after each server
    assert done.output.count("The cloud works") == 3
    assert places(tenant, instances) == {host: host for host in SERVERS} and set(enabled(tenant).values()) == {"enabled"}
    assert all(lab.run(host, ["find", "/run", "-name", "patched"]).strip() for host in SERVERS)
    assert not list(lab.inventory_path.glob(".maintenance-*"))


def test_a_run_that_is_killed_while_it_migrates_is_continued(
    lab: CloudLab, tenant: Tenant, instances: dict[str, Instance], patch: t.Callable[..., PlayRun]
) -> None:
    options = {"variables": {"maintain_virt_node_verify_cloud": False}}
    with clients(instances) as reached:
        began = time.monotonic()
        killed = patch("-e", "maintain_virt_node_servers=metal2", kill_at="TASK [Plan or change what the instances do", kill_delay=6, **options)
        left = {"services": enabled(tenant), "states": {host: tenant.state(one.id)["status"] for host, one in instances.items()}}
        assert killed.rc != 0
        done = patch("-e", "maintain_virt_node_servers=metal2", **options)
        gaps = {host: client.gap(began, time.monotonic()) for host, client in reached.items()}
    note("killed while it migrates", after_kill=left, unreached_seconds=gaps)
    assert done.rc == 0, done.output[-6000:]
    assert places(tenant, instances) == {host: host for host in SERVERS} and set(enabled(tenant).values()) == {"enabled"}


def test_nothing_is_left_to_change(lab: CloudLab, tenant: Tenant) -> None:
    tenant.remove()
    again = lab.succeeds("provision_compute")
    assert again.changed == 0, again.changed_tasks()
