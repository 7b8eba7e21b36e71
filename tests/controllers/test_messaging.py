# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The message brokers of three controllers: isolated, restarted one by one, without a disk, stopped, power loss.

A client continuously publishes to a quorum queue and records each confirmation. Its gaps are recorded in
tests/output/controllers/messaging.json.
"""

from __future__ import annotations

import json
import time
import typing as t

import pytest
from amqp_publisher import CLIENT, QUEUE, Publisher
from controllers_lab import ControllersLab, SERVERS, notes
from support import eventually

pytestmark = pytest.mark.chapter
note = notes("messaging")

UNIT = "rabbitmq-server.service"
DATA = "/var/lib/rabbitmq/mnesia"
PLAY = [
    {
        "hosts": "controller",
        "gather_facts": False,
        "any_errors_fatal": True,
        "roles": [{"role": "reduced.footprint.rabbitmq"}, {"role": "reduced.footprint.memcached"}],
    }
]
ROLLING = [
    {
        "hosts": "controller",
        "gather_facts": False,
        "any_errors_fatal": True,
        "serial": 1,
        "tasks": [
            {"name": word, "ansible.builtin.include_role": {"name": f"reduced.footprint.{role}", "tasks_from": word}}
            for role in ("rabbitmq", "memcached")
            for word in ("gate", "restart", "gate")
        ],
    }
]


def deploy(lab: ControllersLab, *arguments: str, **options: t.Any) -> t.Any:
    done = lab.play(PLAY, *arguments, **options)
    assert done.rc == 0, done.output[-6000:]
    return done


def refused(lab: ControllersLab, **options: t.Any) -> str:
    done = lab.play(PLAY, **options)
    assert done.rc != 0, done.output[-6000:]
    return " ".join(done.output.split())


def status(lab: ControllersLab, host: str) -> dict[str, t.Any]:
    """Return the cluster as reported by one member; empty if its machine does not answer."""
    text = lab.run(host, ["rabbitmq-diagnostics", "-q", "cluster_status", "--formatter", "json"], check=False)
    return json.loads(text[text.index("{"):]) if "{" in text else {}


def running(lab: ControllersLab, host: str) -> list[str]:
    return sorted(node.partition("@")[2] for node in status(lab, host).get("running_nodes", []))


def replicas(lab: ControllersLab, host: str) -> list[str]:
    """Return the members with a replica of the queue."""
    text = lab.run(host, ["rabbitmqctl", "-q", "list_queues", "-p", "notifications", "name", "members", "--formatter", "json"])
    queues = {queue["name"]: queue["members"] for queue in json.loads(text[text.index("["):])}
    return sorted(node.partition("@")[2] for node in queues[QUEUE])


@pytest.fixture(name="publisher")
def fixture_publisher(lab: ControllersLab) -> t.Iterator[Publisher]:
    it = Publisher(lab)
    yield it
    it.stop()


def test_cluster_of_three_is_deployed(lab: ControllersLab) -> None:
    """Check mode predicts the deployment, the second run changes nothing, and files and ports are restricted."""
    lab.write_inventory()
    fresh = not any(lab.answers(name, ["test", "-e", "/usr/sbin/rabbitmqctl"]) for name in SERVERS)
    said = deploy(lab, check=True)
    if fresh:
        assert all(said.recap[name]["changed"] for name in SERVERS)
        assert not any(lab.answers(name, ["test", "-e", "/usr/sbin/rabbitmqctl"]) for name in SERVERS)
    begun = time.monotonic()
    first = deploy(lab, "-vvv")
    took = time.monotonic() - begun
    again = time.monotonic()
    second = deploy(lab)
    assert not any(second.recap[name]["changed"] for name in SERVERS), second.output[-6000:]
    note("deploy", fresh=fresh, seconds=round(took, 1), again_seconds=round(time.monotonic() - again, 1))
    third = deploy(lab, check=True)
    assert not any(third.recap[name]["changed"] for name in SERVERS), third.output[-6000:]
    secrets = lab.inventory_path / ".secrets" / "lab" / "rabbitmq"
    values = [path.read_text("utf-8").strip() for path in secrets.glob("*.txt")]
    assert len(values) == 2
    for name in SERVERS:
        address = lab.addresses[name]
        assert running(lab, name) == sorted(SERVERS)
        listening = {line.split()[3] for line in lab.run(name, ["ss", "-Htln"]).splitlines()}
        assert {f"{address}:{port}" for port in (4369, 5671, 25672, 11211)} <= listening
        assert f"{address}:5672" not in listening
        others = {entry for entry in listening if entry.rpartition(":")[2] not in ("22",)}
        assert all(entry.startswith((f"{address}:", "127.0.0.1:")) for entry in others), listening
        assert lab.run(name, ["stat", "-c", "%U %a", "/var/lib/rabbitmq/.erlang.cookie"]).strip() == "rabbitmq 400"
        assert lab.run(name, ["stat", "-c", "%U %G %a", "/etc/rabbitmq/footprint-tls/key.pem"]).strip() == "root rabbitmq 640"
        users = lab.run(name, ["rabbitmqctl", "-q", "list_users"])
        assert "footprint" in users
        assert "guest" not in users
        journal = lab.run(name, ["journalctl", "--no-pager", "-q"], check=False) + lab.run(name, ["ps", "-eo", "args"])
        assert not any(value in journal for value in values)
    assert not any(value in first.output + said.output for value in values)


def test_messages_are_not_readable_in_the_traffic(lab: ControllersLab, publisher: Publisher) -> None:
    """Applies to the client and its member. Traffic between members is in plain text, which shows that the capture works."""
    publisher.prepare()
    with lab.capture(QUEUE) as capture:
        publisher.start()
        time.sleep(5)
        publisher.stop()
    assert capture.bytes[5671] > 1000
    assert capture.seen & {5671, 5672, 25672} == {25672}, capture.seen
    assert not lab.answers(CLIENT, ["python3", "-c", f"import socket; socket.create_connection(('{lab.addresses['metal1']}', 5672), 5)"])


def isolate(lab: ControllersLab, end: bool = False) -> None:
    """Disconnect metal3 from the other members, or end this."""
    for one, other in (("metal3", "metal1"), ("metal3", "metal2"), ("metal1", "metal3"), ("metal2", "metal3")):
        lab.run(one, ["ip", "route", "del" if end else "add", "blackhole", lab.addresses[other]], check=not end)


def waits(lab: ControllersLab, host: str, reason: str) -> bool:
    """Return whether the unit of a member waits before its start, for this reason."""
    state = lab.run(host, ["systemctl", "show", "-P", "SubState", UNIT])
    return "start-pre" in state and reason in lab.run(host, ["journalctl", "-u", UNIT, "-n", "20", "-o", "cat"])


def all_return(lab: ControllersLab) -> float:
    """Wait until all members are running, and return the seconds."""
    begun = time.monotonic()
    eventually("all are back", lambda: all(running(lab, name) == sorted(SERVERS) for name in SERVERS), 300)
    return round(time.monotonic() - begun, 1)


def test_isolated_member_pauses_and_returns(lab: ControllersLab, publisher: Publisher) -> None:
    """A member without a majority pauses, the other two continue; after reconnection it returns automatically."""
    publisher.start()
    assert publisher.logs_in("metal3")
    try:
        begun = time.monotonic()
        isolate(lab)
        eventually("metal3 waits", lambda: waits(lab, "metal3", "waiting for rabbit@metal1, rabbit@metal2"), 90)
        paused = time.monotonic() - begun
        assert not publisher.logs_in("metal3")
        eventually("the majority has noticed", lambda: running(lab, "metal1") == ["metal1", "metal2"], 60)
        assert publisher.confirms()
        assert publisher.logs_in("metal1")
        assert publisher.logs_in("metal2")
    finally:
        isolate(lab, end=True)
    returned = all_return(lab)
    eventually("metal3 serves", lambda: publisher.logs_in("metal3"), 60)
    note("isolated member", paused_after_seconds=round(paused, 1), back_after_seconds=returned, **publisher.ends())


def test_queues_that_an_isolated_member_lacks_survive_a_power_loss_of_the_others(lab: ControllersLab, publisher: Publisher) -> None:
    """The isolated member is connected first, and has queues, users and policies of before: it waits for one that served last."""
    try:
        isolate(lab)
        eventually("metal3 waits", lambda: waits(lab, "metal3", "waiting for rabbit@metal1, rabbit@metal2"), 90)
        publisher.queue = "declared.meanwhile"
        publisher.start()
        lab.lose_power("metal1", "metal2")
    finally:
        isolate(lab, end=True)
    lab.power_on("metal2")
    time.sleep(5)
    lab.power_on("metal1")
    took = all_return(lab)
    note("power lost by the others of an isolated member", back_after_seconds=took, **publisher.ends())


def test_queues_survive_a_member_that_has_not_noticed_its_isolation(lab: ControllersLab, publisher: Publisher) -> None:
    """It notices later than the others, which declare a queue and lose power; when they return, it still seems to serve with both."""
    lab.run("metal3", ["rabbitmqctl", "-q", "eval", "net_kernel:set_net_ticktime(300, 0)."])
    try:
        isolate(lab)
        eventually("the majority has noticed", lambda: running(lab, "metal1") == ["metal1", "metal2"], 90)
        publisher.queue = "declared.unnoticed"
        publisher.start()
        # other questions to it wait for the others
        assert "rabbit@metal1" in lab.run("metal3", ["rabbitmqctl", "-q", "eval", "rabbit_mnesia:cluster_nodes(running)."])
        lab.lose_power("metal1", "metal2")
    finally:
        isolate(lab, end=True)
    lab.power_on("metal1", "metal2")
    took = all_return(lab)
    said = [lab.run(name, ["journalctl", "-b", "-o", "cat", "-u", UNIT]) for name in ("metal1", "metal2")]
    assert any("until rabbit@metal3 notices which members have stopped" in each for each in said), said
    note("power lost by the others of a member that had not noticed its isolation", back_after_seconds=took, **publisher.ends())


def test_restarts_one_by_one_lose_no_message(lab: ControllersLab, publisher: Publisher) -> None:
    """Uses the entry points of a rolling change."""
    publisher.start()
    before = [lab.run(name, ["systemctl", "show", "-P", "MainPID", UNIT]) for name in SERVERS]
    begun = time.monotonic()
    done = lab.play(ROLLING)
    assert done.rc == 0, done.output[-6000:]
    took = time.monotonic() - begun
    after = [lab.run(name, ["systemctl", "show", "-P", "MainPID", UNIT]) for name in SERVERS]
    assert all(old != new for old, new in zip(before, after))
    note("rolling restart", seconds=round(took, 1), **publisher.ends())


def lose_disk(lab: ControllersLab, name: str) -> None:
    """Stop a member and remove its data."""
    lab.run(name, ["systemctl", "stop", UNIT])
    lab.run(name, ["rm", "-rf", DATA])
    lab.run(name, ["install", "-d", "-o", "rabbitmq", "-g", "rabbitmq", "-m", "0750", DATA])


def test_member_with_a_lost_disk_joins_again(lab: ControllersLab, publisher: Publisher) -> None:
    """The other members forget it, it joins, and its replicas are restored."""
    publisher.start()
    lose_disk(lab, "metal2")
    said = deploy(lab, check=True)
    assert said.recap["metal2"]["changed"]
    begun = time.monotonic()
    deploy(lab)
    took = time.monotonic() - begun
    assert all(running(lab, name) == sorted(SERVERS) for name in SERVERS)
    assert replicas(lab, "metal2") == sorted(SERVERS)
    note("member without its disk", seconds=round(took, 1), **publisher.ends())


def test_rolling_change_stops_at_the_gate(lab: ControllersLab) -> None:
    """While a member is down, no other member is restarted."""
    before = [lab.run(name, ["systemctl", "show", "-P", "MainPID", UNIT]) for name in SERVERS[:2]]
    lab.run("metal3", ["systemctl", "stop", UNIT])
    try:
        done = lab.play(ROLLING, variables={"rabbitmq_gate_timeout": 5})
        assert done.rc != 0
        assert "rabbit@metal3 is not running" in done.output
    finally:
        lab.run("metal3", ["systemctl", "start", UNIT])
    assert [lab.run(name, ["systemctl", "show", "-P", "MainPID", UNIT]) for name in SERVERS[:2]] == before


def test_invalid_input_changes_nothing(lab: ControllersLab) -> None:
    """Each refusal names the value and gives a hint, and the cluster keeps running."""
    since = [lab.run(name, ["systemctl", "show", "-P", "ActiveEnterTimestampMonotonic", UNIT]) for name in SERVERS]
    said = refused(lab, variables={"rabbitmq_users": [{"name": "shop", "password": "opensesame", "permissions": [{"vhost": "nowhere"}]}]})
    assert "users[0].permissions[0].vhost: 'nowhere' is not one of the virtual hosts" in said
    assert "opensesame" not in said
    said = refused(lab, variables={"rabbitmq_erlang_cookie": "ANOTHERCOOKIEOFTHISLENGTH"})
    assert "the Erlang cookie of metal1, metal2, metal3 differs from rabbitmq_erlang_cookie" in said
    assert "ANOTHERCOOKIE" not in said
    assert "16 to 255 letters" in refused(lab, variables={"rabbitmq_erlang_cookie": "short"})
    lab.write_inventory({"rabbitmq_manage_hosts": False}, hosts={"metal2": {"rabbitmq_node_host": "nowhere"}})
    assert "nowhere resolves to nothing, expected" in refused(lab, check=True)
    lab.write_inventory(hosts={"metal2": {"rabbitmq_node_host": "two words"}})
    assert "rabbit@two words" in refused(lab, check=True)
    lab.write_inventory()
    assert [lab.run(name, ["systemctl", "show", "-P", "ActiveEnterTimestampMonotonic", UNIT]) for name in SERVERS] == since
    assert running(lab, "metal1") == sorted(SERVERS)


def test_stopped_cluster_is_started_by_the_last_stopped_member(lab: ControllersLab, publisher: Publisher) -> None:
    """One of those that served last starts first. Without them no member starts, unless the operator forces it."""
    publisher.start()
    for name in ("metal3", "metal2", "metal1"):
        lab.run(name, ["systemctl", "stop", UNIT])
    lab.lose_power("metal1", "metal2")
    said = refused(lab, limit="metal3")
    assert "no member is running, and metal1, metal2 may have served last" in said
    assert "rabbitmq_force_boot" in said
    # after power on they start automatically, and the other one by the play
    lab.power_on("metal1", "metal2")
    deploy(lab)
    note("stopped one by one", seconds=all_return(lab), **publisher.ends())


def test_two_members_return_without_the_third_one(lab: ControllersLab, publisher: Publisher) -> None:
    """All lose power. One alone waits until an operator forces it, two are a majority."""
    publisher.start()
    lab.lose_power(*SERVERS)
    lab.power_on("metal2")
    eventually("metal2 waits", lambda: waits(lab, "metal2", "waiting for rabbit@metal1, rabbit@metal3"), 90)
    lab.power_on("metal3")
    begun = time.monotonic()
    eventually("two are running", lambda: running(lab, "metal3") == ["metal2", "metal3"], 180)
    took = time.monotonic() - begun
    eventually("messages are confirmed", publisher.confirms, 60)
    lab.lose_power("metal2", "metal3")
    lab.power_on("metal2")
    eventually("metal2 waits", lambda: waits(lab, "metal2", "waiting for rabbit@metal1, rabbit@metal3"), 90)
    deploy(lab, limit="metal2", variables={"rabbitmq_force_boot": "metal2"})
    assert running(lab, "metal2") == ["metal2"]
    lab.power_on("metal1", "metal3")
    returned = all_return(lab)
    note("two of three return", serves_after_seconds=round(took, 1), forced_back_after_seconds=returned, **publisher.ends())


def test_power_loss_of_all_members_is_recovered_automatically(lab: ControllersLab, publisher: Publisher) -> None:
    """All three members lose power at the same time and return with every confirmed message."""
    publisher.start()
    lab.lose_power(*SERVERS)
    lab.power_on(*SERVERS)
    took = all_return(lab)
    done = deploy(lab)
    assert not any(done.recap[name]["changed"] for name in SERVERS), done.output[-6000:]
    note("power lost by all", back_after_seconds=took, **publisher.ends())


def test_killed_run_is_completed_by_the_next(lab: ControllersLab) -> None:
    """The run is killed with signal 9 while a new member joins."""
    for delay in (4.0, 12.0):
        # the member may have joined after the run before was killed, and nothing would be left to do
        lose_disk(lab, "metal3")
        assert lab.play(PLAY, kill_at="Join or restart the members one by one", kill_delay=delay).rc != 0
    deploy(lab)
    assert all(running(lab, name) == sorted(SERVERS) for name in SERVERS)


def test_lost_disks_of_a_majority_are_reported_immediately(lab: ControllersLab) -> None:
    """The remaining member pauses. The operator forces it to start a new cluster."""
    lose_disk(lab, "metal2")
    lose_disk(lab, "metal3")
    said = refused(lab)
    assert "metal2, metal3 lost their data, half of the cluster or more" in said
    assert "set rabbitmq_force_boot to one of metal1" in said
    deploy(lab, variables={"rabbitmq_force_boot": "metal1"})
    assert all(running(lab, name) == sorted(SERVERS) for name in SERVERS)
