# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard of a member, on three loopback addresses with the files of a broker; systemctl and the tool of RabbitMQ are of the test."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import typing as t

import pytest

from tests.support.control_node import ROOT
from tests.unit.roles.rabbitmq.conftest import ALL, Cluster


@pytest.mark.parametrize(
    "running, partitions, stuck",
    [
        # as seen after a member was suspended for 40 s
        (["rabbit@a"], {"rabbit@a": ["rabbit@c", "rabbit@b"]}, True),
        # the majority continues
        (["rabbit@b", "rabbit@c"], {"rabbit@b": ["rabbit@a"]}, False),
        # the others are down or cannot be reached: pause_minority decides
        (["rabbit@a"], {}, False),
        (ALL, {}, False),
        # stopped or paused
        ([], {}, False),
        (None, None, False),
    ],
)
def test_only_a_partitioned_member_of_a_minority_is_stuck(guard: t.Any, running: t.Any, partitions: t.Any, stuck: bool) -> None:
    assert guard.is_stuck({"disk_nodes": ALL, "ram_nodes": [], "running_nodes": running, "partitions": partitions}) is stuck


def test_of_two_members_each_is_a_minority(guard: t.Any) -> None:
    assert guard.is_stuck({"disk_nodes": ALL[:2], "running_nodes": ["rabbit@a"], "partitions": {"rabbit@a": ["rabbit@b"]}})


def test_a_member_that_was_disconnected_waits_for_one_that_served_last(cluster: Cluster) -> None:
    cluster.saw("rabbit@b", *ALL[1:])
    cluster.saw("rabbit@c", *ALL[1:])
    cluster.saw("rabbit@a", "rabbit@a")
    cluster.start(*ALL)
    assert cluster.why("rabbit@a") == "waiting for rabbit@b, which served last" == cluster.why("rabbit@c")
    assert not cluster.why("rabbit@b")
    assert cluster.members["rabbit@b"].force.read_bytes() == b"guard"
    # b runs alone at first, and says so only then
    assert cluster.members["rabbit@b"].first.exists()
    cluster.saw("rabbit@b", "rabbit@b")
    cluster.active.add("rabbit@b")
    assert cluster.why("rabbit@a")
    cluster.guards["rabbit@b"].alone = True
    assert not cluster.why("rabbit@a") and not cluster.why("rabbit@c")
    assert not cluster.members["rabbit@a"].force.exists()


@pytest.mark.parametrize(("output", "asked"), [(b"", None), (b"active\n", True), (b"inactive\n", False)])
def test_a_state_that_systemd_does_not_report_is_unknown(
    guard: t.Any, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, output: bytes, asked: bool | None
) -> None:
    cluster.start("rabbit@b")
    del cluster.guards["rabbit@b"].active
    monkeypatch.setattr(guard.subprocess, "run", lambda argv, **unused: subprocess.CompletedProcess(argv, 1, output, b"Failed to connect to bus"))
    found = cluster.members["rabbit@a"].ask("rabbit@b", "rabbit@a")
    assert (found and found["running"]) is asked
    assert cluster.guards["rabbit@b"].vote == ("" if asked is None else "rabbit@a")


def test_a_start_ends_only_when_the_broker_serves_with_others(cluster: Cluster) -> None:
    """Until the broker starts its files show the members of before. The note that it is the first one must stay, or the others wait for it for ever."""
    cluster.start(*ALL)
    assert not cluster.why("rabbit@a")
    guard = cluster.guards["rabbit@a"]
    guard.look()
    assert cluster.members["rabbit@a"].first.exists() and guard.vote == "rabbit@a"
    cluster.saw("rabbit@a", "rabbit@a")
    cluster.active.add("rabbit@a")
    guard.tool = lambda *_: "{true,false}"
    guard.looked = -1000.0
    guard.look()
    assert guard.alone and cluster.members["rabbit@a"].first.exists()
    cluster.saw("rabbit@a", *ALL)
    guard.look()
    assert not guard.alone and not cluster.members["rabbit@a"].first.exists() and guard.vote == ""


def test_two_of_three_start_and_one_waits_for_the_others(cluster: Cluster) -> None:
    cluster.start("rabbit@b", "rabbit@c")
    assert cluster.why("rabbit@c") == "waiting for rabbit@b, which served last"
    assert not cluster.why("rabbit@b")


def test_silence_is_unknown(cluster: Cluster) -> None:
    cluster.start("rabbit@c")
    assert cluster.why("rabbit@c") == "waiting for rabbit@a, rabbit@b, which may have served last"


def test_members_that_see_different_others_do_not_both_start(cluster: Cluster) -> None:
    """A member has one vote for a while; the vote of a member that starts again is for itself again."""
    cluster.saw("rabbit@c", "rabbit@c")
    cluster.start(*ALL)
    cluster.guards["rabbit@a"].answer("rabbit@a")
    cluster.guards["rabbit@b"].answer("rabbit@a")
    assert cluster.why("rabbit@c") == "this member served last, but has the votes of rabbit@c only"
    cluster.guards["rabbit@b"].voted -= 301
    assert not cluster.why("rabbit@c")
    # the vote stays until it expires, and no other member gets it
    assert cluster.members["rabbit@a"].ask("rabbit@b", "rabbit@a")["vote"] == "rabbit@c"
    assert not cluster.why("rabbit@c")


def test_a_member_that_sees_only_one_of_two_connected_members_waits(cluster: Cluster) -> None:
    cluster.saw("rabbit@c", "rabbit@b", "rabbit@c")
    cluster.start("rabbit@c")
    cluster.active.add("rabbit@c")
    assert cluster.why("rabbit@a") == "waiting until rabbit@b can be reached, which rabbit@c sees"
    cluster.start("rabbit@b")
    cluster.active.add("rabbit@b")
    assert not cluster.why("rabbit@a")


def test_a_member_that_has_not_noticed_the_end_of_others_lets_none_of_them_start(cluster: Cluster) -> None:
    """It was cut off, the others served and crashed, and for net_ticktime it seems to serve with them; its queues are old."""
    for node in ALL[:2]:
        cluster.saw(node, *ALL[:2])
    cluster.start(*ALL)
    cluster.active.add("rabbit@c")
    for seen in (ALL, ALL[1:]):
        cluster.saw("rabbit@c", *seen)
        assert cluster.why("rabbit@a") == "waiting until rabbit@c notices which members have stopped"
    cluster.saw("rabbit@c", "rabbit@c")
    assert not cluster.why("rabbit@a") and cluster.members["rabbit@a"].force.read_bytes() == b"guard"


def test_an_operator_forces_a_start_unless_a_member_is_running(cluster: Cluster) -> None:
    member = cluster.members["rabbit@a"]
    member.force.write_bytes(b"")
    assert not cluster.why("rabbit@a") and member.force.exists()
    cluster.start("rabbit@b")
    cluster.active.add("rabbit@b")
    cluster.guards["rabbit@b"].alone = True
    cluster.saw("rabbit@b", "rabbit@b")
    assert not cluster.why("rabbit@a") and not member.force.exists()
    # what the guard itself left behind when a start did not succeed does not force one
    cluster.active.clear()
    member.force.write_bytes(b"guard")
    cluster.saw("rabbit@b", *ALL[1:])
    assert cluster.why("rabbit@a") == "waiting for rabbit@b, which served last" and not member.force.exists()


def test_a_new_member_and_one_with_khepri_do_not_wait(cluster: Cluster) -> None:
    (cluster.members["rabbit@a"].home / "mnesia" / "rabbit@a-feature_flags").write_text("[khepri_db,quorum_queue].\n")
    assert not cluster.why("rabbit@a")
    (cluster.members["rabbit@b"].data / "cluster_nodes.config").unlink()
    assert not cluster.why("rabbit@b")
    (cluster.members["rabbit@c"].data / "cluster_nodes.config").write_text("{['rabbit@c'],['rabbit@c']}.")
    assert not cluster.why("rabbit@c")


def test_a_member_waits_for_an_operator_if_another_one_was_forced_to_start_without_it(cluster: Cluster) -> None:
    cluster.start(*ALL)
    for node in ALL:
        cluster.khepri(node, *ALL)
    cluster.active.update(ALL[:2])
    assert not cluster.why("rabbit@c")
    cluster.khepri("rabbit@a", "rabbit@a")
    assert cluster.why("rabbit@c") == "rabbit@a serves without this member: run deploy_controllers, which lets it join again"
    # what it saved does not count while it does not serve, and one that has nothing saved may have forgotten no one
    cluster.active.clear()
    assert not cluster.why("rabbit@c")
    cluster.active.update(ALL[:2])
    cluster.khepri("rabbit@a")
    assert not cluster.why("rabbit@c")


def test_only_members_are_answered_and_believed(cluster: Cluster) -> None:
    cluster.start("rabbit@b")
    assert cluster.members["rabbit@a"].ask("rabbit@b")
    (cluster.members["rabbit@a"].home / ".erlang.cookie").write_text("ANOTHER")
    assert cluster.members["rabbit@a"].ask("rabbit@b", "rabbit@a") is None
    (cluster.members["rabbit@a"].home / ".erlang.cookie").unlink()
    assert cluster.members["rabbit@a"].ask("rabbit@b", "rabbit@a") is None
    assert cluster.guards["rabbit@b"].vote == ""
    for nonsense in (b"\n", b"[1]\n", b'{"a": 1}\n', b"[null, null, null]\n", b"\xff\n", b"x" * 100000):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.2", cluster.members["rabbit@b"].port), 5) as link:
            link.sendall(nonsense)
            link.shutdown(socket.SHUT_WR)
            assert link.recv(100) == b""
    (cluster.members["rabbit@a"].home / ".erlang.cookie").write_text("COOKIE")
    assert cluster.members["rabbit@a"].ask("rabbit@b")


@pytest.mark.parametrize("answer", [None, {}, {"saved": 1}, {"saved": [1, 2, 3]}, {"saved": [["rabbit@b"], []]}, {"saved": [["rabbit@b"], [], [1]]}])
def test_an_answer_without_what_is_needed_is_silence(guard: t.Any, answer: t.Any) -> None:
    assert guard.saved_of(answer) is None


def test_the_record_is_kept_and_a_damaged_one_is_none(cluster: Cluster) -> None:
    member = cluster.members["rabbit@a"]
    cluster.saw("rabbit@a", "rabbit@a", "rabbit@c")
    cluster.saw("rabbit@a", "rabbit@a")
    assert json.loads(member.record.read_text()) == [ALL, ["rabbit@a", "rabbit@c"]]
    for damaged in ("", "{", "7", "[1]", '{"a": 1}'):
        member.record.write_text(damaged)
        assert member.saved().served in ((), (("a",),))


def test_a_record_that_cannot_be_read_is_unknown(cluster: Cluster) -> None:
    """It is neither overwritten nor taken for an empty one."""
    member = cluster.members["rabbit@b"]
    cluster.start("rabbit@b", "rabbit@c")
    member.record.unlink()
    member.record.mkdir()
    assert cluster.members["rabbit@c"].ask("rabbit@b") is None
    assert cluster.why("rabbit@c") == "waiting for rabbit@a, rabbit@b, which may have served last"
    with pytest.raises(OSError):
        cluster.guards["rabbit@b"].look()
    with pytest.raises(OSError):
        cluster.why("rabbit@b")


def test_a_paused_member_is_restarted_and_one_that_runs_alone_is_not(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start("rabbit@a")
    one, done = cluster.guards["rabbit@a"], []
    monkeypatch.setattr(one, "restart", done.append)
    said = {"eval": "{false,true}\n"}
    monkeypatch.setattr(one, "tool", lambda *words: said.get(words[0], ""))
    cluster.saw("rabbit@a", "rabbit@a")
    # it is starting, or stopped by an operator
    one.look()
    assert not done
    cluster.active.add("rabbit@a")
    one.look()
    assert done == ["paused: it starts again after a member that served last"]
    # it runs alone, an operator has stopped the broker, or it does not answer
    for other in ("{true,false}\n", "{false,false}\n", "", "nonsense"):
        said["eval"], one.looked = other, 0.0
        cluster.members["rabbit@a"].first.touch()
        one.look()
        assert one.alone == (other == "{true,false}\n")
    assert len(done) == 1
    # paused because it sees only some of the others, which its files do not show
    cluster.saw("rabbit@a", *ALL[:2])
    said["eval"], one.looked = "{false,true}\n", -100.0
    one.look()
    assert len(done) == 2
    cluster.saw("rabbit@a", "rabbit@a")
    # with Khepri the broker returns by itself
    (cluster.members["rabbit@a"].home / "mnesia" / "rabbit@a-feature_flags").write_text("[khepri_db].\n")
    said["eval"], one.looked = "{false,true}\n", 0.0
    one.look()
    assert len(done) == 2


class Starting:
    """The guard of a member whose broker is starting; a look after some seconds returns how often it was restarted until now."""

    def __init__(self, one: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.one, self.done = one, list[str]()
        one.asked = -1000.0
        monkeypatch.setattr(one, "restart", self.done.append)
        monkeypatch.setattr(one, "starting", lambda: True)

    def look(self, seconds: float) -> int:
        self.one.asked -= seconds
        self.one.stuck -= seconds if self.one.stuck else 0
        self.one.look()
        return len(self.done)


def test_a_start_after_members_that_have_stopped_since_is_decided_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was running paused, and now waits for this one, which served last."""
    cluster.start("rabbit@a", "rabbit@b")
    start = Starting(cluster.guards["rabbit@a"], monkeypatch)
    cluster.active.add("rabbit@b")
    assert start.look(0) == 0 and start.look(30) == 0, "one is running"
    cluster.active.clear()
    assert start.look(10) == 0 and start.look(10) == 0 and start.look(15) == 1
    assert start.look(10) == 1 and start.look(15) == 1, "it is not restarted again at once"
    monkeypatch.setattr(start.one.member, "ask", lambda *unused: None)
    assert start.look(30) == 1 and start.look(30) == 1, "silence of all others is unknown"


def test_the_first_one_lets_another_start_that_may_know_the_outcome_of_a_transaction(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start(*ALL)
    assert not cluster.why("rabbit@a") and cluster.why("rabbit@b") == "waiting for rabbit@a, which served last"
    start, said = Starting(cluster.guards["rabbit@a"], monkeypatch), ["yes\n", "starting\n"]
    monkeypatch.setattr(start.one, "tool", lambda *words: said[-1] if words[0] == "eval" else "")
    assert start.look(0) == 0 and start.look(10) == 0 and start.look(15) == 1
    assert cluster.why("rabbit@a") == "waiting for rabbit@b, which served last"
    assert not cluster.why("rabbit@b") and cluster.members["rabbit@b"].first.exists()
    # the second one does not know it either: the third one
    cluster.members["rabbit@b"].undecided.touch()
    assert cluster.why("rabbit@b") == "waiting for rabbit@c, which served last"


def test_members_that_do_not_know_an_outcome_wait_for_one_that_may(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start(*ALL[:2])
    for node in ALL[:2]:
        cluster.members[node].undecided.touch()
    assert cluster.why("rabbit@a") == "waiting for rabbit@c, which may know the outcome of a transaction"
    # no member knows it, so it was not acknowledged: Mnesia ends it after a while
    cluster.start("rabbit@c")
    cluster.members["rabbit@c"].undecided.touch()
    assert not cluster.why("rabbit@a")
    start = Starting(cluster.guards["rabbit@a"], monkeypatch)
    monkeypatch.setattr(start.one, "tool", lambda *unused: "starting")
    assert start.look(30) == 0 and start.look(30) == 0
    cluster.active.add("rabbit@a")
    start.look(1)
    assert not cluster.members["rabbit@a"].undecided.exists()


def test_with_khepri_the_members_are_asked_of_the_broker(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start("rabbit@a")
    one, member = cluster.guards["rabbit@a"], cluster.members["rabbit@a"]
    (member.home / "mnesia" / "rabbit@a-feature_flags").write_text("[khepri_db].\n")
    (member.data / "cluster_nodes.config").unlink()
    cluster.active.add("rabbit@a")
    for answer, wanted in ((json.dumps({"disk_nodes": ALL[::-1]}), ALL), ("", ALL), (json.dumps({"disk_nodes": ALL[:2]}), ALL[:2])):
        monkeypatch.setattr(one, "tool", lambda *_words, answer=answer: answer)
        one.looked = -100.0
        one.look()
        assert json.loads(member.record.read_text()) == [wanted]


def test_a_partitioned_member_is_restarted_at_the_second_look(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start("rabbit@a")
    one, done = cluster.guards["rabbit@a"], []
    cluster.active.add("rabbit@a")
    monkeypatch.setattr(one, "restart", done.append)
    status = {"disk_nodes": ALL, "running_nodes": ["rabbit@a"], "partitions": {"rabbit@a": ["rabbit@b"]}}
    monkeypatch.setattr(one, "tool", lambda *words: "{true,false}" if words[0] == "eval" else json.dumps(status))
    # it is not the first one of a cluster that starts, so others must not start because of it
    cluster.saw("rabbit@a", "rabbit@a")
    one.looked = -100.0
    one.look()
    assert not done and not one.answer("")["running"]
    one.look()
    assert not done
    one.looked -= 21
    one.look()
    assert done == ["partitioned in a minority for 20 s although the others are connected"]


@pytest.mark.parametrize(("code", "words"), [(0, ["restart", "kill"]), (1, ["restart"])])
def test_a_member_is_killed_only_if_it_is_restarted(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, guard: t.Any, code: int, words: list[str]) -> None:
    done = list[list[str]]()
    monkeypatch.setattr(guard.subprocess, "run", lambda argv, **unused: done.append(argv) or subprocess.CompletedProcess(argv, code))
    guard.Guard(cluster.members["rabbit@a"]).restart("paused")
    assert [argv[1] for argv in done] == words and all(argv[-1] == "x.service" for argv in done) and ("--signal=KILL" in done[-1]) is (code == 0)


@pytest.mark.parametrize(
    ("why", "level"),
    [
        ("waiting for rabbit@b, which may have served last", 4),
        ("the members do not agree on who served last: an operator must choose with rabbitmq_force_boot", 3),
        ("rabbit@b serves without this member: run deploy_controllers, which lets it join again", 3),
    ],
)
def test_what_only_a_person_ends_is_an_error(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, guard: t.Any, capsys: pytest.CaptureFixture[str], why: str, level: int
) -> None:
    """The status reads the priority in the journal."""
    answers = iter([why, why, ""])
    monkeypatch.setattr(guard, "may_start", lambda _member: next(answers))
    monkeypatch.setattr(guard.time, "sleep", lambda _seconds: None)
    guard.wait(cluster.members["rabbit@a"])
    assert capsys.readouterr().out == f"<{level}>{why}\n"
    source = (ROOT / "roles" / "rabbitmq" / "files" / "rabbitmq_guard.py").read_text("utf-8")
    assert level == 4 or why.rpartition(": ")[2] in source
