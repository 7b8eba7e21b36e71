# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of replace_server and provision_virt that only a run shows."""

from __future__ import annotations

import json
import pathlib

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

OLD, NEW, OTHER = ("1" * 32, "2" * 32, "3" * 32)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs"
RSA = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDf"
EARLIER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOldOldOldOldOldOldOldOldOldOldOldOldOldOldOl"


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> ControlNode:
    control = ControlNode(
        tmp_path, "controlplane_info", "controlplane_lock", "server_identity_info", "server_identity", "vm_info", "vm_standby_info", "vm_standby"
    )
    record = {"name": "metal2", "machine_id": OLD, "product_uuid": "", "address": "192.0.2.12", "at": "20261124T190000Z"}
    records = [{**record, "state": "known", "old": [], "proof": ""}]
    control.answers = {
        "server_identity_info metal1": {"identity": {"here": {"machine_id": OTHER, "product_uuid": ""}, "records": records}},
        "server_identity_info metal2": {"identity": {"here": {"machine_id": NEW, "product_uuid": ""}, "records": []}},
        "server_identity metal1": {"changed": True},
        "server_identity metal2": {"changed": True},
        "vm_info metal1": {"vms": []},
        "vm_info metal2": {"vms": []},
        "vm_standby_info metal1": {"standbys": []},
        "vm_standby_info metal2": {"standbys": []},
        "vm_standby metal1": {"changed": True},
    }
    return control


@pytest.mark.parametrize(("pinned", "entry"), [(False, "192.0.2.12"), (True, "metal2")])
def test_check_mode_reads_a_machine_whose_host_key_is_not_accepted_yet(control: ControlNode, pinned: bool, entry: str) -> None:
    known = control.folder / (".ssh/known_hosts" if not pinned else "known_hosts.txt")
    known.parent.mkdir(exist_ok=True)
    known.write_text(f"{entry} {EARLIER}\n", "utf-8")
    pin = {"ansible_ssh_extra_args": f"-o HostKeyAlias=metal2 -o GlobalKnownHostsFile={known}", "footprint_known_hosts": str(known)} if pinned else {}
    given = ("-e", json.dumps({"replace_server_name": "metal2", "replace_server_confirm": "metal2", "replace_server_host_key": KEY}))
    code, output = control.run("reduced.footprint.replace_server", "--check", *given, **pin)
    assert code == 0, output
    assert f"metal2: the machine {NEW} takes over from the machine {OLD}" in output
    assert known.read_text("utf-8") == f"{entry} {EARLIER}\n"
    assert {(call["host"], call["keys"]) for call in control.calls()} == {("metal1", None), ("metal2", f"{entry} {KEY}\n")}
    assert not any(pathlib.Path(call["file"]).exists() for call in control.calls() if call["file"])


def test_the_host_key_of_the_new_machine_replaces_those_of_the_earlier_one_of_every_type(control: ControlNode) -> None:
    known = control.folder / ".ssh/known_hosts"
    known.parent.mkdir()
    # ssh would ask the new machine for the type that the file has
    known.write_text(f"192.0.2.12 {RSA}\n192.0.2.11 {EARLIER}\n192.0.2.12 {EARLIER}\n", "utf-8")
    # what follows is not of interest
    control.answers["server_identity_info metal2"] = {"failed": True, "msg": "no answer"}
    control.run("reduced.footprint.replace_server", "-e", json.dumps({"replace_server_name": "metal2", "replace_server_host_key": KEY}))
    assert known.read_text("utf-8") == f"192.0.2.11 {EARLIER}\n192.0.2.12 {KEY}\n"


def test_the_temporary_host_key_is_removed_after_a_failure(control: ControlNode) -> None:
    control.answers["server_identity_info metal2"] = {"failed": True, "msg": "Failed to connect:\nHost key verification failed."}
    given = ("-e", json.dumps({"replace_server_name": "metal2", "replace_server_host_key": KEY}))
    code, output = control.run("reduced.footprint.replace_server", "--check", *given)
    assert code != 0 and "metal2 does not answer at 192.0.2.12 (Host key verification failed). Install the new machine" in output
    assert not list(control.folder.glob("*.known_hosts"))


def start(control: ControlNode) -> tuple[int, str]:
    """Run the steps that start a VM from its copy on metal1."""
    (control.folder / "move_vm_steps.yml").write_text("[]\n", "utf-8")
    (control.folder / "start.yml").write_text((ROOT / "playbooks/tasks/replace_server_standby.yml").read_text("utf-8"), "utf-8")
    vm = {"id": "notes", "name": "notes", "way": "standby", "server": "metal1", "copy": "20261126T100000Z"}
    plan = {"name": "metal2", "proof": "person metal2"}
    return control.play([{"ansible.builtin.include_tasks": "start.yml"}], "metal1", __replace_server_vm=vm, __replace_server_plan=plan)


def test_a_vm_on_the_new_machine_is_not_replaced_by_its_copy(control: ControlNode) -> None:
    # its virtual machines could not be listed at the begin
    control.answers["vm_info metal2"] = {"vms": [{"id": "notes", "name": "notes", "state": "shutdown", "moved": None}]}
    code, output = start(control)
    assert code != 0 and "notes is already on metal2, which could not list its virtual machines before. It was not started" in " ".join(output.split())
    assert not control.calls("vm_standby")
    control.answers["vm_info metal2"] = {"vms": [{"id": "web", "name": "web", "state": "running", "moved": None}]}
    code, output = start(control)
    assert code == 0 and [call["arguments"]["state"] for call in control.calls("vm_standby")] == ["started"], output


def test_a_new_virt_host_learns_which_machines_the_others_are(control: ControlNode) -> None:
    # provision_virt for metal2 only; the other server is the one that may be lost next
    tasks = yaml.safe_load((ROOT / "playbooks/provision_virt.yml").read_text("utf-8"))[0]["post_tasks"]
    code, output = control.play(tasks)
    assert code == 0, output
    recorded = {call["host"]: [one["name"] for one in call["arguments"]["machines"]] for call in control.calls("server_identity")}
    assert recorded == {"metal1": ["metal2", "metal1"], "metal2": ["metal2", "metal1"]}
    # one that is down is left out, and does not end the run
    control.answers["server_identity_info metal1"] = control.answers["server_identity metal1"] = {"unreachable": True, "msg": "down"}
    code, output = control.play(tasks)
    (mine,) = [call for call in control.calls("server_identity") if call["host"] == "metal2"]
    assert code == 0 and [one["name"] for one in mine["arguments"]["machines"]] == ["metal2"], output


@pytest.mark.parametrize("busy", [True, False])
def test_a_vm_is_started_from_its_copy_while_no_other_run_restarts_members(control: ControlNode, tmp_path: pathlib.Path, busy: bool) -> None:
    # another run may restart the server on which it is started
    play = next(one for one in yaml.safe_load((ROOT / "playbooks/replace_server.yml").read_text("utf-8")) if one["name"].startswith("Start virtual machines"))
    (tmp_path / "tasks").mkdir()
    for name in ("controlplane_lock", "controlplane_unlock"):
        (tmp_path / f"tasks/{name}.yml").write_text((ROOT / f"playbooks/tasks/{name}.yml").read_text("utf-8"), "utf-8")
    (tmp_path / "tasks/replace_server_standby.yml").write_text("- reduced.footprint.vm_standby: {state: started}\n", "utf-8")
    control.more = {"c1": {"node_roles": ["controller"]}, "c3": {"node_roles": ["controller"]}}
    (tmp_path / "more.yml").write_text("{controller: {hosts: {c1: {}, c3: {}}}}", "utf-8")
    if busy:
        control.answers["controlplane_lock c3"] = {"failed": True, "msg": "maintain_virt_node of root on admin has been restarting members"}
    plan = {"name": "metal2", "ways": [{"id": "notes", "name": "notes", "way": "standby", "server": "metal1"}]}
    code, output = control.play(play["tasks"], "metal1", "-i", str(tmp_path / "more.yml"), **play["vars"], __replace_server_plan=plan)
    calls = [(call["name"], call["host"], call["arguments"].get("state", "present")) for call in control.calls()]
    taken, left = ([("controlplane_lock", host, state) for host in ("c1", "c3")] for state in ("present", "absent"))
    assert (code != 0) == busy and ("maintain_virt_node of root on admin" in output) == busy, output
    assert calls == [*taken, *([] if busy else [("vm_standby", "metal1", "started")]), *left], output
