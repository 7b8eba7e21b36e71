# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of remove_virt_node that only a run shows."""

from __future__ import annotations

import os
import pathlib
import sys
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode
from tests.support.controlplane import galera, look, rabbitmq

NAMES = ("metal1", "metal2", "metal3")
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
CONFIRMED = {"remove_virt_node_confirm": "metal2"}


@pytest.mark.parametrize(
    "state, given, good",
    [
        ("active", CONFIRMED, False),
        ("activating", CONFIRMED, False),
        ("inactive", CONFIRMED, True),
        # only lists what would be removed
        ("active", {}, True),
        ("active", {**CONFIRMED, "remove_virt_node_leave_instances": True}, True),
    ],
)
def test_a_server_on_which_the_cloud_starts_instances_is_not_removed(
    state: str, given: dict[str, t.Any], good: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = yaml.safe_load((ROOT / "playbooks/remove_virt_node.yml").read_text("utf-8"))[-1]
    tasks = [inner for task in play["tasks"] for inner in task.get("block", [task])]
    names = [task["name"] for task in tasks]
    first = names.index("Check whether nova-compute runs")
    assert first < names.index("Remove the node")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text(f"#!/bin/sh\necho {state}\n", "utf-8")
    (tmp_path / "bin/systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    code, output = ControlNode(tmp_path).play(tasks[first : first + 2], **LOCAL, **given)
    assert (code == 0) == good and (good or "nova-compute runs on metal2" in output), output


def test_a_member_whose_queue_is_down_does_not_count_as_remaining(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "controlplane_lock", "controlplane_info", "vm_info", "virt_node_info", "vm_standby_info", "footprint_plan", "virt_node")
    # the servers are the members themselves
    shared = {**LOCAL, "footprint_cluster": "lab", "remove_virt_node_quorums": ["virt"], "galera_group": "virt", "rabbitmq_group": "virt"}
    shared["virt_host_pool"] = "fast"
    control.more = {name: {**shared, "ansible_host": f"192.0.2.1{name[-1]}"} for name in ("metal1", "metal3")}
    healthy = look(galera=galera(), rabbitmq=rabbitmq(NAMES))
    control.answers = {
        **{f"controlplane_info {name}": {"controlplane": healthy} for name in NAMES},
        "controlplane_info metal3": {"controlplane": look(galera=galera(), rabbitmq=rabbitmq(state="inactive"))},
        **{f"vm_info {name}": {"vms": []} for name in NAMES},
        **{f"virt_node_info {name}": {"node": {}} for name in NAMES},
        **{f"vm_standby_info {name}": {"standbys": [{"id": "db", "part": "standby", "used_bytes": 5}]} for name in NAMES},
        "footprint_plan localhost": {"servers": []},
        "virt_node metal2": {"changed": True, "removal": {"lines": ["remove record"]}, "actions": []},
    }
    values = {**shared, "remove_virt_node_name": "metal2", "remove_virt_node_confirm": "metal2"}
    code, output = control.run(str(ROOT / "playbooks/remove_virt_node.yml"), "-e", "remove_virt_node_name=metal2", **values)
    assert code == 0, output
    (call,) = control.calls("virt_node")
    assert {one["name"]: one["alive"] for one in call["arguments"]["quorums"]["virt"]} == {"metal1": True, "metal2": True, "metal3": False}, output
    (plan,) = control.calls("footprint_plan")
    assert plan["arguments"]["pool"] == "fast" and all(server["copies"] == {"db": 5} for server in plan["arguments"]["servers"])
    # one that does not answer
    control.answers["controlplane_info metal1"] = {"unreachable": True, "msg": "down"}
    code, output = control.run(str(ROOT / "playbooks/remove_virt_node.yml"), "-e", "remove_virt_node_name=metal2", **values)
    (call,) = control.calls("virt_node")
    assert {one["name"]: one["alive"] for one in call["arguments"]["quorums"]["virt"]} == {"metal1": False, "metal2": True, "metal3": False}, output


@pytest.mark.parametrize(
    ("given", "ended"),
    [
        ({**CONFIRMED, "remove_virt_node_remove_vms": True}, ["notes"]),
        # its VMs continue to run, or nothing was changed
        (CONFIRMED, []),
        ({"remove_virt_node_remove_vms": True}, []),
    ],
)
def test_the_copies_of_removed_vms_end(given: dict[str, t.Any], ended: list[str], tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "vm_standby", "one_time_key")
    control.more = {"w1": {"ansible_host": "192.0.2.21"}}
    control.answers = {f"one_time_key {host}": {"changed": True} for host in ("metal1", "w1")} | {"vm_standby metal2": {"changed": True}}
    tasks = yaml.safe_load((ROOT / "playbooks/remove_virt_node.yml").read_text("utf-8"))[-1]["tasks"]
    tasks = [task for task in tasks if "removed virtual machines" in task["name"]]
    key = {"key_accepted_by": ["metal1", "w1", "gone"], "public_key": "ssh-ed25519 AAAA reduced.footprint"}
    source = {"part": "source", "cluster": "lab", "standby": "metal1", "state": "copied", **key}
    # that of a protected VM, of another cluster, and a copy of another server's VM
    others = [{**source, "id": "vault"}, {**source, "id": "web", "cluster": "green"}, {"part": "standby", "id": "mail", "cluster": None, "standby": None}]
    found = {
        # a VM that was moved is copied by its new server now, with its key
        "__remove_virt_node_standbys": {"standbys": [{**source, "id": "notes"}, {**source, "id": "moved", "state": "moved"}, *others]},
        "__remove_virt_node_result": {"removal": {"vms": [{"id": "notes", "fate": "removed"}, {"id": "vault", "fate": "protected"}]}},
    }
    code, output = control.play(tasks, footprint_cluster="lab", **found, **given)
    assert code == 0, output
    # that of the VM that was moved may be there, or that of its new server
    withdrawn = [(call["arguments"]["name"], call["host"], call["arguments"]["public_key"]) for call in control.calls("one_time_key")]
    assert withdrawn == [(name, host, key["public_key"]) for name in ended + (["moved"] if ended else []) for host in ("metal1", "w1")]
    assert [call["arguments"]["id"] for call in control.calls("vm_standby")] == [*ended, *(["moved"] if ended else [])]
    # with an automatic start: its standby ends it before this server forgets which that is, unless it serves the new server by now
    for entry in found["__remove_virt_node_standbys"]["standbys"]:
        entry["automatic"] = True
    control.answers["vm_standby metal1"] = {"unreachable": True, "msg": "down"}
    code, output = control.play(tasks, footprint_cluster="lab", **found, **given)
    assert code == 0, output
    calls = [(call["host"], call["arguments"]["id"], call["arguments"]["state"]) for call in control.calls("vm_standby")]
    assert calls == ([
        ("metal1", "notes", "unwatched"), ("metal2", "notes", "disarmed"), ("metal2", "moved", "disarmed"), ("metal2", "notes", "absent"),
        ("metal2", "moved", "absent"),
    ] if ended else [])  # fmt: skip


@pytest.mark.parametrize(("given", "good"), [(CONFIRMED, False), ({}, True)])
def test_a_server_that_starts_vms_of_others_by_itself_is_not_removed(given: dict[str, t.Any], good: bool, tmp_path: pathlib.Path) -> None:
    play = yaml.safe_load((ROOT / "playbooks/remove_virt_node.yml").read_text("utf-8"))[-1]
    tasks = [inner for task in play["tasks"] for inner in task.get("block", [task])]
    names = [task["name"] for task in tasks]
    at = names.index("Require that it starts no virtual machine of another server by itself")
    assert at < names.index("Remove the node")
    entries = [{"id": "notes", "part": "standby", "automatic": True}, {"id": "web", "part": "standby", "automatic": False}]
    entries += [{"id": "mail", "part": "source", "automatic": True}, {"id": "vault", "part": "ended", "automatic": None}]
    code, output = ControlNode(tmp_path).play(tasks[at : at + 1], **LOCAL, **given, __remove_virt_node_standbys={"standbys": entries})
    assert (code == 0) == good and (good or "metal2 would start notes by itself when its server is lost. Nothing was changed." in output), output
