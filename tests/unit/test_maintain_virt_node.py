# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of maintain_virt_node that only a run shows: what the next run finds after a kill."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode

BMC = {"bmc": {"address": "192.0.2.42", "user": "operator", "secret": "bmc/metal2"}}


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> ControlNode:
    control = ControlNode(tmp_path, "server_power", "vm_info")
    (tmp_path / "bmc").mkdir()
    (tmp_path / "bmc/metal2.txt").write_text("not-a-real-one\n", "utf-8")
    (tmp_path / "bmc/metal2.txt").chmod(0o600)
    control.answers = {"server_power localhost": {"changed": True}}
    return control


def kept(control: ControlNode, **values: t.Any) -> pathlib.Path:
    file = control.folder / ".maintenance-footprint.json"
    file.write_text(json.dumps({"schema": 1, "server": "", "stage": "", "steps": [], "done": [], **values}), "utf-8")
    return file


def test_the_journal_of_a_complete_run_is_removed(control: ControlNode) -> None:
    # otherwise no later run would maintain a server, and each would succeed
    file = kept(control, done=["metal1", "metal2"])
    code, output = control.run("reduced.footprint.maintain_virt_node", "--check")
    assert code == 0 and file.exists(), output
    code, output = control.run("reduced.footprint.maintain_virt_node")
    assert code == 0 and not file.exists(), output
    assert "metal1, metal2: already maintained by the run that was interrupted" in output and "That run is complete now" in output
    assert not control.calls()
    code, output = control.run("reduced.footprint.maintain_virt_node")
    # the next run begins with the first server
    assert code != 0 and [(call["name"], call["host"]) for call in control.calls()] == [("vm_info", "metal1")], output


def test_a_job_of_awx_needs_a_journal_that_survives(control: ControlNode) -> None:
    job = ("reduced.footprint.maintain_virt_node", "-e", "awx_job_id=7")
    code, output = control.run(*job)
    assert code != 0 and "maintain_virt_node_journal: it is not set, but a job of AWX loses its files" in " ".join(output.split()) and not control.calls()
    code, output = control.run(*job, "-e", "maintain_virt_node_journal=/missing/journal")
    assert code != 0 and "maintain_virt_node_journal: /missing/journal, but" in " ".join(output.split()) and not control.calls()
    for options in (("-e", f"maintain_virt_node_journal={control.folder}/journal"), ("--check",)):
        code, output = control.run(*job, *options)
        assert "loses its files" not in output and control.calls(), output


@pytest.mark.parametrize(("stage", "calls"), [("restarting", ["server_power", "vm_info"]), ("emptying", ["vm_info"])])
def test_a_server_that_was_left_switched_off_is_switched_on(control: ControlNode, stage: str, calls: list[str]) -> None:
    kept(control, server="metal2", stage=stage, done=["metal1"])
    code, output = control.run("reduced.footprint.maintain_virt_node", "--check", footprint_secrets=str(control.folder), **BMC)
    assert code != 0 and [call["name"] for call in control.calls()] == calls, output
    if stage == "restarting":
        assert control.calls("server_power")[0]["arguments"]["state"] == "on"


def test_the_control_node_is_not_shut_down(control: ControlNode) -> None:
    macs = {path.read_text("ascii").strip().upper() for path in pathlib.Path("/sys/class/net").glob("*/address")} - {"00:00:00:00:00:00", ""}
    assert macs, "a machine that runs these tests has a network card"
    vms = [{"name": "master", "id": "master", "state": "running", "moved": None, "instance": None, "hypervisor": "qemu", "macs": sorted(macs)}]
    control.answers["vm_info metal2"] = {"vms": vms}
    code, output = control.run("reduced.footprint.maintain_virt_node", "--check", "-e", "maintain_virt_node_servers=metal2")
    assert code != 0 and "metal2 was not changed: master runs this playbook, which would end with its shutdown." in " ".join(output.split()), output


@pytest.mark.parametrize(("servers", "named"), [(["metal2"], True), (["metal1"], False)])
def test_volumes_on_the_disks_of_the_server_are_named(control: ControlNode, servers: list[str], named: bool) -> None:
    control.answers["vm_info metal2"] = {"vms": []}
    (control.folder / "compute.yml").write_text(yaml.safe_dump({"compute": {"hosts": {"metal1": {}, "metal2": {}}}}), "utf-8")
    backends = {"local": {"type": "lvm", "volume_group": "cinder-volumes", "servers": servers}}
    options = ["-i", str(control.folder / "compute.yml"), "-e", "maintain_virt_node_servers=metal2"]
    _code, output = control.run("reduced.footprint.maintain_virt_node", "--check", *options, cinder_volume_backends=backends)
    assert ("volumes of local are on the disks of metal2: instances on other servers wait for them while it is off" in output) == named, output
    assert "metal2: maintenance" in output, output


@pytest.mark.parametrize(("action", "asked"), [("move", 1), ("stop", 0)])
def test_a_vm_that_was_moved_is_copied_to_its_standby_again(tmp_path: pathlib.Path, action: str, asked: int) -> None:
    control = ControlNode(tmp_path, "vm_standby_info")
    control.answers = {"vm_standby_info metal2": {"standbys": []}}
    block = next(task["block"] for task in yaml.safe_load((ROOT / "playbooks/tasks/maintain_virt_node_steps.yml").read_text("utf-8")) if "rescue" in task)
    names = [task["name"] for task in block]
    tasks = [task for task in block if "standby" in task["name"]]
    assert names.index("Return the virtual machines that were moved") < names.index(tasks[0]["name"]) and len(tasks) == 2
    code, output = control.play(tasks, "metal2", __maintain_plan={"steps": [{"name": "web", "action": action}]})
    assert code == 0 and len(control.calls("vm_standby_info")) == asked, output


@pytest.mark.parametrize(("failed", "said"), [("web", "Shut down: web: the VM is not off. The"), ("", "Shut down: it is full. The")])
def test_the_report_names_the_vm_that_failed(tmp_path: pathlib.Path, failed: str, said: str) -> None:
    control = ControlNode(tmp_path, "server_power")
    control.answers = {"server_power metal2": {"failed": True, "msg": "the VM is not off."}}
    rescue = next(task["rescue"] for task in yaml.safe_load((ROOT / "playbooks/tasks/maintain_virt_node_steps.yml").read_text("utf-8")) if "rescue" in task)
    task: dict[str, t.Any] = {"name": "Shut down", "ansible.builtin.fail": {"msg": "it is full."}}
    if failed:
        task = {"name": "Shut down", "reduced.footprint.server_power": {"vm": "{{ item.name }}"}, "loop": [{"name": failed}]}
    code, output = control.play([{"block": [task], "rescue": rescue}], "metal2", __maintain_plan={"steps": [{"name": "web"}]})
    assert code != 0 and f"metal2: {said} maintenance stops here, and no other server is changed. Its VMs are web." in " ".join(output.split()), output


RECORD = {"disable": True, "steps": [{"id": "u1", "name": "web", "action": "migrate", "stop": False, "destination": "metal1"}]}
PLANNED = {"record": RECORD, "lines": ["instance web is migrated live to metal1"], "actions": ["migrate instance web to metal1"]}


def computing(tmp_path: pathlib.Path, planned: dict[str, t.Any], *options: str, **variables: t.Any) -> tuple[ControlNode, int, str]:
    """Maintain metal2, a compute server with an instance, after a login to the cloud."""
    control = ControlNode(tmp_path, "vm_info", "compute_instances", "controlplane_info")
    (tmp_path / "compute.yml").write_text(yaml.safe_dump({"compute": {"hosts": {"metal2": {}}}}), "utf-8")
    instance = {"name": "instance-1", "id": None, "uuid": "u1", "state": "running", "moved": None, "instance": {"name": "web"}, "hypervisor": "qemu"}
    control.answers = {"vm_info metal2": {"vms": [instance]}, "compute_instances localhost check": planned}
    control.answers["compute_instances localhost"] = {"failed": True, "msg": "Nova did not migrate instance web."}
    if "journal" in variables:
        kept(control, **variables.pop("journal"))
    given = ("-i", str(tmp_path / "compute.yml"), "-e", "maintain_virt_node_servers=metal2", *options)
    code, output = control.run("reduced.footprint.maintain_virt_node", *given, **{"__cloud_file": "/clouds.yaml", **variables})
    return control, code, " ".join(output.split())


def test_a_check_shows_where_instances_go_and_changes_none(tmp_path: pathlib.Path) -> None:
    control, code, output = computing(tmp_path, PLANNED, "--check", maintain_virt_node_stop_instances=True, compute_hostname="nova2")
    (call,) = control.calls("compute_instances")
    assert code == 0 and "instance web is migrated live to metal1" in output, output
    assert call["check"] and (call["arguments"]["server"], call["arguments"]["stop"], call["arguments"]["record"]) == ("nova2", True, {})


def test_the_journal_has_the_instances_before_one_is_migrated(tmp_path: pathlib.Path) -> None:
    control, code, output = computing(tmp_path, PLANNED)
    assert code != 0 and "Nova did not migrate instance web." in output, output
    assert [(call["check"], call["arguments"]["record"]) for call in control.calls("compute_instances")] == [(True, {}), (False, RECORD)]
    written = json.loads((tmp_path / ".maintenance-footprint.json").read_text("utf-8"))
    assert written["instances"] == RECORD and (written["server"], written["stage"]) == ("metal2", "emptying")


def test_a_run_after_a_kill_passes_the_record_of_the_instances(tmp_path: pathlib.Path) -> None:
    control, _code, output = computing(tmp_path, PLANNED, "--check", journal={"server": "metal2", "stage": "emptying", "instances": RECORD})
    assert control.calls("compute_instances")[0]["arguments"]["record"] == RECORD, output


@pytest.mark.parametrize("reason", ["cannot list the instances of metal2: HTTP 503", "instance web is ERROR"])
def test_instances_that_cannot_leave_are_a_reason_against_it(tmp_path: pathlib.Path, reason: str) -> None:
    control, code, output = computing(tmp_path, {"failed": True, "msg": f"{reason}."})
    assert code != 0 and f"metal2 was not changed: its instances: {reason}; instance-1 is an instance of a cloud" in output, output
    assert len(control.calls("compute_instances")) == 1 and not (tmp_path / ".maintenance-footprint.json").exists()


def test_instances_leave_before_the_members_of_the_control_plane() -> None:
    first = yaml.safe_load((ROOT / "playbooks/tasks/maintain_virt_node_restart.yml").read_text("utf-8"))[0]
    assert first["ansible.builtin.include_tasks"] == "compute_instances.yml"
    block = next(task["block"] for task in yaml.safe_load((ROOT / "playbooks/tasks/maintain_virt_node_steps.yml").read_text("utf-8")) if "rescue" in task)
    names = [task["name"] for task in block]
    order = ["Start the virtual machines that were shut down", "Check that the control plane is healthy", "Bring the instances back", "Verify the cloud"]
    assert sorted(order, key=names.index) == order


@pytest.mark.parametrize(
    ("failed", "requested", "said"),
    [
        ("Check the external network", None, "The cloud is not verified: no network"),
        ("Check the external network", True, "The cloud was verified before the first server: no network"),
        ("Read the networks, images and projects", None, "The cloud was verified before the first server: no network"),
        ("Check the external network", False, ""),
    ],
)
def test_the_verification_is_left_out_only_without_what_it_needs(tmp_path: pathlib.Path, failed: str, requested: bool | None, said: str) -> None:
    control = ControlNode(tmp_path)
    (task,) = yaml.safe_load((ROOT / "playbooks/tasks/maintain_virt_node_verify.yml").read_text("utf-8"))
    task["block"] = [{"name": failed, "ansible.builtin.fail": {"msg": "no network"}}]
    given = {} if requested is None else {"maintain_virt_node_verify_cloud": requested}
    code, output = control.play([task], "metal2", **given)
    assert (code != 0) == said.startswith("The cloud was verified") and said in " ".join(output.split()), output


def test_servers_with_the_role_compute_need_a_login_only_if_there_is_a_cloud(control: ControlNode) -> None:
    more = control.folder / "compute.yml"
    more.write_text(yaml.safe_dump({name: {"hosts": {"metal1": {}}} for name in ("compute", "controller")}), "utf-8")
    options = ("-i", str(more), "--check", "-e", f"footprint_secrets={control.folder}")
    code, output = control.run("reduced.footprint.maintain_virt_node", *options)
    assert code != 0 and [(call["name"], call["host"]) for call in control.calls()] == [("vm_info", "metal1")], output
    cloud = ("-e", '{"footprint_cloud": true, "load_balancer_virtual_address": "192.0.2.20"}')
    code, output = control.run("reduced.footprint.maintain_virt_node", *options, *cloud)
    assert code != 0 and "keystone_ca: " in output and not control.calls(), output
    # otherwise the cloud would start instances on a server that is restarted
    control.more = {"metal3": {"ansible_host": "192.0.2.13"}}
    more.write_text(yaml.safe_dump({"compute": {"hosts": {"metal1": {}}}, "controller": {"hosts": {"metal3": {}}}}), "utf-8")
    code, output = control.run("reduced.footprint.maintain_virt_node", *options, *cloud, "--limit", "metal1,metal2")
    assert code != 0 and "metal3 is excluded by --limit metal1,metal2." in output and not control.calls(), output
    # another server has no instances
    code, output = control.run("reduced.footprint.maintain_virt_node", *options, *cloud, "-e", "maintain_virt_node_servers=metal2")
    assert code != 0 and [(call["name"], call["host"]) for call in control.calls()] == [("vm_info", "metal2")], output


def test_after_a_restart_each_host_is_asked_for_its_own_services(tmp_path: pathlib.Path) -> None:
    """A witness that was the master has a database of its own, which does not run."""
    control = ControlNode(tmp_path, "controlplane_info")
    groups = {"controller": ["c1", "c2"], "witness": ["w"]}
    hosts = {name: HERE for name in ("c1", "c2", "w")}
    inventory = {"all": {"hosts": hosts, "children": {name: {"hosts": dict.fromkeys(found)} for name, found in groups.items()}}}
    (tmp_path / "more.yml").write_text(yaml.safe_dump(inventory), "utf-8")
    control.answers = {f"controlplane_info {name}": {"controlplane": {"services": {}}} for name in hosts}
    look = [{"ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/controlplane_look.yml")}]
    for wait in (0, 30):
        code, output = control.play(look, "metal1", "-i", str(tmp_path / "more.yml"), __controlplane_wait=wait, __controlplane_hosts=list(hosts))
        asked = {call["host"]: call["arguments"]["services"] for call in control.calls()}
        assert code == 0 and asked.keys() == hosts.keys(), output
        assert (asked["w"], "galera" in asked["c1"]) == ((["rabbitmq", "witness"], True) if wait else ([], False)), output
        # the task that waits was not skipped
        assert output.count("item=w") == (2 if wait else 1), output


def test_all_hosts_have_one_time_limit_after_a_restart(tmp_path: pathlib.Path) -> None:
    """One that does not answer does not lengthen the wait for the others."""
    control = ControlNode(tmp_path, "controlplane_info")
    dead = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    hosts = {"c1": HERE, "c2": dead, "c3": dead, "c4": HERE}
    (tmp_path / "more.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "children": {"controller": {"hosts": dict.fromkeys(hosts)}}}}), "utf-8")
    control.answers = {f"controlplane_info {name}": {"controlplane": {"services": {}}} for name in hosts}
    look = [{"ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/controlplane_look.yml")}]
    code, output = control.play(look, "metal1", "-i", str(tmp_path / "more.yml"), __controlplane_wait=8, __controlplane_hosts=list(hosts))
    waits = {call["host"]: call["arguments"]["wait_timeout"] for call in control.calls()}
    assert code == 0 and waits == dict.fromkeys(hosts, 1), output
    assert "failed: [metal1 -> c3" in output, output
    code, output = control.play(look, "metal1", "-i", str(tmp_path / "more.yml"), __controlplane_wait=300, __controlplane_hosts=["c1", "c4"])
    assert code == 0 and all(280 < call["arguments"]["wait_timeout"] <= 300 for call in control.calls()), output


@pytest.mark.parametrize(("said", "tries"), [("Unable to establish connection to https://192.0.2.20:8774/: Connection aborted.", 4), ("No valid host.", 1)])
def test_a_broken_connection_does_not_end_the_verification(tmp_path: pathlib.Path, said: str, tries: int) -> None:
    control = ControlNode(tmp_path, "server_power")
    control.answers = {"server_power metal2": {"failed": True, "msg": said}}
    (task,) = yaml.safe_load((ROOT / "playbooks/tasks/verify_cloud_server.yml").read_text("utf-8"))
    create = {key: value for key, value in task["block"][0].items() if not key.startswith("openstack.cloud")}
    code, output = control.play([{**create, "reduced.footprint.server_power": {}, "delay": 0}], "metal2")
    assert code != 0 and len(control.calls()) == tries, output
