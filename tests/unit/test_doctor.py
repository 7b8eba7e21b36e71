# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook doctor: its lines, its exit code, and its repairs. The answers of hosts and the programs that repair them are made up."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from tests.support.control_node import ControlNode
from tests.unit.plugins.module_utils._controlplane.test_plan_doctor import HEALTHY, host, key
from tests.unit.test_status import BRIEF, SILENT

GIVEN = {"footprint_cluster": "lab", "node_roles": ["virt"], "galera_group": "none"}


def server(name: str, **parts: t.Any) -> dict[str, t.Any]:
    values: dict[str, t.Any] = {"vms": [], "record": {**HEALTHY["record"], "name": name}, **parts}
    return {"changed": False, "host": host(**values)}


def doctor(folder: pathlib.Path, *options: str, answers: dict[str, t.Any] | None = None, **given: t.Any) -> tuple[int, list[str], ControlNode]:
    control = ControlNode(folder, "status_info", "one_time_key")
    control.configuration = BRIEF
    control.answers = {f"status_info {name}": server(name) for name in ("metal1", "metal2")} | (answers or {})
    code, output = control.run("reduced.footprint.doctor", *options, "-e", json.dumps({**GIVEN, **given}))
    return code, output.rstrip("\n").splitlines(), control


def test_healthy_servers_are_one_line_for_each_check(tmp_path: pathlib.Path) -> None:
    code, lines, control = doctor(tmp_path)
    assert code == 0 and lines[-1].strip() == "healthy: nothing to repair", lines
    assert len(lines) == 13 and all(line.strip().startswith("ok ") for line in lines[:-1]), lines
    assert [call["arguments"]["checks"] for call in control.calls("status_info")] == [True, True]


@pytest.mark.parametrize(
    ("metal2", "code", "first", "last"),
    [
        (SILENT, 2, "REPAIR  hosts: metal2: no answer. ", "1 to repair. Begin with hosts: "),
        (server("metal2", links={"error": "late"}), 4, "UNKNOWN links: metal2: cannot be read: late", "0 to repair, 1 unknown. Begin with links: "),
        (server("metal2", restart="x"), 0, "note    restarts: metal2: x. ", "healthy: nothing to repair, 1 note"),
    ],
)
def test_the_exit_code(metal2: t.Any, code: int, first: str, last: str, tmp_path: pathlib.Path) -> None:
    found, lines, _control = doctor(tmp_path, answers={"status_info metal2": metal2})
    assert found == code and lines[-1].strip().startswith(last), lines
    assert [line.strip().startswith(first) for line in lines if not line.strip().startswith("ok ")][0], lines


def test_a_run_that_was_interrupted_is_found_next_to_the_inventory(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".maintenance-lab.json").write_text("{}")
    code, lines, _control = doctor(tmp_path)
    assert code == 2 and any(f"maintain_virt_node is not complete ({tmp_path}/.maintenance-lab.json)" in line for line in lines), lines


@pytest.mark.parametrize(("options", "given", "asked"), [((), {}, []), (("--check",), {"doctor_fix": True}, [True]), ((), {"doctor_fix": True}, [False])])
def test_an_expired_key_is_removed_on_request_and_the_host_is_asked_again(
    options: tuple[str, ...], given: dict[str, t.Any], asked: list[bool], tmp_path: pathlib.Path
) -> None:
    answers = {"status_info metal2": server("metal2", keys=key(-60)), "one_time_key metal2": {"changed": True}}
    code, lines, control = doctor(tmp_path, *options, answers=answers, **given)
    assert code == 2 and any("keys: metal2: the key of move-web has expired. Remove it (doctor_fix=true does it)" in line for line in lines), lines
    calls = control.calls("one_time_key")
    assert [call["check"] for call in calls] == asked and all(call["host"] == "metal2" for call in calls)
    expected = {"name": "move-web", "purpose": "migrate", "public_key": key(0)[0]["public_key"], "state": "absent"}
    assert all({name: call["arguments"][name] for name in expected} == expected for call in calls)
    assert [call["host"] for call in control.calls("status_info")].count("metal2") == 1 + len(asked)


def test_hosts_outside_of_the_limit_are_named(tmp_path: pathlib.Path) -> None:
    code, lines, control = doctor(tmp_path, "--limit", "metal1")
    assert code == 0 and "    note    hosts: metal2: excluded by --limit, so nothing is known" in lines, lines
    assert [call["host"] for call in control.calls("status_info")] == ["metal1"]


def test_a_repair_that_fails_does_not_hide_the_report(tmp_path: pathlib.Path) -> None:
    answers = {"status_info metal2": server("metal2", keys=key(-60))}
    code, lines, _control = doctor(tmp_path, answers=answers, doctor_fix=True)
    assert code == 2 and lines[-1].startswith("1 to repair. Begin with keys: "), lines
