# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What destroy_environment refuses before it changes anything."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.support.control_node import ControlNode

#: The network card of the control node, the same on every machine that runs this.
OWN = "52:54:00:00:00:0a"
CARDS = f"""
from ansible.module_utils.facts.network.base import Network, NetworkCollector

class LinuxNetwork(Network):
    platform = "Linux"

    def populate(self, collected_facts=None):
        return {{"interfaces": ["eth0"], "eth0": {{"device": "eth0", "macaddress": "{OWN}"}}}}

class LinuxNetworkCollector(NetworkCollector):
    _platform = "Linux"
    _fact_class = LinuxNetwork
"""


@pytest.fixture
def card(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the control node one network card; those of this machine come and go with labs."""
    path = tmp_path / "module_utils/facts/network/linux.py"
    path.parent.mkdir(parents=True)
    path.write_text(CARDS, "ascii")
    monkeypatch.setenv("ANSIBLE_MODULE_UTILS", str(tmp_path / "module_utils"))


def empty(*hosts: str) -> dict[str, t.Any]:
    """The answers of servers without VMs."""
    found: dict[str, t.Any] = {f"virt_node {host}": {"removal": {"vms": [], "lines": []}, "actions": []} for host in hosts}
    found |= {f"vm_info {host}": {"vms": []} for host in hosts}
    return found | {f"vm_standby_info {host}": {"standbys": []} for host in hosts}


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize(("mac", "fate", "refused"), [(OWN.upper(), "removed", True), (OWN, "protected", False)])
def test_the_vm_that_runs_the_playbook_is_not_destroyed(tmp_path: pathlib.Path, mac: str, fate: str, refused: bool) -> None:
    control = ControlNode(tmp_path, "virt_node", "vm_info", "vm_standby_info")
    control.answers = empty("metal1", "metal2")
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
    control.answers = empty("metal1", "metal2", "metal3")
    control.more = {"metal1": {"footprint_cluster": "blue"}, "metal3": {"footprint_cluster": "green"}}
    code, output = control.run("reduced.footprint.destroy_environment", "-e", "destroy_environment_confirm=blue", footprint_cluster="blue")
    assert code != 0 and "the servers are those of several clusters (blue, green). Select the servers of one with --limit." in output, output
    assert all(call["check"] for call in control.calls("virt_node"))


def environment(tmp_path: pathlib.Path) -> ControlNode:
    """Two servers of the cluster blue: metal1 has the VM notes, which is copied to metal2; w1 is a witness of both clusters."""
    control = ControlNode(tmp_path, "virt_node", "vm_info", "vm_standby_info", "vm_standby", "one_time_key", "failover_member")
    control.more = {"w1": {"ansible_host": "192.0.2.21"}}
    names = {"id": "notes", "part": "source", "cluster": "blue", "standby": "metal2", "former_standbys": []}
    names.update(key_accepted_by=["metal2", "w1"], public_key="ssh-ed25519 AAAA reduced.footprint-migrate-standby-notes@blue")
    source = {**names, "state": "copied", "phase": "prune", "kept_off": True}
    others = [{**source, "id": "web", "cluster": "green", "standby": "metal2"}, record("web", "green")]
    control.answers = empty("metal1", "metal2", "w1")
    control.answers |= {f"{name} {host}": {"changed": True} for name in ("vm_standby", "one_time_key") for host in ("metal1", "metal2", "w1")}
    control.answers["vm_standby_info metal1"] = {"standbys": [source, *others]}
    control.answers["vm_standby_info metal2"] = {"standbys": [record("notes", "blue"), *others]}
    control.answers["vm_standby_info w1"] = {"standbys": [*others, record("notes", "green", "started")]}
    return control


def record(vm_id: str, cluster: str, state: str = "receiving", phase: str | None = None) -> dict[str, t.Any]:
    return {"id": vm_id, "part": "standby", "cluster": cluster, "standby": None, "former_standbys": [], "state": state, "phase": phase}


def destroy(control: ControlNode, *options: str) -> tuple[int, str]:
    given = ("-e", "footprint_cluster=blue", "-e", '{"standby_witnesses": ["w1", "metal1"]}', "-e", "destroy_environment_confirm=blue")
    code, output = control.run("reduced.footprint.destroy_environment", *given, *options)
    return code, " ".join(output.split())


def unchanged(control: ControlNode) -> bool:
    return not control.calls("vm_standby") and not control.calls("one_time_key") and all(call["check"] for call in control.calls("virt_node"))


@pytest.mark.parametrize(("host", "limit"), [("metal2", "metal1,metal2"), ("w1", "metal1")])
def test_a_vm_that_runs_from_its_copy_is_refused_before_any_change(tmp_path: pathlib.Path, host: str, limit: str) -> None:
    control = environment(tmp_path)
    control.answers[f"vm_standby_info {host}"]["standbys"].append(record("notes", "blue", "started"))
    code, output = destroy(control, "--limit", limit)
    assert code != 0 and f"the start of a copy is recorded: notes on {host}. The VM may run there" in output and "docs/standby.md describes" in output
    assert unchanged(control)


def test_what_cannot_be_read_is_not_taken_for_empty(tmp_path: pathlib.Path) -> None:
    control = environment(tmp_path)
    del control.answers["vm_standby_info metal1"]
    control.answers["vm_standby_info w1"] = {"unreachable": True, "msg": "timed out"}
    code, output = destroy(control, "--limit", "metal1,metal2")
    assert code != 0 and "it is unknown whether VMs of this server run from their copies elsewhere: vm_standby_info has no answer for metal1." in output
    assert "not all servers can be emptied" in output and unchanged(control)


def test_a_machine_that_does_not_return_is_named(tmp_path: pathlib.Path) -> None:
    control = environment(tmp_path)
    control.answers["vm_standby_info w1"] = {"unreachable": True, "msg": "timed out"}
    code, output = destroy(control, "--limit", "metal1,metal2")
    assert code != 0 and "destroy_environment_lost: w1 may run notes from a copy, or know that it runs: it does not answer." in output and unchanged(control)
    code, output = destroy(control, "--limit", "metal1,metal2", "-e", '{"destroy_environment_lost": "w9, w1"}')
    assert code == 0 and "and the record of notes on metal2" in output and "and the record of notes on w1" not in output, output


def test_members_are_not_removed_while_another_run_restarts_them(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path / "locked", "virt_node", "vm_info", "vm_standby_info", "vm_standby", "one_time_key", "failover_member", "controlplane_lock")
    control.answers = environment(tmp_path / "answers").answers
    control.more = {"w1": {"ansible_host": "192.0.2.21"}}
    vm = {"name": "controller1", "fate": "removed", "origin": "", "roles": ["controller"]}
    control.answers["virt_node metal1"] = {"removal": {"vms": [vm], "lines": []}, "actions": []}
    control.answers["controlplane_lock controller1"] = {"failed": True, "msg": "rolling_restart of jo is running since noon"}
    (control.folder / "more.ini").write_text("[controller]\ncontroller1 vm_host=metal1\n", "ascii")
    code, output = destroy(control, "-i", str(control.folder / "more.ini"), "--limit", "metal1,metal2")
    assert code != 0 and "rolling_restart of jo is running since noon" in output, output
    assert unchanged(control) and [call["arguments"].get("state") for call in control.calls("controlplane_lock")] == [None, "absent"]


def test_copies_keys_and_records_of_the_environment_only_are_removed(tmp_path: pathlib.Path) -> None:
    control = environment(tmp_path)
    code, output = destroy(control, "--limit", "metal1,metal2")
    assert code == 0, output
    for line in ("remove the copies of notes on its standby", "remove the copies and the record of notes on this server",
                 "withdraw the key and the record of notes on metal2", "withdraw the key and the record of notes on w1"):  # fmt: skip
        assert line in output
    assert output.count("TASK [Remove the virtual machines (list only)]") == output.count("TASK [Remove the virtual machines]") == 1
    calls = control.calls("vm_standby") + control.calls("one_time_key")
    assert {(call["arguments"].get("id") or call["arguments"]["name"], call["arguments"]["cluster"]) for call in calls} == {("notes", "blue")}
    assert all(call["arguments"]["state"] == "absent" for call in calls)
    assert {call["host"] for call in control.calls("one_time_key")} == {"metal2", "w1"}
    # the server of the VM is the last one that forgets it
    hosts = [call["host"] for call in control.calls("vm_standby")]
    assert set(hosts) == {"metal1", "metal2", "w1"} and hosts.index("metal1") > max(hosts.index("w1"), hosts.index("metal2"))


def test_the_copies_of_a_lost_server_are_removed(tmp_path: pathlib.Path) -> None:
    control = environment(tmp_path)
    code, output = destroy(control, "--limit", "metal2")
    assert code == 0 and "remove the copies and the record of notes on this server" in output, output
    assert [(call["host"], call["arguments"]["id"], call["arguments"]["cluster"]) for call in control.calls("vm_standby")] == [("metal2", "notes", "blue")]
