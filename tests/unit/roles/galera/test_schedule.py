# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host of the daily backups is checked before anything is changed, and only one host fetches them."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode

TASKS = ROOT / "roles/galera/tasks"


@pytest.mark.parametrize(
    ("host", "words"),
    [("metal1", ""), ("", ""), ("metal2", "galera_backup_host: metal2 must be"), ("store9", "galera_backup_host: store9 must be"), ("w", "and a witness has")],
)
def test_a_host_that_cannot_fetch_backups_is_refused_first(host: str, words: str, tmp_path: pathlib.Path) -> None:
    tasks = [task for task in yaml.safe_load((TASKS / "check.yml").read_text("utf-8")) if "daily backups" in task["name"]]
    control = ControlNode(tmp_path)
    control.more = {"w": {}}
    code, output = control.play(tasks, galera_backup_host=host, __galera_members=["metal2"], __galera_witnesses=["w"])
    assert len(tasks) == 1 and (code == 0) is (not words) and words in " ".join(output.split()), output


@pytest.mark.parametrize(
    ("before", "answer", "ended", "after"),
    [
        (None, {}, [], "metal1"),
        ("metal1", {}, [], "metal1"),
        ("store", {"changed": True}, ["store"], "metal1"),
        # it may come back
        ("store", {"unreachable": True, "msg": "down"}, ["store"], "store"),
        ("store", {"failed": True, "msg": "the disk is full."}, ["store"], "store"),
        # it was removed from the inventory
        ("gone", {}, [], "metal1"),
    ],
)
def test_the_host_that_fetched_backups_before_does_so_no_more(
    before: str | None, answer: dict[str, t.Any], ended: list[str], after: str, tmp_path: pathlib.Path
) -> None:
    control = ControlNode(tmp_path, "galera_backup")
    control.more, control.answers = {"store": {}}, {"galera_backup store": answer}
    record = tmp_path / "spool/host"
    if before:
        record.parent.mkdir(0o700)
        record.write_text(f"{before}\n", "utf-8")
    tasks = yaml.safe_load((TASKS / "schedule_former.yml").read_text("utf-8"))
    given = {"galera_backup_host": "metal1", "galera_cluster_name": "lab", "galera_backup_host_directory": "/b", "__galera_members": ["metal2"], **HERE}
    given["__galera_spool"] = str(record.parent)
    code, output = control.play(tasks, "metal2", "--check", **given)
    assert record.exists() is bool(before) and (code == 0) is ("failed" not in answer), output
    code, output = control.play(tasks, "metal2", **given)
    assert (code == 0) is ("failed" not in answer), output
    assert [(call["host"], call["arguments"]["state"]) for call in control.calls("galera_backup")] == [(host, "unscheduled") for host in ended]
    assert record.read_text("utf-8") == f"{after}\n"


@pytest.mark.parametrize(
    ("before", "answer", "after"),
    [("store", {"changed": True}, "\n"), ("store", {"unreachable": True, "msg": "down"}, "store\n"), ("gone", {}, "\n"), ("", {}, "\n"), (None, {}, None)],
)
def test_without_a_host_the_daily_backups_end(before: str | None, answer: dict[str, t.Any], after: str | None, tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "galera_backup", "one_time_key")
    control.more, control.answers = {"store": {}}, {"galera_backup store": answer, "one_time_key metal2": {"changed": True}}
    record = tmp_path / "spool/host"
    if before is not None:
        record.parent.mkdir(0o700)
        record.write_text(f"{before}\n", "utf-8")
    include = "ansible.builtin.include_tasks"
    tasks = [{**task, include: str(TASKS / task[include])} for task in yaml.safe_load((TASKS / "settled.yml").read_text("utf-8"))[-2:]]
    given = {"galera_cluster_name": "lab", "galera_backup_host_directory": "/b", "__galera_members": ["metal2"], "__galera_spool": str(record.parent)}
    code, output = control.play(tasks, "metal2", **given, galera_backup_host="", __galera_first="metal2", **HERE)
    assert code == 0 and (record.read_text("utf-8") if record.exists() else None) == after, output
    calls = [(call["name"], call["host"], call["arguments"]["state"]) for call in control.calls()]
    ended = [("galera_backup", "store", "unscheduled")] if before == "store" else []
    assert calls == [*ended, *([("one_time_key", "metal2", "absent")] if before else [])]


def test_a_record_that_cannot_be_read_ends_the_run(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "galera_backup")
    (tmp_path / "spool/host").mkdir(parents=True)
    (read,) = (task for task in yaml.safe_load((TASKS / "schedule_former.yml").read_text("utf-8")) if task["name"] == "Read which host fetched them before")
    code, output = control.play([read], "metal2", __galera_members=["metal2"], __galera_spool=str(tmp_path / "spool"), **HERE)
    assert code != 0 and "Source is a directory" in output, output
