# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One server is a compute server, and has the VM of the only controller: an instance beside it is reached from outside, and a second run changes nothing."""

from __future__ import annotations

import shlex

import pytest
from rflab import openstack_client, tunnels
from rflab.cloud_clients import Cloud
from rflab.picture import Inventory
from support import Lab

pytestmark = pytest.mark.chapter
SERVER = "metal1"
#: The flow without the migration of the master.
FLOW = ("provision_virt", "spawn_vms", "deploy_controllers", "provision_compute")


def test_the_controller_is_a_vm_of_the_compute_server(lab: Lab, reuse_lab: bool) -> None:
    if not reuse_lab:
        lab.command("down")
        lab.command("up", "--servers", "1")
        Inventory(lab.settings).write([SERVER])
        tunnels.place("br-admin", tunnels.variables(1)["ovn_chassis_address"], lambda argv, stdin="": lab.ssh(SERVER, shlex.join(argv), stdin=stdin))
        for name in FLOW:
            lab.succeeds(name)
    running = {uri: lab.ssh(SERVER, "virsh", "--quiet", "--connect", uri, "list", "--name").split() for uri in ("lxc:///", "qemu:///system")}
    assert running == {"lxc:///": ["controller1"], "qemu:///system": []}
    assert "nova-compute" not in lab.ssh(lab.address("controller1"), "systemctl list-units --plain --no-legend --state=running")


def test_an_instance_beside_it_is_reached_from_outside(lab: Lab) -> None:
    for name, arguments in (("build_image", ("-e", "build_image_kind=test")), ("cloud_bootstrap", ())):
        lab.succeeds(name, *arguments, extra=openstack_client.variables())
    cloud = Cloud(lab.settings, lab.state / "inventory")
    address, active, login = cloud.create_instance("beside", SERVER)
    print(f"active after {active:.1f} s, login at {address} after {login:.1f} s")
    assert cloud.states() == {"beside": (SERVER, "ACTIVE")}
    # libvirt's VMs of two owners
    assert len(lab.ssh(SERVER, "virsh", "--quiet", "--connect", "qemu:///system", "list", "--name").split()) == 1


def test_second_runs_change_nothing(lab: Lab) -> None:
    for name in (*FLOW, "cloud_bootstrap"):
        again = lab.succeeds(name, extra=openstack_client.variables())
        assert again.changed == 0, f"{name}: {again.changed_tasks()}"


def test_status_finds_nothing_degraded(lab: Lab) -> None:
    done = lab.play("status")
    assert done.rc == 0, done.output[-4000:]
