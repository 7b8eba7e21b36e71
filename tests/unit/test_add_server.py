# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of add_server that only a run shows."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode


@pytest.mark.parametrize("named", ["metal2, metal4", ["metal4"]])
def test_a_server_that_is_not_in_the_inventory_is_not_ignored(tmp_path: pathlib.Path, named: t.Any) -> None:
    control = ControlNode(tmp_path, "vm_info")
    given = {"footprint_cluster": "lab", "add_server_servers": named}
    code, output = control.run("reduced.footprint.add_server", "--check", "-e", json.dumps(given))
    assert code != 0 and "add_server_servers: metal4 is not a virt host of this run. Use some of metal1, metal2" in " ".join(output.split())
    assert not control.calls()


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        ({"unreachable": True, "msg": "down"}, {"changed": True}, False),
        ({"failed": True, "msg": "the server is not running."}, {"changed": False}, False),
        ({"unreachable": True, "msg": "down"}, {"failed": True, "msg": "the server is not running."}, True),
    ],
)
def test_the_account_of_the_probe_is_dropped_on_a_controller_that_answers(tmp_path: pathlib.Path, first: t.Any, second: t.Any, refused: bool) -> None:
    control = ControlNode(tmp_path, "write_probe")
    control.answers = {"write_probe metal1": first, "write_probe metal2": second}
    plays = yaml.safe_load((ROOT / "playbooks/add_server.yml").read_text("utf-8"))
    (tasks,) = [play["tasks"][1:] for play in plays if play["name"] == "Stop the write probe"]
    controllers = [{"ansible.builtin.add_host": {"name": name, "groups": "controller"}} for name in ("metal1", "metal2")]
    code, output = control.play([*controllers, *tasks])
    assert (code != 0) is refused, output
    assert [call["host"] for call in control.calls()] == ["metal1", "metal2"]
    assert not refused or "no controller drops it: down; the server is not running." in " ".join(output.split())


def test_the_plan_knows_copies_networks_and_the_pool_of_the_servers(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "footprint_plan")
    control.answers = {"footprint_plan localhost": {"changed": False}}
    (play,) = [play for play in yaml.safe_load((ROOT / "playbooks/add_server.yml").read_text("utf-8")) if play["name"] == "Plan the moves of controllers"]
    found = {
        "__add_server_found": {"vms": []},
        "__add_server_node": {"node": {"libvirt": True, "networks": [{"name": "lan", "active": True}], "pools": {}}},
        "__add_server_standbys": {"standbys": [{"id": "db", "part": "standby", "used_bytes": 5}]},
    }
    variables = {**play["vars"], "footprint_cluster": "lab", "virt_host_pool": "fast"}
    code, output = control.play([{"ansible.builtin.set_fact": found}, play["tasks"][0]], **variables)
    assert code == 0, output
    (call,) = control.calls("footprint_plan")
    (server,) = call["arguments"]["servers"]
    assert (call["arguments"]["pool"], server["copies"], server["networks"]) == ("fast", {"db": 5}, ["lan"])


def test_all_controllers_have_one_time_limit(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "controlplane_info")
    controllers = ["c1", "c2", "c3"]
    (tmp_path / "more.yml").write_text(yaml.safe_dump({"controller": {"hosts": dict.fromkeys(controllers, {"ansible_connection": "local"})}}), "utf-8")
    control.answers = {f"controlplane_info {name}": {"controlplane": {"services": {}}, "sleep": 2} for name in controllers}
    given = {"__add_server_members": {"galera": controllers}, "__add_server_virtual_address": "", "__add_server_gate_uuid": ""}
    gate = [{"ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/add_server_gate.yml")}]
    code, output = control.play(gate, "metal1", "-i", str(tmp_path / "more.yml"), __add_server_gate_absent=[], __add_server_gate_wait=4, **given)
    waits = [call["arguments"]["wait_timeout"] for call in control.calls() if call["arguments"].get("wait")]
    assert code == 0 and waits[0] >= 3 and waits[1] <= 2 and waits[2] == 1, output
