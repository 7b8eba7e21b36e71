# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of remove_witness that only a run shows."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import typing as t

import pytest
import yaml

from tests.support.control_node import ControlNode

UUID = "aaaaaaaa-0000-11ef-8000-000000000001"
#: What Ansible returns for a host that does not answer.
SILENT = {"unreachable": True, "msg": "No route to host"}


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> ControlNode:
    systemctl = tmp_path / "bin/systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text("#!/bin/sh\necho LoadState=loaded; echo ActiveState=inactive; echo FragmentPath=/x\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{systemctl.parent}:{os.environ['PATH']}")
    control = ControlNode(tmp_path, "controlplane_lock", "controlplane_info", "rabbitmq_member", "service_allow_list")
    facts = {"ready": True, "size": 3, "cluster_uuid": UUID, "seqno": 5}
    healthy = {"units": {"mariadb.service": {"state": "active"}}, "facts": facts}
    witness = {"units": {"garbd@lab.service": {"state": "active"}}, "facts": {"connected": True}}
    control.answers = {f"controlplane_info metal{number}": {"controlplane": {"services": {"galera": healthy}}} for number in (1, 2)}
    control.answers["controlplane_info laptop"] = {"controlplane": {"services": {"witness": witness}}}
    groups = {"galera": {"hosts": {"metal1": {}, "metal2": {}}}, "witness": {"hosts": {"laptop": {"ansible_host": "192.0.2.13"}}}}
    (tmp_path / "more.yml").write_text(yaml.safe_dump(groups), "utf-8")
    return control


def remove(control: ControlNode, **variables: t.Any) -> tuple[int, str]:
    """Remove the witness laptop, with members that are this machine; returns the exit code and output."""
    given = {
        "remove_witness_name": "laptop", "remove_witness_confirm": "laptop", "footprint_cluster": "lab", "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable, **variables,
    }  # fmt: skip
    code, output = control.run("reduced.footprint.remove_witness", "-i", str(control.folder / "more.yml"), "--check", "-e", json.dumps(given))
    return code, " ".join(output.split())


def test_a_witness_that_does_not_answer_keeps_its_vote_and_that_is_said(control: ControlNode) -> None:
    control.answers["controlplane_info laptop"] = SILENT
    code, output = remove(control)
    assert code != 0 and "Nothing was changed: laptop does not answer (No route to host), so its vote cannot be taken away" in output
    assert "Now remove the role witness" not in output
    code, output = remove(control, remove_witness_lost=True)
    assert code == 0 and "Now remove the role witness from laptop" in output


def test_the_next_step_names_its_address_in_the_databases_of_the_cloud(control: ControlNode) -> None:
    groups = yaml.safe_load((control.folder / "more.yml").read_text("utf-8"))
    groups["ovn_database"] = groups["galera"]
    (control.folder / "more.yml").write_text(yaml.safe_dump(groups), "utf-8")
    control.answers["service_allow_list laptop"] = {"changed": True}
    code, output = remove(control, footprint_cloud=True)
    # without it the next deployment is refused
    assert code == 0 and "in the inventory, then run deploy_controllers with ovn_database_gone: [192.0.2.13]." in output, output


def test_a_witness_that_is_lost_on_the_way_is_not_reported_as_removed(control: ControlNode) -> None:
    control.answers["service_allow_list laptop"] = SILENT
    code, output = remove(control)
    assert code != 0 and "Now remove the role witness" not in output


def test_a_witness_that_answers_is_not_lost(control: ControlNode) -> None:
    code, output = remove(control, remove_witness_lost=True)
    assert code != 0 and "Nothing was changed: laptop answers, so it is not lost. Run again without remove_witness_lost" in output
