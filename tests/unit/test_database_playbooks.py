# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of restore_database and recover_database that only a run shows."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode

UUID = "aaaaaaaa-0000-11ef-8000-000000000001"
GIVEN = {
    "galera_group": "virt", "galera_cluster_name": "lab", **HERE,
}  # fmt: skip


def stopped(seqno: int, last: bool = False) -> dict[str, t.Any]:
    """Return the state of a stopped member."""
    return {"galera": {"running": False, "primary": False, "cluster_uuid": UUID, "seqno": seqno, "safe_to_bootstrap": last, "databases": []}}


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> ControlNode:
    control = ControlNode(tmp_path, "controlplane_lock", "galera_info", "galera_data", "galera_backup", "galera_backup_info", "service_files")
    backup = {"name": "lab-20261126T100000Z", "file": "lab-20261126T100000Z.mbs.zst", "cluster": "lab", "seqno": 9, "databases": ["app"]}
    control.answers = {
        "galera_backup_info localhost": {"backup": backup},
        "galera_data metal1": {"changed": True, "aside": "/var/lib/mysql.aside"},
        "galera_data metal2": {"changed": True, "aside": "/var/lib/mysql.aside"},
    }
    return control


def run(control: ControlNode, playbook: str, *options: str, **variables: t.Any) -> tuple[int, str]:
    """Run a playbook on members that are this machine."""
    return control.run(f"reduced.footprint.{playbook}", *options, "-e", json.dumps({**GIVEN, **variables}))


def test_a_backup_that_cannot_be_stored_does_not_stay_on_the_member(control: ControlNode) -> None:
    made = control.folder / "made.mbs.zst"
    made.write_text("data", "utf-8")
    control.answers.update({f"galera_info metal{number}": {"galera": {"running": True, "primary": True, "ready": True}} for number in (1, 2)})
    control.answers["galera_backup metal2"] = {"changed": True, "path": str(made), "backup": {"file": "lab-1.mbs.zst"}}
    control.answers["galera_backup localhost"] = {"failed": True, "msg": "No space left on device"}
    code, output = run(control, "backup_database", galera_backup_directory=str(control.folder / "store"))
    assert code != 0 and "No space left on device" in output
    assert not made.exists()


def test_a_restore_to_another_host_empties_no_member(control: ControlNode) -> None:
    given = {"galera_restore_file": "/backup/lab-20261126T100000Z.mbs.zst", "galera_restore_confirm": "lab"}
    code, output = run(control, "restore_database", "--check", **given, galera_restore_member="metal3")
    wanted = "Nothing was changed. galera_restore_member: metal3 is not a member of the cluster. Use one of metal1, metal2"
    assert code != 0 and wanted in " ".join(output.split())
    assert {call["name"] for call in control.calls()} == {"controlplane_lock"}


@pytest.mark.parametrize("restored", [None, "metal1", "metal2"])
def test_data_is_replaced_until_a_restore_is_verified(control: ControlNode, restored: str | None) -> None:
    """Whether a data directory exists says nothing: a member that was restarted has received that of the previous cluster."""
    tasks = [task for task in yaml.safe_load((ROOT / "roles/galera/tasks/restore.yml").read_text("utf-8")) if "reduced.footprint.galera_data" in task]
    found = {name: {"results": [{"stat": {"exists": exists}} for exists in (True, False, name == restored)]} for name in ("metal1", "metal2")}
    given = {**GIVEN, "found": found, "__galera_backup": {"backup": {"name": "lab-1", "file": "lab-1.mbs.zst"}}, "__galera_spool": "/spool"}
    before = {"ansible.builtin.set_fact": {"__galera_found_aside": "{{ found[inventory_hostname] }}"}}
    code, output = control.play([before, *tasks], "virt", **given, __galera_restorer="metal1", galera_restore_round=1)
    assert code == 0, output
    calls = [(call["host"], call["arguments"]["state"]) for call in control.calls("galera_data")]
    if restored:
        # from this or another member
        assert calls == []
        return
    # verified last: the others, which are emptied twice, have no data of the previous cluster then
    assert calls[0] == ("metal1", "prepared") and calls[3:] == [("metal2", "set_aside"), ("metal1", "verified")]
    assert sorted(calls[1:3]) == [("metal1", "replaced"), ("metal2", "set_aside")]
    assert {call["arguments"]["label"] for call in control.calls("galera_data")} == {"before-lab-1"}
    assert all(call["arguments"]["backup"]["name"] == "lab-1" for call in control.calls("galera_data"))


@pytest.mark.parametrize("position", [100, -1])
def test_data_is_always_set_aside_under_a_new_name(control: ControlNode, position: int) -> None:
    # the position of an earlier recovery, under whose name other data is kept
    control.answers.update({"galera_info metal1": stopped(position), "galera_info metal2": stopped(120)})
    code, output = run(control, "recover_database", "--check", galera_force_bootstrap="metal1")
    assert code == 0, output
    calls = {call["arguments"]["state"]: (call["host"], call["arguments"]["label"]) for call in control.calls("galera_data")}
    assert calls["set_aside"][0] == "metal2" and re.fullmatch(r"before-recovery-aaaaaaaa-120-[0-9]{8}T[0-9]{6}Z", calls["set_aside"][1])
    wanted = "before-recovery-aaaaaaaa-100" if position == 100 else r"before-recovery-aaaaaaaa--1-[0-9]{8}T[0-9]{6}Z"
    assert calls["copied"][0] == "metal1" and re.fullmatch(wanted, calls["copied"][1])


def test_a_forced_recovery_without_the_first_member(control: ControlNode) -> None:
    control.answers.update({"galera_info metal1": {"unreachable": True, "msg": "No route to host"}, "galera_info metal2": stopped(120)})
    code, output = run(control, "recover_database", "--check", galera_force_bootstrap="metal2")
    assert code == 0 and "check mode: nothing was started" in output, output
    assert [(call["host"], call["arguments"]["label"]) for call in control.calls("galera_data")] == [("metal2", "before-recovery-aaaaaaaa-120")]


def test_a_recovery_does_not_need_a_member_that_cannot_be_reached(control: ControlNode) -> None:
    # nothing listens there: each task that connects to it fails
    control.more = {"metal1": {"ansible_host": "127.0.0.1", "ansible_port": 1}}
    control.answers.update({"galera_info metal1": {"unreachable": True, "msg": "Connection refused"}, "galera_info metal2": stopped(120)})
    given = {"galera_group": "virt", "galera_cluster_name": "lab", "galera_force_bootstrap": "metal2"}
    code, output = control.run("reduced.footprint.recover_database", "--check", "-e", json.dumps(given), **HERE)
    assert code == 0 and "check mode: nothing was started" in output, output
    assert [call["host"] for call in control.calls("galera_data")] == ["metal2"]
