# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two servers and a vote: deployed, refused where the vote would not decide, and each of the three lost under a continuous writer."""

from __future__ import annotations

import itertools
import json
import statistics
import time
import typing as t

import faults
import pytest
from messages import Messages, install
from rflab import history, transactions
from rflab.plays import REPOSITORY
from support import eventually
from witness_lab import COMPONENTS, DATA, RECOVERY, WITNESS, WitnessLab

pytestmark = pytest.mark.chapter

MOST_SECONDS = 10
WITHOUT_WITNESS = [name for name in COMPONENTS if name != "witness"]


class Clients:
    """Clients of the database at the virtual address, which run transactions as services do, and one of the broker, as a context.

    :arg members: whose data is compared in the end.
    """

    def __init__(self, lab: WitnessLab, name: str, members: t.Sequence[str]) -> None:
        self.lab, self.members = lab, members
        password = (lab.state / "writer-password").read_text(encoding="utf-8").strip()
        self._database = transactions.Clients(transactions.Account("writer", password, "footprint"), lab.virtual_address, name, number=4, pause=0.2)
        self._broker = Messages(lab, f"{name}-{time.time_ns()}", DATA)
        self._since = self._until = 0.0

    @staticmethod
    def allowed(lab: WitnessLab) -> dict[str, t.Any]:
        """Return the variables with which the services accept them."""
        here = f"{lab.net}.1"
        return {"galera_allowed": [here], "rabbitmq_allowed": [here, lab.master]}

    def __enter__(self) -> Clients:
        self._database.prepare()
        self._database.start()
        self._broker.start()
        self._since = time.monotonic()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._until = time.monotonic()
        self._database.stop()
        self._broker.stop()

    def check(self) -> None:
        """Check that they were served all the time, and that all that was acknowledged is on each member."""
        gap = self._database.gap(self._since, self._until)
        rows, messages = len(self._database.acknowledged()), len(self._broker.confirmed())
        tables = [self._database.tables(self.lab.addresses[name]) for name in self.members]
        problems = {problem for each in tables for problem in history.check(self._database.history, each)}
        lost = self._broker.lost()
        print(f"{self._until - self._since:.0f} s: {rows} transactions, pause of {gap:.1f} s, {messages} messages, {lost} lost; {problems or 'no problem'}")
        assert (problems, lost) == (set(), 0) and all(each == tables[0] for each in tables)
        assert rows > 100 and messages > 100 and gap <= MOST_SECONDS


def test_what_would_not_decide_is_refused_before_any_change(lab: WitnessLab) -> None:
    lab.write_witness_inventory(["metal2"])
    lab.refuses("metal2 cannot be a witness: it is a controller", "third machine")
    lab.write_witness_inventory(groups={"virt": [WITNESS]})
    lab.refuses("laptop cannot be a witness: it is a virt host")
    lab.write_inventory(
        groups={"controller": ["metal1", "metal2"], "witness": [WITNESS]}, hosts={WITNESS: {"ansible_host": lab.master, "vm_host": "metal1"}}
    )
    lab.refuses("laptop cannot be a witness: it is on metal1 with metal1")
    lab.write_witness_inventory(groups={"witness": [WITNESS, "other"]})
    lab.refuses("2 witnesses (laptop, other) for 2 members with data")
    lab.write_witness_inventory(witness_memory="plenty")
    lab.refuses("witness_memory must be a number of MiB of at least 32 (got plenty)")
    lab.write_witness_inventory(galera_provider_options={"evs.suspect_timeout": "soon"})
    # the check of the database, or that of the witness
    lab.refuses("galera_provider_options", "such as PT5S", "soon")
    lab.write_witness_inventory(rabbitmq_witness_memory="much")
    lab.refuses("rabbitmq_witness_memory must be a number of MiB")
    lab.write_witness_inventory(footprint_services={"witness": {"memory": 999999}})
    lab.refuses("laptop has", "deploy_controllers_without_witness=true", "MiB are missing")


def test_without_the_witness_only_with_consent(lab: WitnessLab) -> None:
    lab.write_witness_inventory()
    lab.lose_power(WITNESS)
    lab.refuses("laptop cannot be reached", "deploy_controllers_without_witness=true")
    lab.deploys(variables={"deploy_controllers_without_witness": True})
    assert lab.votes("metal1") == 2
    report = lab.report()
    assert (report["state"], report["services"]["witness"]["state"]) == ("degraded", "degraded"), report["lines"]
    lab.power_on(WITNESS)


def test_deployed(lab: WitnessLab) -> None:
    checked = lab.deploys(check=True)
    assert checked.changed > 0
    lab.deploys()
    assert [lab.votes(name) for name in DATA] == [3, 3]
    again = lab.deploys()
    assert again.changed == 0, again.changed_tasks()
    assert lab.deploys(check=True).changed == 0
    report = lab.report()
    assert (report["state"], report["ha_grade"]) == ("ok", "quorum"), report["lines"]
    assert {name: (one["up"], one["all"]) for name, one in report["services"].items() if name in ("galera", "rabbitmq", "witness")} == {
        "galera": (2, 2), "rabbitmq": (3, 3), "witness": (1, 1),
    }  # fmt: skip


def test_it_carries_votes_only(lab: WitnessLab) -> None:
    listening = {line.split()[3] for line in lab.run(WITNESS, ["ss", "-Hltn"]).splitlines()}
    assert {f"{lab.master}:{port}" for port in (4567, 25672)} <= listening
    assert not [address for address in listening if address.rpartition(":")[2] in ("5671", "5672", "11211", "5000", "9200")], listening
    # neither readable for others nor with more than the own key
    files = lab.run(WITNESS, ["find", "/etc/reduced.footprint/witness/lab", "-type", "f", "-printf", "%m %u %f\n"]).splitlines()
    assert sorted(files) == [f"600 footprint-witness {name}" for name in ("ca.pem", "certificate.pem", "garbd.cfg", "key.pem")]


def found_on_the_disk(lab: WitnessLab, texts: t.Mapping[str, str]) -> set[str]:
    """Return the names of the texts that are in files of the witness. They reach it by standard input only."""
    folders = ["/etc", "/var", "/root", "/home", "/opt", "/srv", "/tmp", "/usr/local"]
    # one line for each that is found
    program = f"grep --recursive --text --only-matching --no-filename --fixed-strings --file=- {' '.join(folders)} 2>/dev/null | sort --unique"
    lines = set(lab.run(WITNESS, ["sh", "-c", program], stdin="\n".join(texts.values()) + "\n").splitlines())
    return {name for name, text in texts.items() if text in lines}


def test_its_disk_has_the_secrets_of_the_queue_only(lab: WitnessLab) -> None:
    install()
    lab.write_witness_inventory(**Clients.allowed(lab))
    lab.deploys()
    message = Messages(lab, "secret.of.the.queue", DATA)
    message.start()
    message.stop()
    folder = lab.inventory_path / ".secrets"
    texts = {str(path.relative_to(folder)): path.read_text("ascii").strip() for path in folder.rglob("*.txt")}
    # the second line of a key: a certificate beside it is public
    texts = {name: text.partition("PRIVATE KEY-----")[2].split()[1] if "PRIVATE KEY" in text else text for name, text in texts.items()}
    texts |= {"writer": (lab.state / "writer-password").read_text("utf-8").strip(), "queue": "secret.of.the.queue"}
    assert any("galera" in name for name in texts) and any("rabbitmq/footprint" in name for name in texts), list(texts)
    own = {name for name in texts if "erlang_cookie" in name or f"/{WITNESS}" in name and name.startswith(("lab/galera", "lab/amqp"))}
    found = found_on_the_disk(lab, texts)
    # what the documentation says that it holds shows that the search finds something
    assert {"queue", *(name for name in own if "erlang_cookie" in name)} <= found <= {"queue", *own}, found
    # no other account of the machine can read it
    readable = ["find", "/var/lib/rabbitmq", "/etc/rabbitmq", "/etc/reduced.footprint", "-type", "f", "-readable", "-printf", "%p\n"]
    seen = lab.run(WITNESS, ["runuser", "-u", "daemon", "--", *readable], check=False).split()
    assert not [path for path in seen if path.startswith("/var/lib/rabbitmq") or path.endswith(("key.pem", "garbd.cfg", "cookie"))], seen


def test_leaders_are_moved_away_from_the_witness(lab: WitnessLab) -> None:
    # the wrapper in /usr/sbin would pass the expression to a shell
    tool = ["env", "HOME=/var/lib/rabbitmq", "/usr/lib/rabbitmq/bin/rabbitmqctl", "-q"]
    declare = (
        '[{_, _} = rabbit_amqqueue:declare(rabbit_misc:r(<<"/">>, queue, Type), true, false, [{<<"x-queue-type">>, longstr, Type}], none, <<"test">>)'
        ' || Type <- [<<"quorum">>, <<"stream">>]], erlang:function_exported(rabbit_stream_coordinator, restart_stream, 2).'
    )
    chooses = lab.run(WITNESS, [*tool, "eval", declare]).strip() == "true"
    witness = f"rabbit@{WITNESS}"

    def leaders() -> dict[str, str]:
        listed = json.loads(lab.run(WITNESS, [*tool, "list_queues", "-p", "/", "name", "leader", "--formatter", "json"]))
        return {queue["name"]: queue["leader"] for queue in listed}

    def moved() -> bool:
        lab.run(WITNESS, ["/usr/local/lib/reduced.footprint/rabbitmq_leaders"])
        return {name for name, leader in leaders().items() if leader == witness} == (set() if chooses else {"stream"})

    assert set(leaders().values()) == {witness}
    eventually("the leaders are on servers", moved, 60)
    for name in leaders():
        lab.run(WITNESS, [*tool, "delete_queue", "-p", "/", name])
    assert not leaders()


def test_a_server_or_the_witness_is_lost_under_a_writer(lab: WitnessLab, whole: bool) -> None:
    lab.start_writing()
    pauses: dict[str, list[float]] = {name: [] for name in (*DATA, WITNESS)}
    for number in range(7 if whole else 1):
        for victim in pauses:
            since = time.time()
            lab.lose_power(victim)
            pauses[victim].append(lab.pause_after(since))
            if not number:
                report = lab.report()
                assert report["state"] == ("degraded" if victim == WITNESS else "down"), report["lines"]
                assert report["services"]["galera"]["state"] == ("ok" if victim == WITNESS else "degraded")
                assert report["services"]["rabbitmq"]["state"] == "degraded"
            lab.power_on(victim)
            lab.becomes_whole()
    lab.stop_writing()
    lines = [
        f"{victim} lost {len(found)} times: median {statistics.median(found):.1f} s, longest {max(found):.1f} s without an acknowledged row"
        for victim, found in pauses.items()
    ]
    path = REPOSITORY / "tests" / "output" / "witness.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert max(max(found) for found in pauses.values()) <= MOST_SECONDS, lines
    assert lab.written()["rows_lost"] == 0
    assert lab.promises_kept(DATA) > 20


def test_a_power_loss_of_everything(lab: WitnessLab) -> None:
    lab.lose_power(*DATA, WITNESS)
    lab.power_on(*DATA, WITNESS)
    began = time.monotonic()
    eventually("the database is there again by itself", lambda: lab.votes("metal1") == 3, RECOVERY)
    lab.becomes_whole(RECOVERY - (time.monotonic() - began))
    # a witness has no data, so the members do not wait for one that does not return
    lab.lose_power(*DATA, WITNESS)
    lab.power_on(*DATA)
    eventually("both members form the cluster without the witness", lambda: [lab.votes(name) for name in DATA] == [2, 2], RECOVERY)
    done = lab.play("recover_database")
    assert (done.rc, done.changed) == (0, 0), done.output[-6000:]
    lab.power_on(WITNESS)
    lab.becomes_whole()


def test_the_orders_of_power_on(lab: WitnessLab) -> None:
    # a server and the witness do not form the cluster: the other server may have newer rows
    lab.lose_power(*DATA, WITNESS)
    lab.power_on(WITNESS, "metal2")
    time.sleep(60)
    assert lab.votes("metal2") == 0
    lab.power_on("metal1")
    eventually("all three form the cluster by themselves", lambda: [lab.votes(name) for name in DATA] == [3, 3], 180)
    lab.becomes_whole()
    # the witness was lost before, so the last view of the servers does not contain it, and they do not wait for it
    lab.lose_power(WITNESS)
    eventually("the witness is excluded", lambda: [lab.votes(name) for name in DATA] == [2, 2], 60)
    lab.lose_power(*DATA)
    lab.power_on(*DATA)
    eventually("both servers form the cluster by themselves", lambda: [lab.votes(name) for name in DATA] == [2, 2], 180)
    lab.power_on(WITNESS)
    lab.becomes_whole()


def test_running_databases_form_the_cluster_again_without_the_witness(lab: WitnessLab) -> None:
    machines = (*DATA, WITNESS)
    faults.cut(lab, itertools.permutations(machines, 2))
    try:
        eventually("no vote is in a majority", lambda: [lab.votes(name) for name in DATA] == [0, 0], 90)
        lab.lose_power(WITNESS)
    finally:
        faults.repair(lab)
    # all data is in one component, so the guard forms it
    eventually("both members form the cluster", lambda: [lab.votes(name) for name in DATA] == [2, 2], 120)
    lab.power_on(WITNESS)
    lab.becomes_whole()


def test_a_stopped_cluster_is_recovered_with_a_witness(lab: WitnessLab) -> None:
    for name in DATA:
        lab.run(name, ["systemctl", "stop", "mariadb"])
    # the witness is alone, and starts nothing
    done = lab.play("recover_database")
    assert done.rc == 0, done.output[-6000:]
    assert "witness, running, a vote without data" in done.output
    eventually("all votes are there", lambda: [lab.votes(name) for name in DATA] == [3, 3], 120)


def test_a_killed_recovery_is_completed_by_the_next_run(lab: WitnessLab) -> None:
    for name in DATA:
        lab.run(name, ["systemctl", "stop", "mariadb"])
    killed = lab.play("recover_database", kill_at="galera : Start the cluster", kill_delay=0.2)
    assert killed.rc < 0, killed.output[-3000:]
    assert lab.run(WITNESS, ["systemctl", "is-active", "garbd@lab"], check=False).strip() != "active"
    done = lab.play("recover_database")
    assert done.rc == 0, done.output[-6000:]
    eventually("all votes are there", lambda: [lab.votes(name) for name in DATA] == [3, 3], 120)
    again = lab.play("recover_database")
    assert (again.rc, again.changed) == (0, 0), again.changed_tasks()


def test_rolling_restart(lab: WitnessLab) -> None:
    lab.becomes_whole()
    done = lab.play("rolling_restart", variables={"rolling_restart_components": "galera,rabbitmq,witness"})
    assert done.rc == 0, done.output[-6000:]
    assert "witness on laptop" in done.output


def test_the_vote_is_taken_away_and_given_back(lab: WitnessLab) -> None:
    lab.start_writing()
    lab.refuses("the loss of any server stops the control plane", name="remove_controller", variables={"remove_controller_name": WITNESS})
    given = {"remove_controller_name": WITNESS, "remove_controller_confirm": WITNESS}
    checked = lab.play("remove_controller", variables=given, check=True)
    assert checked.rc == 0, checked.output[-6000:]
    assert [lab.votes(name) for name in DATA] == [3, 3]
    since = time.time()
    done = lab.play("remove_controller", variables=given)
    assert done.rc == 0, done.output[-6000:]
    # check mode reports what the real run changes
    assert checked.changed_tasks() == done.changed_tasks() != []
    again = lab.play("remove_controller", variables=given)
    assert (again.rc, again.changed) == (0, 0), again.changed_tasks()
    assert lab.pause_after(since, 5) < MOST_SECONDS
    assert [lab.votes(name) for name in DATA] == [2, 2]
    lab.deploys()
    assert lab.pause_after(since, 5) < MOST_SECONDS
    lab.stop_writing()
    assert lab.written()["rows_lost"] == 0
    lab.becomes_whole()


def test_a_third_server_replaces_the_witness_without_a_pause(lab: WitnessLab) -> None:
    lab.command("up", "--servers", "3")
    three = [*DATA, "metal3"]
    given = {"footprint_witness_leaves": True}
    install()
    lab.write_witness_inventory(groups={"controller": three}, **Clients.allowed(lab))
    lab.refuses("3 members with data", "footprint_witness_leaves=true")
    lab.write_witness_inventory(**Clients.allowed(lab))
    lab.deploys()
    lab.write_witness_inventory(groups={"controller": three}, **Clients.allowed(lab))
    with Clients(lab, "grow", three) as clients:
        lab.deploys(variables=given)
        assert [lab.votes(name) for name in three] == [4, 4, 4]
        # with four votes, too, the loss of one is survived
        lab.lose_power("metal3")
        time.sleep(12)
        lab.power_on("metal3")
        eventually("the third server is back", lambda: lab.votes("metal3") == 4, 180)
        lab.becomes_whole()
        done = lab.play("remove_controller", variables={**given, "remove_controller_name": WITNESS, "remove_controller_confirm": WITNESS})
        assert done.rc == 0, done.output[-6000:]
        assert [lab.votes(name) for name in three] == [3, 3, 3]
        lab.write_witness_inventory([], groups={"controller": three}, footprint_components=WITHOUT_WITNESS, **Clients.allowed(lab))
        # the others were configured without it
        left = lab.deploys()
        assert left.changed == 0, left.changed_tasks()
    clients.check()
    report = lab.report()
    assert (report["state"], report["ha_grade"]) == ("ok", "quorum"), report["lines"]


@pytest.mark.parametrize("lost", [False, True], ids=["it leaves", "it is lost"])
def test_two_servers_and_a_witness_remain_of_three_servers(lab: WitnessLab, lost: bool) -> None:
    three, leaving = [*DATA, "metal3"], {"footprint_witness_leaves": True}
    given = {**leaving, "remove_controller_name": "metal3", "remove_controller_confirm": "metal3", "remove_controller_lost": lost}
    install()
    lab.write_witness_inventory(groups={"controller": three}, **Clients.allowed(lab))
    with Clients(lab, "shrink", DATA) as clients:
        lab.deploys(variables=leaving)
        assert [lab.votes(name) for name in three] == [4, 4, 4]
        if lost:
            lab.lose_power("metal3")
            eventually("it is excluded", lambda: lab.votes("metal1") == 3, 60)
        else:
            lab.refuses("Without metal3, 3 votes remain", name="remove_controller", variables={**given, "remove_controller_confirm": ""})
            killed = lab.play("remove_controller", variables=given, kill_at="rabbitmq : Remove its data", kill_delay=0.2)
            assert killed.rc < 0, killed.output[-3000:]
        checked = lab.play("remove_controller", variables=given, check=True)
        assert checked.rc == 0, checked.output[-6000:]
        done = lab.play("remove_controller", variables=given)
        assert done.rc == 0, done.output[-6000:]
        assert checked.changed_tasks() == done.changed_tasks() != []
        assert [lab.votes(name) for name in DATA] == [3, 3]
        again = lab.play("remove_controller", variables=given)
        assert (again.rc, again.changed) == (0, 0), again.changed_tasks()
        lab.write_witness_inventory(**Clients.allowed(lab))
        left = lab.deploys()
        assert left.changed == 0, left.changed_tasks()
        report = lab.report()
        assert (report["state"], report["ha_grade"]) == ("ok", "quorum"), report["lines"]
        # any one of the three may be lost
        lab.lose_power("metal1")
        time.sleep(12)
        lab.power_on("metal1")
        lab.becomes_whole()
        if lost:
            # it was forgotten: what it still has is not part of the cluster any more
            lab.power_on("metal3")
            time.sleep(30)
            assert [lab.votes(name) for name in DATA] == [3, 3]
            lab.becomes_whole()
    clients.check()
