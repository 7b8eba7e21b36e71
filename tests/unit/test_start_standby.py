# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of start_standby that only a run shows: what a start that is refused leaves on the witnesses."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

COPY = {"id": "20261126T100000Z", "source": "metal1", "uuid": "u", "copied": "2026-11-26T10:00:00Z", "verified": "2026-11-26T10:00:05Z"}
#: What Ansible returns for a host that does not answer.
SILENT = {"unreachable": True, "msg": "No route to host"}
DAMAGED = {"failed": True, "msg": "the copy is damaged at byte 0."}
RUNS = {"changed": True, "copy_id": COPY["id"], "source": "metal1", "lost_seconds": 60.0}


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> ControlNode:
    control = ControlNode(tmp_path, "vm_standby", "vm_standby_info", "vm_info", "vm_move_info")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks/start_standby_elsewhere.yml").write_text((ROOT / "playbooks/tasks/start_standby_elsewhere.yml").read_text("utf-8"), "utf-8")
    control.more = {"w1": {"ansible_host": "192.0.2.21"}, "w2": {"ansible_host": "192.0.2.22"}}
    control.answers = {f"vm_standby {name}": {"changed": True} for name in control.more}
    control.answers["vm_standby metal2"] = control.answers["vm_standby metal2 check"] = RUNS
    for name in control.more:
        control.answers |= {f"vm_info {name}": {"vms": []}, f"vm_move_info {name}": {"moves": []}}
    return control


def start(
    control: ControlNode,
    state: str = "receiving",
    phase: str | None = None,
    witnesses: t.Sequence[str] = ("w1", "w2"),
    asked: t.Sequence[str] | None = None,
    **more: t.Any,
) -> tuple[int, str, list[tuple[str, str]]]:
    """Start the VM; returns the exit code, the output, and host and state of each change.

    :arg state: of the VM on its standby, with ``phase``.
    :arg witnesses: as a person names them; ``asked`` those that the standby knows.
    """
    entry = {"id": "m", "part": "standby", "state": state, "phase": phase, "witnesses": asked, "copies": [COPY]}
    control.answers["vm_standby_info metal2"] = {"standbys": [entry]}
    given = {"start_standby_id": "m", "start_standby_server": "metal2", "start_standby_confirm": "metal1"}
    given |= {"start_standby_witnesses": list(witnesses)} if witnesses else {}
    play = yaml.safe_load((ROOT / "playbooks/start_standby.yml").read_text("utf-8"))[0]
    # without the seconds in which the first server does not answer
    tasks = [task for task in play["tasks"] if "the first server answers" not in task["name"]]
    code, output = control.play(tasks, **{**play["vars"], **given, **more})
    calls = [(call["host"], call["arguments"]["state"]) for call in control.calls("vm_standby") if not call["check"]]
    return code, " ".join(output.split()), calls


def test_the_servers_of_the_vm_are_not_its_witnesses(control: ControlNode) -> None:
    # one list for all servers; a record on the standby itself would be taken for a start that has begun
    code, output, calls = start(control, witnesses=["metal1", "metal2", "w1", "w1"])
    assert code == 0 and calls == [("w1", "claimed"), ("metal2", "started"), ("w1", "claimed")], output


@pytest.mark.parametrize(("asked", "recorded"), [(["w1"], "w1"), (None, "w2")])
def test_the_start_is_recorded_where_the_lost_server_asks(control: ControlNode, asked: list[str] | None, recorded: str) -> None:
    # the inventory was edited after the last run on that server; without an answer of its standby there is nothing else
    code, output, calls = start(control, witnesses=(), asked=asked, standby_witnesses=["w2"])
    assert code == 0 and calls == [(recorded, "claimed"), ("metal2", "started"), (recorded, "claimed")], output


@pytest.mark.parametrize("abandoned", [{}, {"start_standby_abandon_move": None}])
def test_the_start_is_recorded_before_and_after_it(control: ControlNode, abandoned: dict[str, t.Any]) -> None:
    code, output, calls = start(control, **abandoned)
    claimed = [("w1", "claimed"), ("w2", "claimed")]
    assert code == 0 and calls == [*claimed, ("metal2", "started"), *claimed], output


@pytest.mark.parametrize(("server", "proven"), [("metal1", True), ("metal3", False)])
def test_the_proof_is_about_the_server_of_the_vm(control: ControlNode, server: str, proven: bool) -> None:
    # a cache of facts has kept what the role has set for another server
    fact = {"server_power_result": {"server": server, "state": "off", "confirmed": True}}
    code, output, calls = start(control, start_standby_confirm="", **fact)
    assert (code == 0) == proven and bool(calls) == proven and ("Nothing was changed. m would be started on metal2" in output) != proven, output


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"vm_standby metal2": DAMAGED}, "the copy is damaged at byte 0."),
        ({"vm_standby w2": SILENT}, "w2 did not answer, so the start could not be recorded there. metal1 would start the VM as well"),
    ],
)
def test_a_refused_start_is_withdrawn_from_the_witnesses(control: ControlNode, answers: dict[str, t.Any], words: str) -> None:
    control.answers.update(answers)
    code, output, calls = start(control)
    assert code != 0 and words in output
    assert calls[-2:] == [("w1", "returned"), ("w2", "returned")] and ("metal2", "started") not in calls[:2]


@pytest.mark.parametrize(("state", "phase"), [("started", "claimed"), ("receiving", "starting")])
def test_the_record_of_a_start_that_has_begun_stays(control: ControlNode, state: str, phase: str) -> None:
    control.answers["vm_standby metal2"] = DAMAGED
    code, output, calls = start(control, state, phase)
    assert code != 0 and "the copy is damaged" in output and not [call for call in calls if call[1] == "returned"]


def elsewhere(control: ControlNode, state: str | None, moved: str | None, note: str | None, **more: t.Any) -> tuple[int, str, list[tuple[str, str]]]:
    """Start the VM while w1, another virt host, has it in a state, moved to a server, and a note about it."""
    other = {"uuid": "x", "state": "running", "moved": None}
    control.answers["vm_info w1"] = {"vms": [other, *([{"uuid": "u", "state": state, "moved": moved}] if state else [])]}
    control.answers["vm_move_info w1"] = {"moves": [{"uuid": "x", "state": "arriving"}, *([{"uuid": "u", "state": note, "to": "w9"}] if note else [])]}
    return start(control, witnesses=["w2"], **more)


def test_a_vm_that_another_server_has_is_not_started_twice(control: ControlNode) -> None:
    code, output, calls = elsewhere(control, "paused", "w1", "arriving", start_standby_abandon_move="w1")
    assert code != 0 and calls == [], output
    assert "Nothing was changed: w1 (paused) has m, which was moved there from metal1, or a move there was interrupted" in output


def test_an_unfinished_move_is_abandoned_by_name_only(control: ControlNode) -> None:
    code, output, calls = elsewhere(control, None, None, "arriving")
    assert code != 0 and calls == [] and "w1 has the record of a move of m that has not ended, but not the VM." in output
    assert "Switch metal1 on, and finish the move there with move_vm." in output and "set start_standby_abandon_move: w1." in output
    for given in ("w1", ["w1"]):
        code, output, calls = elsewhere(control, None, None, "arriving", start_standby_abandon_move=given)
        assert code == 0 and ("metal2", "started") in calls, output


def test_a_server_that_does_not_answer_is_named(control: ControlNode) -> None:
    control.answers["vm_info w1"], control.answers["vm_move_info w2"] = SILENT, {"failed": True, "msg": "Run as root."}
    code, output, calls = start(control, witnesses=[], start_standby_lost="w1,w2")
    assert code == 0 and ("metal2", "started") in calls, output
    code, output, calls = start(control, witnesses=[])
    assert code != 0 and not calls, output
    assert "w1, w2 did not answer. If m was moved to one of them before metal1 was lost, it may run there" in output


def test_a_start_that_has_begun_is_completed(control: ControlNode) -> None:
    control.answers["vm_info w1"] = {"vms": [{"uuid": "u", "state": "running", "moved": None}]}
    code, output, calls = start(control, "started", "claimed")
    assert code == 0 and calls == [("metal2", "started")] and not control.calls("vm_info"), output


HERE = {"id": "m", "cluster": "default", "name": "m"}


def keep(
    control: ControlNode, tmp_path: pathlib.Path, entry: dict[str, t.Any] | None, *options: str, here: bool = True, **more: t.Any
) -> tuple[int, str, list[tuple[str, ...]]]:
    """Keep the VM on its standby metal2; returns the exit code, the output, and module, host and state of each call.

    :arg entry: of the VM on its standby.
    """
    control.answers["vm_standby_info metal2"] = {"standbys": [entry] if entry else []}
    control.answers["vm_info metal2"] = {"vms": [HERE] if here else [{**HERE, "cluster": "green"}]}
    values = {"start_standby_id": "m", "start_standby_server": "metal2", "start_standby_confirm": "metal1", "start_standby_witnesses": ["w1", "w2"]}
    play = yaml.safe_load((ROOT / "playbooks/start_standby.yml").read_text("utf-8"))[0]
    tasks = [task for task in play["tasks"] if "the first server answers" not in task["name"]]
    (tmp_path / "tasks").mkdir(exist_ok=True)
    (tmp_path / "tasks/start_standby_keep.yml").write_text((ROOT / "playbooks/tasks/start_standby_keep.yml").read_text("utf-8"), "utf-8")
    code, output = control.play(tasks, "metal2", *options, **{**play["vars"], **values, "start_standby_keep": True, **more})
    calls = [(call["name"], call["host"], call["arguments"]["state"]) for call in control.calls() if not call["name"].endswith("_info")]
    return code, " ".join(output.split()), calls


@pytest.fixture(name="kept")
def fixture_kept(tmp_path: pathlib.Path) -> ControlNode:
    control = ControlNode(tmp_path, "vm_standby", "vm_standby_info", "vm_info", "one_time_key", "failover_member")
    control.more = {"w1": {"ansible_host": "192.0.2.21"}, "w2": {"ansible_host": "192.0.2.22"}}
    control.answers = {f"{module} {name}": {"changed": True} for module in ("vm_standby", "one_time_key", "failover_member") for name in ("metal2", "w1", "w2")}
    return control


RUNNING = {"id": "m", "part": "standby", "state": "started", "phase": "running", "copies": [COPY]}


@pytest.mark.parametrize("check", [False, True])
def test_all_keys_are_withdrawn_before_a_record(kept: ControlNode, tmp_path: pathlib.Path, check: bool) -> None:
    # the first server starts its old VM only if one of them answers it
    code, output, calls = keep(kept, tmp_path, RUNNING, *(["--check"] if check else []))
    assert code == 0, output
    assert calls == [
        *[("one_time_key", host, "absent") for host in ("w1", "w2", "metal2")],
        *[("vm_standby", host, "returned") for host in ("w1", "w2")],
        # the first server would be in the cluster again
        ("vm_standby", "metal2", "disarmed"), ("failover_member", "metal2", "absent"), ("vm_standby", "metal2", "kept"),
    ]  # fmt: skip
    assert f"m {'would belong' if check else 'belongs'} to metal2. Move its details there" in output
    assert all(call["check"] == check for call in kept.calls() if not call["name"].endswith("_info"))


def test_a_vm_that_was_kept_is_not_changed_again(kept: ControlNode, tmp_path: pathlib.Path) -> None:
    code, output, calls = keep(kept, tmp_path, None)
    assert code == 0 and calls == [] and "m belongs to metal2" in output, output


@pytest.mark.parametrize(
    ("entry", "more", "words"),
    [
        ({**RUNNING, "phase": "claimed"}, {}, "m was not started on metal2 from a copy, or that start was interrupted. Nothing was changed."),
        ({**RUNNING, "state": "receiving", "phase": None}, {}, "m was not started on metal2 from a copy"),
        # metal2 is a witness
        ({**RUNNING, "phase": None, "copies": []}, {}, "m was not started on metal2 from a copy"),
        # another id, or the VM of another cluster
        (None, {"here": False}, "m was not started on metal2 from a copy"),
        (RUNNING, {"start_standby_confirm": ""}, "Nothing was changed. m would stay on metal2 for good"),
        (RUNNING, {"start_standby_confirm": "metal2"}, "start_standby_confirm: 'metal2' is not the first server of the VM."),
        # that the server is off now does not mean that it never returns
        (
            RUNNING,
            {"start_standby_confirm": "", "server_power_result": {"server": "metal1", "state": "off", "confirmed": True}},
            "set start_standby_confirm: metal1",
        ),
    ],
)
def test_only_a_vm_that_runs_on_its_standby_is_kept(kept: ControlNode, tmp_path: pathlib.Path, entry: t.Any, more: dict[str, t.Any], words: str) -> None:
    code, output, calls = keep(kept, tmp_path, entry, **more)
    assert code != 0 and words in output and calls == [], output


def test_a_silent_witness_keeps_the_record(kept: ControlNode, tmp_path: pathlib.Path) -> None:
    kept.answers["one_time_key w2"] = SILENT
    code, output, calls = keep(kept, tmp_path, RUNNING)
    assert code != 0 and "w2 did not answer. What is recorded there would keep m off after a restart of metal2" in output
    assert [call for call in calls if call[0] == "vm_standby"] == [] and ("one_time_key", "metal2", "absent") not in calls


def test_a_first_server_that_answers_is_not_given_up(kept: ControlNode, tmp_path: pathlib.Path) -> None:
    play = yaml.safe_load((ROOT / "playbooks/start_standby.yml").read_text("utf-8"))[0]
    (step,) = [task for task in play["tasks"] if task["name"] == "Refuse the start while the first server answers"]
    answers = {"results": [{"item": "localhost", "state": "started"}]}
    values = {**play["vars"], "__start_standby_info": {"standbys": [RUNNING]}, "__start_standby_answers": answers}
    for keeps in (True, False):
        code, output = kept.play([step], **values, start_standby_id="m", start_standby_keep=keeps)
        # a start that has begun is completed in any case
        assert (code != 0) == keeps and ("metal1 answers at 192.0.2.11" in output) == keeps, output


def tasks_of(content: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Return all tasks of plays, blocks and files of tasks."""
    for entry in content or ():
        if isinstance(entry, dict):
            yield entry
            for key in ("tasks", "pre_tasks", "post_tasks", "block", "rescue", "always"):
                yield from tasks_of(entry.get(key))


def test_every_step_names_the_cluster() -> None:
    # without it, it would read or change what another cluster has on the same standby or witness
    seen = set()
    for path in [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml")]:
        for task in tasks_of(yaml.safe_load(path.read_text("utf-8"))):
            for module in ("vm_standby", "vm_standby_info", "one_time_key"):
                arguments = task.get(f"reduced.footprint.{module}")
                if arguments is None and f"reduced.footprint.{module}" not in task or (arguments or {}).get("purpose") in ("backup", "migrate", "move"):
                    continue
                seen.add((module, path.name))
                assert "cluster" in (arguments or {}), f"{path}: {task['name']}"
    assert {("vm_standby", "start_standby.yml"), ("vm_standby_info", "remove_virt_node.yml"), ("one_time_key", "one.yml")} <= seen
