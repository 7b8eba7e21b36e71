# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks for servers and controllers in an inventory with several environments: all members of a server count, and those of the right environment."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode
from tests.support.controlplane import galera, look

#: Member → its server. The first environment of the inventory has one member on each server, the second one two of its three on metal1.
PLACES = {"a1": "metal1", "a2": "metal2", "a3": "metal3", "b1": "metal1", "b2": "metal1", "b3": "metal2"}
NAMES = {"a": "amber", "b": "blue"}
MODULES = (
    "controlplane_info", "controlplane_lock", "footprint_plan", "rabbitmq_member", "server_identity_info", "virt_node", "virt_node_info", "vm_info",
    "vm_replacement", "vm_replacement_info", "vm_standby", "vm_standby_info",
)  # fmt: skip
SERVERS = ("metal1", "metal2", "metal3")


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> ControlNode:
    control = ControlNode(tmp_path, *MODULES)
    control.more = {"metal3": {"ansible_host": "192.0.2.13"}}
    groups: dict[str, t.Any] = {}
    for host, server in PLACES.items():
        name = NAMES[host[0]]
        own = {"footprint_environment": name, "galera_group": f"{name}_galera", "vm_host": server, "ansible_host": "127.0.0.1", "ansible_port": 1}
        own["vm_details"] = {"id": host, "name": host}
        for group in (name, f"{name}_galera"):
            groups.setdefault(group, {"hosts": {}})["hosts"][host] = own
        control.answers[f"controlplane_info {host}"] = {"controlplane": look(galera=galera(), load_balancer={"units": {}})}
    for server in SERVERS:
        mine = [host for host, place in PLACES.items() if place == server]
        vms = [{"name": host, "id": host, "state": "running", "moved": None, "instance": None, "hypervisor": "qemu", "macs": []} for host in mine]
        control.answers |= {f"vm_info {server}": {"vms": vms}, f"virt_node_info {server}": {"node": {}}, f"vm_standby_info {server}": {"standbys": []}}
        control.answers[f"vm_replacement_info {server}"] = {"replacements": []}
    control.answers["footprint_plan localhost"] = {"servers": []}
    (tmp_path / "more.yml").write_text(yaml.safe_dump(groups), "utf-8")
    return control


def run(control: ControlNode, playbook: str, *options: str, **given: t.Any) -> tuple[int, str]:
    """Run a playbook on the servers and both environments."""
    shared = {"footprint_cluster": "lab", "expert_mode": True, **given}
    code, output = control.run(f"reduced.footprint.{playbook}", "-i", str(control.folder / "more.yml"), "-e", json.dumps(shared), *options)
    return code, " ".join(output.split())


def test_patch_day_keeps_the_majority_of_each_environment(control: ControlNode) -> None:
    code, output = run(control, "maintain_virt_node", "--check", maintain_virt_node_servers="metal1")
    assert code != 0 and "without metal1 (b1, b2) blue: galera would have 1 of 3 members left and needs 2" in output, output
    assert "amber: galera would" not in output
    # the witness of a host is that of its environment
    asked = {call["host"]: call["arguments"]["cluster"] for call in control.calls("controlplane_info")}
    assert asked == {host: NAMES[host[0]] for host in PLACES}
    assert {call["host"] for call in control.calls("controlplane_lock")} == set(PLACES)
    code, output = run(control, "maintain_virt_node", "--check", maintain_virt_node_servers="metal2")
    assert code == 0 and "a2 is shut down, and started again" in output, output


@pytest.mark.parametrize("down", ["", "a1", "b3"])
def test_after_its_restart_each_environment_is_checked(down: str, control: ControlNode) -> None:
    block = next(task["block"] for task in yaml.safe_load((ROOT / "playbooks/tasks/maintain_virt_node_steps.yml").read_text("utf-8")) if "rescue" in task)
    (task,) = [task for task in block if task["name"] == "Check that the control plane is healthy"]
    members = {name: {"galera": [host for host in PLACES if NAMES[host[0]] == name]} for name in NAMES.values()}
    looks = {host: {} if host == down else look(galera=galera()) for host in PLACES}
    # an inventory without a control plane as well
    code, output = control.play([task], "metal1", __maintain_environments={"": {"galera": []}, **members}, __maintain_looks=looks)
    assert (code == 0) == (not down) and (not down or f"not healthy: galera on {down}: does not answer. No other server" in " ".join(output.split())), output


def test_a_removed_server_keeps_the_majority_of_each_environment(control: ControlNode, monkeypatch: pytest.MonkeyPatch) -> None:
    control.program(monkeypatch, "systemctl", "echo inactive\nexit 3")
    control.answers["virt_node metal1"] = {"changed": True, "removal": {"lines": []}, "actions": []}
    code, output = run(control, "remove_virt_node", "--check", remove_virt_node_name="metal1", remove_virt_node_confirm="metal1", **HERE)
    assert code == 0, output
    (call,) = control.calls("virt_node")
    found = {name: [one["server"] for one in entries] for name, entries in call["arguments"]["quorums"].items()}
    assert found == {"amber: galera": ["metal1", "metal2", "metal3"], "blue: galera": ["metal1", "metal1", "metal2"]}


REPLACED = {"replace_controller_name": "b3", "replace_controller_stop": True}


@pytest.mark.parametrize(
    ("limit", "refusal"),
    [
        ([], "This run would deploy several environments (amber, blue). Run it with --limit 'GROUP:metal2', where GROUP is the one with the hosts"),
        (["--limit", "blue"], "metal2 is excluded by --limit. Run it with --limit 'GROUP:metal2', where GROUP is the one with the hosts"),
        (["--limit", "blue:metal2"], ""),
    ],
)
def test_a_controller_is_replaced_in_its_environment(control: ControlNode, limit: list[str], refusal: str) -> None:
    code, output = run(control, "replace_controller", "--check", *limit, **REPLACED)
    assert (f"Nothing was changed. {refusal}" in output) == bool(refusal) and "b3 is created again on metal2" in output, output
    assert {call["host"] for call in control.calls("controlplane_info")} == {"b1", "b2", "b3"}
    # the next step, for which this test has no answers
    assert {call["host"] for call in control.calls("vm_standby")} == (set() if refusal else {"metal2"}) and code != 0


def lose(control: ControlNode, lost: str, *members: str) -> None:
    """Replace a server with these members by another machine that takes over its name."""
    old = {"name": lost, "machine_id": "1" * 32, "product_uuid": "", "address": "", "at": "20261124T190000Z", "state": "known", "old": [], "proof": ""}
    for server in SERVERS:
        here = {"machine_id": server[-1] * 31 + "0", "product_uuid": ""}
        control.answers[f"server_identity_info {server}"] = {"identity": {"here": here, "records": [] if server == lost else [old]}}
    control.answers[f"vm_info {lost}"] = {"vms": []}
    control.answers |= {f"controlplane_info {name}": {"unreachable": True, "msg": "down"} for name in members}
    control.more[lost] = {"ansible_host": f"192.0.2.1{lost[-1]}", "vms": [{"id": name, "ram": 1, "disks": [{"size": "1 GiB"}]} for name in members]}


@pytest.mark.parametrize(
    ("limit", "refusal"),
    [
        ([], "This run would deploy several environments (amber, blue) after a3 was created again. Run it with --limit 'virt:GROUP'"),
        (["--limit", "metal3:amber"], "metal1, metal2 is excluded by --limit: all virt hosts record which machine has the name. Run it without --limit, or"),
        (["--limit", "virt:amber"], ""),
    ],
)
def test_a_server_is_replaced_with_a_controller_of_one_environment(control: ControlNode, limit: list[str], refusal: str) -> None:
    lose(control, "metal3", "a3")
    code, output = run(control, "replace_server", "--check", *limit, replace_server_name="metal3", replace_server_confirm="metal3")
    assert "a3 is created again, and gets its data from its peers" in output, output
    assert f"Nothing was changed. {refusal}" in output and code != 0 if refusal else code == 0 and "check mode: nothing was changed" in output, output


def test_controllers_of_the_second_environment_are_not_lost_with_their_server(control: ControlNode) -> None:
    # they would be taken for VMs without a copy
    lose(control, "metal2", "a2", "b3")
    code, output = run(control, "replace_server", "--check", replace_server_name="metal2", replace_server_confirm="metal2")
    assert "b3 is created again, and gets its data from its peers" in output and "is LOST" not in output, output
    assert code != 0 and "a2 and b3 were on the same server, and only one controller is replaced with its server. Replace them with" in output
    control.answers["controlplane_info b2"] = {"unreachable": True, "msg": "down"}
    code, output = run(control, "replace_server", "--check", replace_server_name="metal2", replace_server_confirm="metal2")
    assert "blue: galera has 1 of 3 members and needs 2: b2: does not answer, b3: does not answer. Repair the others first" in output, output


def test_controllers_of_several_environments_are_not_moved_together(control: ControlNode) -> None:
    code, output = run(control, "add_server", "--check")
    assert code != 0 and "The inventory has several environments (amber, blue), but the controllers of one are moved. Use an inventory with" in output, output
    assert not control.calls()
