# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What destroy_environment refuses before it changes anything."""

from __future__ import annotations

import pathlib

import pytest

from tests.support.control_node import ControlNode

#: Those of this machine, which is the control node.
MACS = [path.read_text("ascii").strip() for path in pathlib.Path("/sys/class/net").glob("*/address")]
OWN = next(mac for mac in MACS if len(mac) == 17 and mac.strip("0:"))


@pytest.mark.parametrize(("mac", "fate", "refused"), [(OWN.upper(), "removed", True), (OWN, "protected", False), ("52:54:00:00:00:99", "removed", False)])
def test_the_vm_that_runs_the_playbook_is_not_destroyed(tmp_path: pathlib.Path, mac: str, fate: str, refused: bool) -> None:
    control = ControlNode(tmp_path, "virt_node", "vm_info", "vm_standby_info")
    control.answers = {f"{name} {host}": {"vms": []} for name in ("vm_info", "vm_standby_info") for host in ("metal1", "metal2")}
    control.answers |= {f"virt_node {host}": {"removal": {"vms": [], "lines": []}, "actions": []} for host in ("metal1", "metal2")}
    vm = {"name": "control", "fate": fate, "origin": "", "roles": []}
    control.answers["virt_node metal2"] = {"removal": {"vms": [vm], "lines": []}, "actions": []}
    control.answers["vm_info metal2"] = {"vms": [{"name": "control", "macs": ["52:54:00:00:00:98", mac]}]}
    code, output = control.run("reduced.footprint.destroy_environment", "-e", "footprint_cluster=blue", "-e", "destroy_environment_keep_protected=true")
    assert code != 0 and ("control runs this playbook" in output) == refused, output
    assert ("not all servers can be emptied" if refused else "destroy_environment_confirm: nothing was changed") in output
    assert all(call["check"] for call in control.calls("virt_node"))


def test_the_servers_of_two_clusters_are_not_taken_for_one(tmp_path: pathlib.Path) -> None:
    # each has to be confirmed on its own
    control = ControlNode(tmp_path, "virt_node", "vm_info", "vm_standby_info")
    control.answers = {f"{name} {host}": {"vms": []} for name in ("vm_info", "vm_standby_info") for host in ("metal1", "metal2", "metal3")}
    control.answers |= {f"virt_node {host}": {"removal": {"vms": [], "lines": []}, "actions": []} for host in ("metal1", "metal2", "metal3")}
    control.more = {"metal1": {"footprint_cluster": "blue"}, "metal3": {"footprint_cluster": "green"}}
    code, output = control.run("reduced.footprint.destroy_environment", "-e", "destroy_environment_confirm=blue", footprint_cluster="blue")
    assert code != 0 and "the servers are those of several clusters (blue, green). Select the servers of one with --limit." in output, output
    assert all(call["check"] for call in control.calls("virt_node"))
