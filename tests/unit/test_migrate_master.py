# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of migrate_master that only a run shows: what happens to the one-time key when the module fails."""

from __future__ import annotations

import base64
import datetime
import json
import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

ROLE = ROOT / "roles/master_migrate"


def failing(control: ControlNode, now: dict[str, t.Any] | None, **more: t.Any) -> list[str]:
    """Run the step whose module fails without a report; returns the states of the key that were requested.

    :arg now: the migration on the host afterwards, ``None`` for none.
    """
    control.answers = {
        "master_migrate metal2": {"failed": True, "msg": "the migration master is still running after wait_timeout."},
        "master_migrate_info metal2": {"migrations": [now] if now else []},
        "one_time_key metal1": {"changed": True},
    }
    (step,) = [task for task in yaml.safe_load((ROLE / "tasks/main.yml").read_text("utf-8")) if "rescue" in task]
    known = yaml.safe_load((ROLE / "defaults/main.yml").read_text("utf-8")) | yaml.safe_load((ROLE / "vars/main.yml").read_text("utf-8"))
    given = {"__master_migrate_known": [], "__master_migrate_facts": {}, "master_migrate_source": "metal1", "master_migrate_admin_address": "192.0.2.11"}
    code, output = control.play([step], "metal2", **{**known, **given, **more})
    assert code != 0 and "the migration master is still running" in output, output
    return [call["arguments"]["state"] for call in control.calls("one_time_key")]


@pytest.mark.parametrize(
    "now",
    [
        {"active": True, "state": "running", "phases": {"precopy": {}}},
        {"active": True, "state": "running", "phases": {"quiesce": {}}},
        {"active": False, "state": "interrupted", "phases": {"precopy": {}}},
        {"active": False, "state": "failed", "phases": {"quiesce": {}}},
    ],
    ids=["copies", "pause", "restart of the host", "unfinished"],
)
def test_the_key_of_a_migration_that_continues_is_kept(tmp_path: pathlib.Path, now: dict[str, t.Any]) -> None:
    # the run has waited for wait_timeout, or was refused while another job migrates
    assert failing(ControlNode(tmp_path, "master_migrate", "master_migrate_info", "one_time_key"), now) == []


@pytest.mark.parametrize(
    "now",
    [None, {"active": False, "state": "failed", "phases": {"precopy": {}}}, {"active": False, "state": "rolled_back", "phases": {"quiesce": {}}}],
    ids=["refused", "failed", "rolled back"],
)
def test_the_key_of_a_source_that_is_unchanged_is_withdrawn(tmp_path: pathlib.Path, now: dict[str, t.Any] | None) -> None:
    assert failing(ControlNode(tmp_path, "master_migrate", "master_migrate_info", "one_time_key"), now) == ["absent"]


def test_the_key_runs_the_hooks_of_the_job_that_uses_it(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "master_migrate", "one_time_key", "command")
    text = (ROLE / "tasks/key.yml").read_text("utf-8").replace("ansible.builtin.command", "reduced.footprint.command")
    control.answers = {
        "command metal2": {"stdout": '[{"prefsrc": "192.0.2.12"}]'},
        "master_migrate metal2": {"public_key": "k", "commands": [["/usr/local/bin/drain"]]},
        "one_time_key metal1": {"changed": True},
    }
    hooks = [{"phase": "quiesce", "on": "source", "command": ["/usr/local/bin/other"]}]
    given = {"master_migrate_name": "master", "master_migrate_source": "metal1", "master_migrate_hooks": hooks, "__master_migrate_key_address": "192.0.2.2"}
    code, output = control.play(yaml.safe_load(text), **given)
    assert code == 0, output
    assert [call["arguments"]["hooks"] for call in control.calls("master_migrate")] == [hooks]
    assert [call["arguments"]["commands"] for call in control.calls("one_time_key")] == [[["/usr/local/bin/drain"]]]
    # nothing is placed if another migration runs
    control.answers["master_migrate metal2"] = {"failed": True, "msg": "hooks: the migration master is running with other hooks."}
    code, output = control.play(yaml.safe_load(text), **given)
    assert code != 0 and not control.calls("one_time_key"), output


@pytest.mark.parametrize(("address", "good"), [("192.0.2.11", True), ("192.0.2.11/24", True), ("laptop.example.com", False), ("2001:db8::11", False)])
def test_the_master_needs_an_ipv4_address(tmp_path: pathlib.Path, address: str, good: bool) -> None:
    steps = [task for task in yaml.safe_load((ROLE / "tasks/prepare.yml").read_text("utf-8")) if task["name"] == "Check the addresses of the master"]
    code, output = ControlNode(tmp_path).play(steps, master_migrate_admin_address=address, master_migrate_temporary_address="192.0.2.12")
    assert (code == 0) == good, output
    assert good or f"master_migrate_admin_address: {address} is not an IPv4 address." in " ".join(output.split()), output


@pytest.mark.parametrize(
    ("answer", "rescued"), [({"unreachable": True, "msg": "No route to host"}, ["metal1 cannot be reached: No route to host"]), ({"source": {}}, [])]
)
def test_a_source_that_cannot_be_reached_is_no_error_of_the_connection_to_the_virt_host(
    tmp_path: pathlib.Path, answer: dict[str, t.Any], rescued: list[str]
) -> None:
    # a rescue would not be run, nor anything else on the virt host
    control = ControlNode(tmp_path, "master_source_info", "note")
    steps = yaml.safe_load((ROLE / "tasks/prepare.yml").read_text("utf-8"))
    first = next(number for number, task in enumerate(steps) if "reduced.footprint.master_source_info" in task)
    control.answers = {"master_source_info metal1": answer, "note metal2": {}}
    block = {"block": steps[first : first + 2], "rescue": [{"reduced.footprint.note": {"text": "{{ ansible_failed_result.msg }}"}}]}
    given = {"master_migrate_services": [], "master_migrate_containers": [], "master_migrate_excludes": [], "master_migrate_admin_address": "192.0.2.2"}
    code, output = control.play([block], "metal2", master_migrate_source="metal1", **given)
    assert code == 0 and [call["arguments"]["text"] for call in control.calls("note")] == rescued, output


def test_the_error_of_an_interrupted_migration_is_shown_without_the_name_of_the_source(tmp_path: pathlib.Path) -> None:
    now = {"active": False, "state": "failed", "phases": {"quiesce": {}}}
    control = ControlNode(tmp_path, "master_migrate", "master_migrate_info", "one_time_key")
    assert failing(control, now, master_migrate_source="", __master_migrate_known=[now]) == []


BOOT = "c0ffee00-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("state", "placed"),
    [
        ({"state": "serving", "boot_id": BOOT}, True),
        # restarted with its services stopped, so that it serves
        ({"state": "quiesced", "boot_id": "other"}, True),
        ({"state": "quiesced", "boot_id": "other", "maintenance": {"arrived": True}}, True),
        ({"state": "quiesced", "boot_id": "other", "maintenance": {"arrived": False}}, False),
        ({"state": "quiesced", "boot_id": BOOT}, False),
        ({"state": "parked", "boot_id": "other"}, False),
        # the VM at its address
        (None, False),
    ],
)
def test_an_expired_key_is_placed_again_on_a_source_that_serves(tmp_path: pathlib.Path, state: dict[str, t.Any] | None, placed: bool) -> None:
    # otherwise neither a further attempt nor a rollback reaches the source, if its host was down for a day in the pause
    control = ControlNode(tmp_path, "slurp", "one_time_key")
    steps = json.loads((json.dumps(yaml.safe_load((ROLE / "tasks/again.yml").read_text("utf-8")))).replace("ansible.builtin.slurp", "reduced.footprint.slurp"))
    # one answer for both files
    steps[0]["loop"] = ["state"]
    steps[1]["vars"]["__texts"] = f"{{{{ __master_migrate_state.results | map(attribute='content', default='') | map('b64decode') | list + ['{BOOT}'] }}}}"
    text = base64.b64encode(json.dumps(state).encode()).decode()
    control.answers = {"slurp metal1": {"content": text} if state else {"failed": True, "msg": "no such file"}, "one_time_key metal2": {}}
    (tmp_path / "key.yml").write_text(yaml.safe_dump([{"reduced.footprint.one_time_key": {"name": "{{ __master_migrate_key_address }}"}}]), "utf-8")
    before = {"migrations": [{"source": {"address": "192.0.2.2"}}]}
    code, output = control.play(steps, "metal2", master_migrate_source="metal1", master_migrate_name="master", __master_migrate_before=before)
    assert code == 0, output
    assert [call["arguments"]["name"] for call in control.calls("one_time_key")] == (["192.0.2.2"] if placed else [])


@pytest.mark.parametrize(
    ("now", "source", "renewed"),
    [
        ({"state": "failed", "phase": "final", "active": False, "phases": {"quiesce": {}}}, "metal1", True),
        ({"state": "interrupted", "phase": "cutover", "active": False, "phases": {"quiesce": {}}}, "metal1", True),
        ({"state": "running", "phase": "final", "active": True, "phases": {"quiesce": {}}}, "metal1", False),
        ({"state": "failed", "phase": "precopy", "active": False, "phases": {"precopy": {}}}, "metal1", False),
        ({"state": "failed", "phase": "commit", "active": False, "phases": {"quiesce": {}}}, "metal1", False),
        # the variable is not set, which is an error for delegate_to
        ({"state": "failed", "phase": "final", "active": False, "phases": {"quiesce": {}}}, "", False),
    ],
)
def test_a_rollback_of_an_interrupted_pause_renews_the_access(tmp_path: pathlib.Path, now: dict[str, t.Any], source: str, renewed: bool) -> None:
    steps = [task for task in yaml.safe_load((ROLE / "tasks/backward.yml").read_text("utf-8")) if "Renew the access" in task["name"]]
    (tmp_path / "again.yml").write_text(yaml.safe_dump([{"ansible.builtin.debug": {"msg": "it is renewed"}}]), "utf-8")
    code, output = ControlNode(tmp_path).play(steps, __master_migrate_before={"migrations": [now]}, master_migrate_source=source)
    assert code == 0 and ("it is renewed" in output) == renewed, output


@pytest.mark.parametrize(("hours", "refused"), [(1, True), (5, True), (7, False)])
def test_another_host_that_migrates_is_found_by_the_clock_of_the_source(tmp_path: pathlib.Path, hours: int, refused: bool) -> None:
    # years away from the clock of the control node; otherwise its one-time key would be replaced
    time = 1_500_000_000.0
    reported = datetime.datetime.fromtimestamp(time - hours * 3600, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    report = {"name": "master", "state": "running", "host": "metal1", "reported_at": reported}
    steps = [task for task in yaml.safe_load((ROLE / "tasks/prepare.yml").read_text("utf-8")) if "another host migrates" in task["name"]]
    given = {"__master_migrate_source_info": {"source": {"facts": {"time": time}, "reports": [report]}}, "ansible_facts": {"nodename": "metal2"}}
    code, output = ControlNode(tmp_path).play(steps, master_migrate_name="master", **given)
    assert (code != 0) == refused and ("metal1 is migrating this source" in output) == refused, output
