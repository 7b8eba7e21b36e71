# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of remove_virt_node that only a run shows."""

from __future__ import annotations

import json
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


@pytest.fixture(autouse=True)
def systemctl(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The servers have a systemd, for which nova-compute does not run."""
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho inactive\nexit 3\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return program


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


MODULES = (
    "controlplane_lock", "controlplane_info", "vm_info", "virt_node_info", "vm_standby_info", "footprint_plan", "virt_node", "vm_standby", "one_time_key",
    "failover_member",
)  # fmt: skip


_NOTHING_MISSING = """
from ansible.plugins.lookup import LookupBase

class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        return []
"""


def remove(control: ControlNode, *options: str, **given: t.Any) -> tuple[int, str]:
    """Remove metal2, whose VM notes is copied to metal1; w1 is a witness."""
    shared = {**LOCAL, "footprint_cluster": "lab"}
    control.more = {name: {**shared, "ansible_host": f"192.0.2.{number}"} for name, number in (("metal1", 11), ("w1", 21))}
    source = {"id": "notes", "part": "source", "cluster": "lab", "standby": "metal1", "state": "copied", "automatic": True, "public_key": "ssh-ed25519 AAAA"}
    source["key_accepted_by"] = ["metal1", "w1", "gone"]
    control.answers = {
        **{f"{name} {host}": {"changed": True} for name in ("vm_standby", "one_time_key", "failover_member") for host in ("metal1", "metal2", "w1")},
        **{f"{name} {host}": {key: value} for name, key, value in (("vm_info", "vms", []), ("virt_node_info", "node", {}), ("vm_standby_info", "standbys", []))
           for host in ("metal1", "w1", "metal2")},
        "footprint_plan localhost": {"servers": [{"name": "metal2", "lost": {"sentence": "If metal2 is lost: notes is down."}}]},
        "virt_node metal2": {"changed": True, "removal": {"vms": [{"id": "notes", "fate": "removed"}, {"id": "vault", "fate": "protected"}]}, "actions": []},
        "vm_standby_info metal2": {"standbys": [source, {**source, "id": "vault"}]},
        **control.answers,
    }  # fmt: skip
    return control.run("reduced.footprint.remove_virt_node", "-e", "remove_virt_node_name=metal2", *options, **{**shared, **given})


def test_the_copies_of_removed_vms_end(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, *MODULES)
    # its standby is down
    control.answers = {"vm_standby metal1": {"unreachable": True, "msg": "down"}}
    code, output = remove(control, **CONFIRMED, remove_virt_node_remove_vms=True)
    assert code == 0 and "If metal2 is lost: notes is down." in output, output
    calls = [(call["host"], call["arguments"].get("id") or call["arguments"]["name"], call["arguments"]["state"]) for call in control.calls()
             if call["name"] in ("vm_standby", "one_time_key")]  # fmt: skip
    assert calls == [
        ("metal2", "notes", "disarmed"), ("metal1", "notes", "absent"), ("w1", "notes", "absent"),
        ("metal2", "notes", "absent"),
    ]  # fmt: skip


def test_nothing_ends_without_confirmation(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, *MODULES)
    # what would be refused is listed as well
    control.answers = {"vm_standby_info metal2": {"failed": True, "msg": "broken record"}}
    code, output = remove(control, remove_virt_node_remove_vms=True)
    assert code == 0 and control.calls("virt_node") and not control.calls("vm_standby") + control.calls("one_time_key"), output


def test_a_server_whose_copies_cannot_be_listed_is_not_removed(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, *MODULES)
    control.answers = {"vm_standby_info metal2": {"failed": True, "msg": "broken record"}}
    # also if the role was removed from the inventory before
    code, output = remove(control, **CONFIRMED, node_roles=["compute"])
    assert code != 0 and "which of its own are copied: broken record." in output and not control.calls("virt_node"), output


def test_a_server_whose_nova_compute_is_unknown_is_not_removed(tmp_path: pathlib.Path, systemctl: pathlib.Path) -> None:
    systemctl.write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n", "utf-8")
    control = ControlNode(tmp_path, *MODULES)
    code, output = remove(control, **CONFIRMED)
    assert code != 0 and "it is unknown whether nova-compute runs on metal2: Failed to connect to bus." in output and not control.calls("virt_node"), output


def test_instances_are_migrated_before_the_node_is_removed(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, *MODULES, "compute_instances")
    planned = {"record": {"disable": True, "steps": []}, "lines": ["instance web is migrated live to metal1"], "actions": []}
    control.answers = {"compute_instances localhost": planned, "compute_instances localhost check": planned}
    # the environment of these tests has no openstacksdk
    lookups = tmp_path / "collections/ansible_collections/reduced/footprint/plugins/lookup"
    lookups.unlink()
    lookups.mkdir()
    for path in (ROOT / "plugins/lookup").glob("*.py"):
        (lookups / path.name).symlink_to(path)
    (lookups / "cloud_client.py").unlink()
    (lookups / "cloud_client.py").write_text(_NOTHING_MISSING, "utf-8")
    (tmp_path / "cloud.yml").write_text(yaml.safe_dump({"keystone": {"hosts": {"metal1": {}}}}), "utf-8")
    login = {"keystone_public_url": "http://192.0.2.20:5000/v3", "keystone_admin_password": "x", "footprint_secrets": str(tmp_path / "secrets")}
    migrate = ("-e", "remove_virt_node_migrate_instances=true")
    given = (*migrate, "-i", str(tmp_path / "cloud.yml"), "-e", json.dumps(login))
    # without the confirmation they are listed
    code, output = remove(control, *given)
    (call,) = control.calls("compute_instances")
    assert code == 0 and call["check"] and "instance web is migrated live to metal1" in output, output
    for options, why in (
        (migrate, "remove_virt_node_migrate_instances: no host or group of the inventory is named controller."),
        ((*given, "--limit", "metal2"), "remove_virt_node_migrate_instances: keystone[0] is excluded by --limit metal2."),
    ):
        code, output = remove(control, *options, **CONFIRMED)
        assert code != 0 and why in output and not control.calls("virt_node"), output
    code, output = remove(control, *given, **CONFIRMED)
    calls = [(call["name"], call["check"]) for call in control.calls() if call["name"] in ("compute_instances", "virt_node")]
    assert code == 0 and calls == [("virt_node", True), ("compute_instances", False), ("virt_node", False)], output
    assert control.calls("compute_instances")[0]["arguments"]["removal"]
    # what is refused only because they are still there is no reason against their migration
    assert [call["arguments"]["leave_instances"] for call in control.calls("virt_node")] == [True, False]
    # nothing is removed with an instance that cannot leave
    control.answers["compute_instances localhost"] = {"failed": True, "msg": "instance web is off (SHUTOFF), and cannot be migrated."}
    code, output = remove(control, *given, **CONFIRMED)
    assert code != 0 and "instance web is off" in output and [call["check"] for call in control.calls("virt_node")] == [True], output
    # the cloud does not lose a server that is not removed
    refused = {"failed": True, "msg": "vault is protected.", "error": {}, "removal": {"lines": ["vault stays"]}}
    control.answers = {"compute_instances localhost": planned, "virt_node metal2": refused}
    code, output = remove(control, *given, **CONFIRMED)
    assert code != 0 and "vault is protected." in output and "vault stays" in output and not control.calls("compute_instances"), output
