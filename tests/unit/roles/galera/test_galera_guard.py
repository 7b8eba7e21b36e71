# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service that acts on the decision about a return: with a server and a decision of the test, real files, and a real guard's answers."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import socket
import subprocess
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_return import Report, Step

from tests.unit.roles.galera.guard_support import APART, CLUSTER, CONNECTED, ISOLATED, LEFT, MEMBERS, N2_SERVES, SERVES, STARTING, World


@pytest.mark.parametrize(
    ("action", "own", "done"),
    [
        ("none", SERVES, []),
        ("wait", STARTING, []),
        ("refuse", APART, []),
        ("isolate", APART, ["isolate None"]),
        ("isolate", ISOLATED, []),
        ("connect", ISOLATED, ["connect"]),
        ("connect", APART, []),
        ("restart", APART, ["kill"]),
        ("form", ISOLATED, ["form"]),
        ("form", STARTING, ["stop", f"bootstrap {CLUSTER}"]),
    ],
)
def test_the_decision_is_carried_out(guard: t.Any, world: World, action: str, own: Report, done: list[str]) -> None:
    world.own, world.step = own, Step(action, "why")
    guard.turn()
    if action == "restart":
        # what the others report may be some seconds old
        assert not guard.server.done
    world.now += 6
    guard.turn()
    assert guard.server.done[: len(done)] == done and (done or not guard.server.done)


def test_the_decision_is_made_from_all_reports(guard: t.Any, world: World) -> None:
    guard.turn()
    assert world.asked == [("n1", {"n1": APART, "n2": None, "n3": None}, 0, 3)]
    # a starting server has no address yet
    world.status = {}
    guard.turn()
    assert world.asked[1][3] is None


@pytest.mark.parametrize("own", [None, Report("n1", "stopped")])
def test_a_server_that_is_unknown_or_stopped_is_left_alone(guard: t.Any, world: World, own: Report | None) -> None:
    world.own, world.step = own, Step("form", "why")
    guard.turn()
    assert not world.asked and not guard.server.done


def test_a_decision_that_comes_too_late_is_not_made(guard: t.Any, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly() -> dict[str, Report | None]:
        world.now += 10
        return world.others

    monkeypatch.setattr(guard, "others", slowly)
    guard.turn()
    assert not world.asked


def test_the_others_and_status_learn_what_it_found(guard: t.Any, module: t.Any, world: World) -> None:
    world.step = Step("wait", "n2 may have newer data and does not answer", ("n2",))
    guard.turn()
    guard.turn()
    state = json.loads(module.STATE.read_text("utf-8"))
    assert state["at"] == world.now and state["report"]["position"] == 9 and state["report"]["failed"] is None
    assert state["step"] == {"action": "wait", "reason": "n2 may have newer data and does not answer", "waits_for": ["n2"], "hold": False}
    world.own = None
    guard.turn()
    assert json.loads(module.STATE.read_text("utf-8"))["report"] is None


def test_a_server_that_is_starting_the_cluster_is_not_started_again(guard: t.Any, world: World) -> None:
    world.own, world.step, world.bootstraps = STARTING, Step("form", "why"), True
    guard.turn()
    assert not guard.server.done


def test_a_full_disk_while_it_forms(guard: t.Any, world: World) -> None:
    world.own, world.step, world.free = STARTING, Step("form", "why"), 0.0
    guard.turn()
    assert not guard.server.done and "its disk is full" in guard.failed
    world.free = 0.02
    guard.turn()
    assert guard.server.done[-1] == f"bootstrap {CLUSTER}"


@pytest.mark.parametrize("again", ["wait", "connect", "refuse", "none"])
def test_the_others_must_confirm_after_the_server_was_stopped(guard: t.Any, world: World, again: str) -> None:
    world.own, world.step, world.again = STARTING, Step("form", "why"), Step(again, "why")
    guard.turn()
    assert guard.server.done == ["stop"]
    guard.turn()
    assert guard.server.done[:2] == ["stop", "start"], "it must not stay stopped"


def test_a_guard_that_was_killed_while_it_formed_starts_the_server(guard: t.Any, module: t.Any, world: World) -> None:
    module.FORMING.touch()
    world.own = Report("n1", "stopped")
    guard.turn()
    assert guard.server.done == ["start"] and not module.FORMING.exists()


def test_an_error_of_the_server_is_reported_and_the_action_repeated(guard: t.Any, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.step = Step("isolate", "why")
    guard.server.error = RuntimeError("1210: cannot be changed while the wsrep-provider plugin is loaded")
    guard.turn()
    assert "<3>isolate failed, and is tried again: 1210: cannot be changed" in capsys.readouterr().out
    guard.server.error = None
    guard.turn()
    assert guard.server.done == ["isolate None"]


def test_a_service_manager_that_does_not_answer_ends_no_guard(guard: t.Any, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.own, world.step = STARTING, Step("form", "why")
    guard.server.error = subprocess.TimeoutExpired("systemctl", 30)
    guard.turn()
    assert "form failed, and is tried again" in capsys.readouterr().out


def test_a_decision_is_logged_once(guard: t.Any, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.step = Step("wait", "n2 does not answer")
    guard.turn()
    guard.turn()
    assert capsys.readouterr().out.count("n2 does not answer") == 1


# ---------------------------------------------------------------- members that left


@pytest.fixture(name="left")
def fixture_left(guard: t.Any, world: World) -> t.Any:
    """A guard whose server left the cluster, while another member serves."""
    world.own, world.status, world.others = ISOLATED, LEFT, {"n2": N2_SERVES, "n3": None}

    def wait(seconds: float) -> list[str]:
        world.now += seconds
        guard.turn()
        return t.cast("list[str]", guard.server.done)

    guard.turn()
    return wait


def test_a_member_that_left_is_restarted_a_limited_number_of_times(left: t.Any, guard: t.Any, module: t.Any) -> None:
    assert not left(1) and left(10) == ["kill"]
    assert left(20) == ["kill"] and left(15) == ["kill"] * 2
    assert left(50) == ["kill"] * 2 and left(15) == ["kill"] * 3
    assert left(130) == ["kill"] * 4 and left(310) == ["kill"] * 5
    assert left(10000) == ["kill"] * 5
    guard.turn()
    assert json.loads(module.STATE.read_text("utf-8"))["report"]["failed"].startswith("it was restarted 5 times and did not rejoin")


def test_a_member_that_serves_again_has_all_its_tries(left: t.Any, guard: t.Any, world: World) -> None:
    left(10)
    world.own, world.status = SERVES, CONNECTED
    left(10)
    left(130)
    assert guard.tries == 0 and not guard.failed


def test_a_member_with_a_full_disk_waits_for_space(left: t.Any, guard: t.Any, world: World) -> None:
    world.free = 0.02
    assert not left(10) and "its disk has 2% free" in guard.failed
    world.free = 0.06
    assert left(6) == ["kill"] and not guard.failed


def test_a_member_that_left_stays_while_no_other_serves(left: t.Any, world: World) -> None:
    world.others = {"n2": None, "n3": None}
    world.step = Step("wait", "n2 does not answer")
    assert not left(1000)
    # its data counts, or another member has formed a component: its process never connects again
    world.step = Step("form", "it has the newest data")
    assert not left(1) and left(6) == ["kill"]


@pytest.mark.parametrize("own", [APART, STARTING, Report("n1", "starting")])
def test_a_member_that_does_not_connect_is_restarted(left: t.Any, world: World, own: Report) -> None:
    world.own, world.status = own, CONNECTED if own.state == "running" else {}
    assert not left(15) and not left(15) and left(6) == ["kill"]


@pytest.mark.parametrize("changed", [{"uuid": "another"}, {"isolated": True}, {"ready": False}])
def test_a_member_that_cannot_follow_is_not_restarted(left: t.Any, world: World, changed: dict[str, t.Any]) -> None:
    world.others = {"n2": dataclasses.replace(N2_SERVES, **changed), "n3": None}
    assert not left(60) and not left(60)


def test_a_run_that_waits_for_a_member_gets_it(left: t.Any, module: t.Any) -> None:
    module.LOCK.write_text("{}", "utf-8")
    assert not left(6) and left(6) == ["kill"]


JOINS = [dataclasses.replace(STARTING, joined=True), dataclasses.replace(STARTING, position=None), dataclasses.replace(APART, primary=True)]


@pytest.mark.parametrize("own", JOINS)
def test_a_member_that_joins_or_recovers_is_left_alone(left: t.Any, world: World, own: Report) -> None:
    world.own, world.status = own, CONNECTED if own.state == "running" else {}
    assert not left(15) and not left(60) and not left(60)


# ---------------------------------------------------------------- exchange and watchdog


def test_the_others_are_asked_and_their_answers_parsed(module: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = module.Guard({"name": "n1", "socket": "/s", "port": 9200, "witnesses": 0, "members": MEMBERS})
    asked = []

    def ask(own: str, address: str, port: int) -> bytes:
        asked.append((own, address, port))
        value = {"age": 0.1, "report": dataclasses.asdict(N2_SERVES)}
        return b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(value).encode()

    monkeypatch.setattr(module.galera_report, "ask", ask)
    # n3 claims to be n2
    assert guard.others() == {"n2": N2_SERVES, "n3": None}
    assert sorted(asked) == [("192.0.2.1", "192.0.2.2", 9200), ("192.0.2.1", "192.0.2.3", 9200)]


@pytest.mark.parametrize(
    ("own", "answers"),
    [
        # seconds before the look at which each state was seen first; whether an answer that is 0.5 s old counts
        ([(10, STARTING)], True),
        ([(10, APART), (0.2, STARTING)], False),
        ([(10, APART), (0.2, dataclasses.replace(APART, node="other"))], False),
        ([(10, STARTING), (0.2, dataclasses.replace(STARTING, joined=True))], False),
        ([(10, SERVES), (0.2, SERVES), (0.1, APART)], False),
        ([(10, None), (0.2, STARTING)], False),
        # in a component without data, for as long as it is
        ([(10, dataclasses.replace(SERVES, ready=False)), (0.2, dataclasses.replace(SERVES, ready=False))], True),
    ],
)
def test_a_report_from_before_the_own_loss_is_unknown(
    module: t.Any, world: World, monkeypatch: pytest.MonkeyPatch, own: list[tuple[float, Report | None]], answers: bool
) -> None:
    guard = module.Guard({"name": "n1", "socket": "/s", "port": 9200, "witnesses": 0, "members": MEMBERS})
    value = {"age": 0.5, "report": dataclasses.asdict(N2_SERVES)}
    monkeypatch.setattr(module.galera_report, "ask", lambda *arguments: b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(value).encode())
    for before, report in own:
        world.now = 1000.0 - before
        guard._note(report)
    world.now = 1000.0
    assert (guard.others()["n2"] is not None) is answers


def test_systemd_is_notified(module: t.Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        monkeypatch.setitem(os.environ, "NOTIFY_SOCKET", str(tmp_path / "notify"))
        module.watched("WATCHDOG=1")
        assert listener.recv(100) == b"WATCHDOG=1"
    monkeypatch.delitem(os.environ, "NOTIFY_SOCKET")
    module.watched("WATCHDOG=1")


def test_a_run_asks_what_the_others_report(module: t.Any, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "members.json"
    settings.write_text(json.dumps({"name": "n1", "socket": "/s", "port": 9200, "witnesses": 0, "members": MEMBERS}))
    monkeypatch.setattr(module.Guard, "others", lambda self: {"n2": N2_SERVES, "n3": None})
    monkeypatch.setattr(module.sys, "argv", ["galera_guard.py", str(settings), "others"])
    module.main()
    assert json.loads(capsys.readouterr().out) == {"name": "n1", "others": {"n2": {**dataclasses.asdict(N2_SERVES)}, "n3": None}}
