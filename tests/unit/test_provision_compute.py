# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Order of provision_compute: all servers are checked before the first change, and settings that do not work reach one server only."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

SERVERS = ["metal1", "metal2", "metal3", "metal4"]


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> ControlNode:
    """The playbook with roles that only write down what they are run for; the second part of compute needs a result of its check, also of another host."""
    control = ControlNode(tmp_path, "step")
    control.answers = {f"step {name}": {"changed": True} for name in SERVERS}
    roles = tmp_path / "collections/ansible_collections/reduced/footprint/roles"
    roles.unlink()
    for role in ("ovn_chassis", "compute"):
        (roles / role / "tasks").mkdir(parents=True)
        record = f"{role} {{}} {{{{{{{{ inventory_hostname }}}}}}}} {{{{{{{{ footprint_secrets_stores | length }}}}}}}}{{}}"
        check = {"reduced.footprint.step": {"done": record.format("check", "")}, "register": f"__{role}_seen"}
        others = f" {{{{ hostvars.values() | selectattr('__{role}_seen', 'defined') | length }}}}"
        fail = {"ansible.builtin.fail": {"msg": "it is not connected"}, "when": "inventory_hostname in broken | default([])"}
        (roles / role / "tasks/check.yml").write_text(yaml.safe_dump([check]), "utf-8")
        (roles / role / "tasks/main.yml").write_text(yaml.safe_dump([{"reduced.footprint.step": {"done": record.format("main", others)}}, fail]), "utf-8")
    control.more = {name: {"ansible_host": f"192.0.2.1{name[-1]}"} for name in SERVERS}
    groups = {"compute": {"hosts": dict.fromkeys(SERVERS[:3])}, "ovn_chassis": {"hosts": {"metal4": None}}}
    (tmp_path / "more.yml").write_text(yaml.safe_dump(groups), "utf-8")
    return control


def provision(control: ControlNode, *options: str, **variables: t.Any) -> tuple[int, str, list[list[str]]]:
    """Run it; returns exit code, output, and what the roles have written down."""
    code, output = control.run("reduced.footprint.provision_compute", "-i", str(control.folder / "more.yml"), "-e", json.dumps(variables), *options)
    return code, " ".join(output.split()), [call["arguments"]["done"].split() for call in control.calls("step")]


def test_all_servers_are_checked_before_the_first_is_changed_and_one_is_the_first(control: ControlNode) -> None:
    code, output, done = provision(control)
    assert code == 0, output
    assert [step[1] for step in done] == ["check"] * 7 + ["main"] * 7
    first = done[7][2]
    assert [step[:3] for step in done[7:9]] == [["ovn_chassis", "main", first], ["compute", "main", first]]
    assert sorted(step[2] for step in done[9:] if step[0] == "ovn_chassis") == sorted(set(SERVERS) - {first})
    # what the checks have registered is there for every batch, of all servers
    assert {tuple(step[4:]) for step in done[7:] if step[0] == "ovn_chassis"} == {("4",)}
    assert {tuple(step[4:]) for step in done[7:] if step[0] == "compute"} == {("3",)}


@pytest.mark.parametrize(
    "groups, given, there",
    [
        ({"compute": ["metal1"]}, {}, {"metal1", "metal4"}),
        ({"compute": ["metal1"]}, {"ovn_chassis_witness": False}, {"metal1"}),
        # it is in both groups
        ({"compute": ["metal1"], "ovn_chassis": ["metal4"]}, {"ovn_chassis_witness": False}, {"metal1", "metal4"}),
    ],
)
def test_a_witness_is_a_chassis(control: ControlNode, groups: dict[str, list[str]], given: dict[str, t.Any], there: set[str]) -> None:
    groups = {**groups, "witness": ["metal4"]}
    (control.folder / "more.yml").write_text(yaml.safe_dump({name: {"hosts": dict.fromkeys(hosts)} for name, hosts in groups.items()}), "utf-8")
    code, output, done = provision(control, **given)
    assert code == 0, output
    assert {step[2] for step in done if step[0] == "ovn_chassis" and step[1] == "main"} == there
    assert {step[2] for step in done if step[0] == "ovn_chassis" and step[1] == "check"} == there


def test_without_other_chassis_a_witness_is_none(control: ControlNode) -> None:
    (control.folder / "more.yml").write_text(yaml.safe_dump({"witness": {"hosts": {"metal4": None}}}), "utf-8")
    code, output, done = provision(control)
    assert code != 0 and not done, output


def test_settings_that_do_not_work_reach_one_server_only(control: ControlNode) -> None:
    code, output, done = provision(control, broken=SERVERS)
    assert code != 0 and "it is not connected" in output
    assert len({step[2] for step in done if step[1] == "main"}) == 1


@pytest.mark.parametrize(("serial", "batches"), [(2, [2, 2]), ("50%", [2, 2]), (["1", "100%"], [1, 3]), ("100%", [4])])
def test_the_batches_can_be_chosen(control: ControlNode, serial: t.Any, batches: list[int]) -> None:
    code, output, _done = provision(control, provision_compute_serial=serial)
    assert code == 0, output
    assert output.count("TASK [Connect the servers to the networks of the cloud]") == len(batches)


@pytest.mark.parametrize("serial", ["none", "0", -1, ["1", "half"], "50 %"])
def test_invalid_batches_are_an_error_before_anything_is_changed(control: ControlNode, serial: t.Any) -> None:
    code, output, done = provision(control, provision_compute_serial=serial)
    assert code != 0 and "provision_compute_serial: " in output and "is not a number or percentage of servers" in output
    assert not done


def test_the_real_roles_have_the_files_that_are_replaced_here() -> None:
    assert all((ROOT / f"roles/{role}/tasks/{name}.yml").exists() for role in ("ovn_chassis", "compute") for name in ("check", "main"))
