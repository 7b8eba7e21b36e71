# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of remove_controller that only a run shows."""

from __future__ import annotations

import json
import pathlib
import shutil
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode
from tests.support.controlplane import galera, rabbitmq, unit

#: What Ansible returns for a host that does not answer.
SILENT = {"unreachable": True, "msg": "No route to host"}
DATA = ("metal1", "metal2", "metal3")
#: Instead of the deployment, shows with which members and settings it would run.
DEPLOYMENT = """
- hosts: metal1
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: >-
          members {{ (lookup('reduced.footprint.deploy_plan')).steps | map(attribute='hosts') | map('join', ',') | unique | sort | join(' and ') }};
          gone {{ rabbitmq_gone_nodes | join(',') }} and {{ ovn_database_gone | join(',') }}
"""


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> ControlNode:
    script = "[ \"$1\" = is-active ] && exit 3\necho LoadState=loaded; echo ActiveState=inactive; echo FragmentPath=/x"
    control = ControlNode(tmp_path, "controlplane_lock", "controlplane_info", "service_allow_list", "service_files")
    control.program(monkeypatch, "systemctl", script)
    playbooks = tmp_path / "collections/ansible_collections/reduced/footprint/playbooks"
    playbooks.unlink()
    shutil.copytree(ROOT / "playbooks", playbooks)
    (playbooks / "deploy_controllers.yml").write_text(DEPLOYMENT, "utf-8")
    votes = [*DATA, "laptop"]
    data = {"galera": galera(size=4), "rabbitmq": rabbitmq(votes)}
    control.answers = {f"controlplane_info {name}": {"controlplane": {"services": data}} for name in DATA}
    voting = {"units": {"garbd@lab.service": unit()}, "facts": {"connected": ["192.0.2.11"]}}
    control.answers["controlplane_info laptop"] = {"controlplane": {"services": {"witness": voting, "rabbitmq": rabbitmq(votes)}}}
    control.answers |= {f"service_files {name}": {"changed": True} for name in votes}
    control.answers |= {f"service_allow_list {name}": {"changed": True} for name in votes}
    control.more = {"metal3": {"ansible_host": "192.0.2.13"}}
    groups = {"controller": {"hosts": {name: {} for name in DATA}}, "witness": {"hosts": {"laptop": {"ansible_host": "192.0.2.14"}}}}
    (tmp_path / "more.yml").write_text(yaml.safe_dump(groups), "utf-8")
    return control


def remove(control: ControlNode, name: str = "metal3", **variables: t.Any) -> tuple[int, str]:
    """Remove a member in check mode; all of them are this machine. Returns the exit code and output."""
    given = {
        "remove_controller_name": name, "remove_controller_confirm": name, "footprint_cluster": "lab", "footprint_witness_leaves": True,
        **HERE, **variables,
    }  # fmt: skip
    code, output = control.run("reduced.footprint.remove_controller", "-i", str(control.folder / "more.yml"), "--check", "-e", json.dumps(given))
    return code, " ".join(output.split())


def stopped(control: ControlNode) -> list[tuple[str, str]]:
    """Return the host and name of each unit that was stopped, in this order."""
    return [(call["host"], one["name"]) for call in control.calls("service_files") for one in call["arguments"]["units"]]


def test_the_others_are_deployed_without_a_controller_that_has_left(control: ControlNode) -> None:
    code, output = remove(control)
    assert code == 0, output
    assert "Without metal3, 3 votes remain (metal1, metal2, laptop), and 2 are needed: the loss of one server is tolerated" in output
    units = stopped(control)
    assert units[0] == ("metal3", "keepalived.service") and units[-1] == ("metal3", "mariadb.service") and {host for host, _unit in units} == {"metal3"}
    # in the order of the inventory, so that a deployment after the removal from it changes nothing
    assert "members laptop and metal1,metal2 and metal1,metal2,laptop; gone rabbit@metal3 and 192.0.2.13" in output
    assert "Now remove metal3 from the inventory" in output


def test_a_witness_leaves_in_the_same_way(control: ControlNode) -> None:
    code, output = remove(control, "laptop")
    assert code == 0, output
    assert stopped(control) == [("laptop", "ovn-controller.service")]
    assert "members metal1,metal2,metal3; gone rabbit@laptop and 192.0.2.14" in output


def test_a_member_that_does_not_answer_stays_unless_it_is_lost(control: ControlNode) -> None:
    control.answers["controlplane_info metal3"] = SILENT
    code, output = remove(control)
    assert code != 0 and "Nothing was changed: remove_controller_lost: metal3 does not answer (No route to host), so it cannot leave" in output
    assert "members" not in output.partition("PLAY RECAP")[0].partition("Configure the others")[2]
    code, output = remove(control, remove_controller_lost=True)
    assert code == 0 and "Now remove metal3 from the inventory" in output, output
    assert stopped(control) == []


def test_one_that_is_lost_on_the_way_is_not_reported_as_removed(control: ControlNode) -> None:
    control.answers["service_files metal3"] = SILENT
    code, output = remove(control)
    assert code != 0 and "gone rabbit" not in output and "Now remove" not in output


def test_nothing_is_changed_without_confirmation_or_beside_an_unknown_member(control: ControlNode) -> None:
    code, output = remove(control, remove_controller_confirm="metal2")
    assert code != 0 and "To continue, set remove_controller_confirm: metal3." in output
    control.answers["controlplane_info metal2"] = SILENT
    code, output = remove(control)
    assert code != 0 and "galera on metal2: does not answer" in output
    assert stopped(control) == [] and "gone rabbit" not in output
