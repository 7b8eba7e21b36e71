# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes on the disk of a server with its own kernel: created, attached by iSCSI, written, there after the power of the server was cut, removed."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import typing as t

import pytest
from cloud_client import VOLUMES, Cloud
from cloud_lab import CLOUD, SERVICES, CloudLab
from disk_server import DiskServer
from support import eventually

from tests.support import leftovers

pytestmark = pytest.mark.chapter
GROUP = "cinder-volumes"
ROLE = [{"hosts": "compute", "gather_facts": False, "roles": [{"role": "reduced.footprint.cinder_volume"}]}]
SETTINGS = {
    **CLOUD,
    "footprint_components": ["galera", "rabbitmq", "memcached", "load_balancer", "keystone", "glance", "cinder"],
    "cinder_group": "controller",
    "cinder_volume_backends": {"local": {"type": "lvm", "volume_group": GROUP}},
    "cinder_volume_wait_timeout": 600,
    # each command of cinder-volume is a new process, of which the kernel of the server starts few per second
    "cinder_settings": {"DEFAULT": {"rpc_response_timeout": 300}},
}
MIB = 1 << 20
IQN = "iqn.2010-10.org.openstack:volume-"
#: What Nova does on a compute server: the properties of its connector, the volume attached, detached.
CONNECTOR = """
import json, sys
from oslo_config import cfg
import os_brick
from os_brick.initiator import connector
cfg.CONF([], project="brick")
os_brick.setup(cfg.CONF)
cfg.CONF.set_override("lock_path", "/run", group="os_brick")
if sys.argv[1] == "properties":
    print(json.dumps(connector.get_connector_properties("sudo", sys.argv[2], False, False)))
else:
    data = json.loads(sys.argv[2])
    one = connector.InitiatorConnector.factory("ISCSI", "sudo", use_multipath=False)
    if sys.argv[1] == "attach":
        print(one.connect_volume(data)["path"])
    else:
        one.disconnect_volume(data, None)
"""


class Volumes:
    """Volumes of the cloud, and their attachments to the server itself."""

    def __init__(self, cloud: Cloud, server: DiskServer) -> None:
        self.cloud, self.server = cloud, server
        self.server.ssh("cat > /root/connector.py", stdin=CONNECTOR)

    def state(self, volume: str) -> str:
        """Return the state of a volume, nothing if there is none."""
        found = self.cloud.send(VOLUMES, "/v3/volumes/detail", "GET")["volumes"]
        return next((str(one["status"]) for one in found if one["id"] == volume), "")

    def create(self, **more: t.Any) -> str:
        """Create a volume of 1 GiB and return its ID."""
        volume = str(self.cloud.send(VOLUMES, "/v3/volumes", volume={"size": 1, "volume_type": "local", **more})["volume"]["id"])
        eventually(f"{volume} has been created", lambda: self.state(volume) not in ("creating", "downloading"), 900)
        assert self.state(volume) == "available", self.server.says("journalctl -u cinder-volume --no-pager -n 100")
        return volume

    def remove(self, volume: str) -> None:
        """Remove a volume."""
        self.cloud.ask(VOLUMES, f"/v3/volumes/{volume}", "DELETE")
        eventually(f"{volume} is removed", lambda: self.state(volume) != "deleting", 600)
        assert self.state(volume) == ""

    def brick(self, *words: str) -> str:
        """Let os-brick act on the server."""
        return self.server.says(shlex.join(["python3", "/root/connector.py", *words]))

    def reserve(self, volume: str) -> tuple[str, dict[str, t.Any]]:
        """Let the server attach a volume; return the ID of the attachment, and how the server connects to it."""
        properties = json.loads(self.brick("properties", self.server.address))
        made = self.cloud.send(VOLUMES, "/v3/attachments", timeout=300, attachment={"volume_uuid": volume, "connector": properties})["attachment"]
        return str(made["id"]), made["connection_info"]

    def attach(self, volume: str) -> tuple[str, dict[str, t.Any], str]:
        """Attach a volume; return the ID of the attachment, how the server connects to it, and the path of its disk."""
        attachment, info = self.reserve(volume)
        return attachment, info, self.brick("attach", json.dumps(info))

    def detach(self, attachment: str, info: t.Mapping[str, t.Any]) -> None:
        """Detach a volume."""
        self.brick("detach", json.dumps(info))
        self.cloud.ask(VOLUMES, f"/v3/attachments/{attachment}", "DELETE")


def write_inventory(lab: CloudLab, server: DiskServer, *computes: str) -> None:
    """Write an inventory with one controller and the server, and more compute servers."""
    # its kernel has no packet filter for both versions of IP
    ssh = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    own = {"ansible_host": server.address, "ansible_ssh_common_args": ssh, "footprint_allow_list": False}
    lab.write_inventory(SETTINGS, {"controller": [SERVICES], "compute": [server.name, *computes]}, {server.name: own})


@pytest.fixture(scope="module", name="server")
def fixture_server(lab: CloudLab) -> t.Iterator[DiskServer]:
    """The server with the disk, a member of the group compute in an inventory with one controller."""
    with leftovers.folder("rfdisk") as folder, DiskServer(lab.settings, folder) as server:
        write_inventory(lab, server)
        yield server


@pytest.fixture(scope="module", name="volumes")
def fixture_volumes(lab: CloudLab, server: DiskServer) -> Volumes:
    """The volumes, after a type has been created."""
    cloud = Cloud(lab)
    if not any(one["name"] == "local" for one in cloud.send(VOLUMES, "/v3/types", "GET")["volume_types"]):
        cloud.send(VOLUMES, "/v3/types", volume_type={"name": "local", "extra_specs": {"volume_backend_name": "local"}})
    return Volumes(cloud, server)


def test_controller_is_deployed(lab: CloudLab, server: DiskServer, reuse_lab: bool) -> None:
    if not reuse_lab:
        lab.succeeds("deploy_controllers")


def test_server_without_the_volume_group_is_refused(lab: CloudLab, server: DiskServer) -> None:
    done = lab.play(ROLE)
    assert done.rc != 0 and done.changed == 0, done.output[-3000:]
    assert f"{server.name} has no volume group {GROUP}. Create it" in " ".join(done.output.split()), done.output[-3000:]
    assert not server.says("find /etc -path '/etc/cinder/*footprint*'")


def test_server_is_deployed_and_stays(lab: CloudLab, server: DiskServer) -> None:
    server.ssh(f"vgcreate {GROUP} /dev/ubdb")
    lab.succeeds(ROLE)
    again = lab.succeeds(ROLE)
    assert again.changed == 0, again.changed_tasks()


def test_volume_keeps_what_was_written(volumes: Volumes, server: DiskServer) -> None:
    volume = volumes.create()
    assert server.volumes() == [f"volume-{volume}"]
    attachment, info = volumes.reserve(volume)
    assert info["auth_method"] == "CHAP" and len(info["auth_password"]) >= 12, sorted(info)
    node = f"iscsiadm -m node -T {info['target_iqn']} -p {info['target_portal']}"
    # without the password
    server.ssh(f"{node} --op new")
    assert server.ssh(f"{node} --login", check=False).returncode == 24
    server.ssh(f"{node} --op delete")
    path = volumes.brick("attach", json.dumps(info))
    server.ssh(f"echo {volume} | dd of={path} bs=512 conv=sync,fsync oflag=direct")
    volumes.detach(attachment, info)
    assert "session" not in server.ssh("iscsiadm -m session", check=False).stdout
    attachment, info, path = volumes.attach(volume)
    assert server.says(f"dd if={path} bs=36 count=1 status=none") == volume
    volumes.detach(attachment, info)
    volumes.remove(volume)
    assert server.volumes() == []


def test_only_the_address_of_the_server_is_served(volumes: Volumes, server: DiskServer) -> None:
    volume = volumes.create()
    listening = server.says("ss --no-header --listening --tcp --numeric 'sport = :3260'").splitlines()
    assert [line.split()[3] for line in listening] == [f"{server.address}:3260"]
    volumes.remove(volume)


def test_only_compute_servers_reach_the_port(lab: CloudLab, server: DiskServer) -> None:
    # on the kernel of a simulated server, with another program at the port
    write_inventory(lab, server, SERVICES)
    lab.run(SERVICES, ["systemd-run", "--unit=port", "python3", "-m", "http.server", "3260"])
    tasks = {"ansible.builtin.include_role": {"name": "reduced.footprint.cinder_volume", "tasks_from": "allow"}}
    code = f"import socket; socket.create_connection(('{lab.addresses[SERVICES]}', 3260), 5)"
    eventually("the laptop reaches it without the list", lambda: lab.answers("laptop", ["python3", "-c", code]))
    lab.succeeds([{"hosts": SERVICES, "gather_facts": False, "tasks": [tasks]}])
    assert not lab.answers("laptop", ["python3", "-c", code])
    assert server.ssh(f'python3 -c "{code}"', check=False).returncode == 0
    lab.succeeds([{"hosts": SERVICES, "gather_facts": False, "vars": {"footprint_allow_list": False}, "tasks": [tasks]}])
    assert lab.answers("laptop", ["python3", "-c", code])
    lab.run(SERVICES, ["systemctl", "stop", "port"])
    write_inventory(lab, server)


def test_volume_of_an_image_survives_a_power_loss_of_its_server(lab: CloudLab, volumes: Volumes, server: DiskServer) -> None:
    content = os.urandom(4 * MIB)
    volume = volumes.create(imageRef=volumes.cloud.upload(content))
    attachment, info, path = volumes.attach(volume)
    assert server.says(f"head -c {4 * MIB} {path} | sha256sum").split()[0] == hashlib.sha256(content).hexdigest()
    # a guest makes it a part of LVM
    everything = "--config 'devices{global_filter=[\"a|.*|\"]}'"
    server.ssh(f"vgcreate {everything} guest {path} && lvcreate {everything} --yes --size 8M --name data guest && vgchange {everything} --activate n guest")
    server.off()
    server.on()
    eventually("the volume is offered again", lambda: f"{IQN}{volume}" in server.says("find /sys/kernel/config -maxdepth 3"), 600)
    assert server.says("systemctl list-units --failed --no-legend --plain") == ""
    assert "rdering cycle" not in server.says("journalctl --boot --no-pager")
    # also cinder-volume has reported since then
    again = lab.succeeds(ROLE)
    assert again.changed == 0, again.changed_tasks()
    # as nova-compute does it at its start
    path = volumes.brick("attach", json.dumps(info))
    assert "guest" in server.says(f"vgs {everything}")
    server.ssh("udevadm settle")
    assert "guest" not in server.says("vgs") and server.ssh("test -e /dev/guest", check=False).returncode != 0
    volumes.detach(attachment, info)
    volumes.remove(volume)
    assert server.volumes() == [] and IQN not in server.says("cat /etc/rtslib-fb-target/saveconfig.json")
