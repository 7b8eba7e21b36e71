# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The return of the database after cuts and crashes, by its guards alone: whose data counts, who waits for whom.

``LAB_RELEASE`` selects the release of Debian, and with it that of MariaDB.
"""

from __future__ import annotations

import json
import time
import typing as t

import pytest
from controllers_lab import SERVERS, ControllersLab
from support import eventually

pytestmark = pytest.mark.chapter

ONE, TWO, THREE = SERVERS
PLAY = [{"hosts": "controller", "gather_facts": False, "any_errors_fatal": True, "roles": [{"role": "reduced.footprint.galera"}]}]
GUARD = "footprint-galera-guard.service"
#: Record of a run that restarts members, which decides instead of the guards.
RUN = "/run/reduced.footprint/locks/controlplane-run.json"
#: Longer than any return takes on a loaded machine.
SECONDS = 240
#: Seconds for which the guards leave a decision to a run.
DEFERRED = 600


def sql(lab: ControllersLab, host: str, statement: str, check: bool = True) -> str:
    """Execute a statement on one member."""
    return lab.run(host, ["mariadb", "-BN", "-e", statement], check=check).strip()


def insert(lab: ControllersLab, host: str, number: int) -> None:
    """Write a row, which is acknowledged when this returns."""
    sql(lab, host, f"INSERT INTO footprint.returns VALUES ({number})")


def status(lab: ControllersLab, host: str, name: str) -> str:
    """One status variable, empty if the server does not answer."""
    return sql(lab, host, f"SHOW GLOBAL STATUS LIKE '{name}'", check=False).partition("\t")[2]


def state(lab: ControllersLab, host: str) -> dict[str, t.Any]:
    """What the guard of a member has found out."""
    return t.cast("dict[str, t.Any]", json.loads(lab.run(host, ["cat", "/run/footprint-galera/state.json"])))


def whole(lab: ControllersLab) -> bool:
    """Whether all members are ready members of one cluster."""
    wanted = {"wsrep_cluster_status": "Primary", "wsrep_local_state_comment": "Synced", "wsrep_cluster_size": "3"}
    return all(status(lab, host, name) == value for host in SERVERS for name, value in wanted.items())


def rows(lab: ControllersLab, host: str) -> list[int]:
    """All rows on a member, as of now."""
    return [int(number) for number in sql(lab, host, "SET SESSION wsrep_sync_wait = 15; SELECT n FROM footprint.returns ORDER BY n").split()]


def has(lab: ControllersLab, *numbers: int) -> None:
    """Wait until the cluster is whole; all members must have exactly these rows, and none may have replaced newer data."""
    eventually("the cluster is whole", lambda: whole(lab), SECONDS)
    for host in SERVERS:
        assert rows(lab, host) == list(numbers), host
        assert not lab.answers(host, ["journalctl", "--quiet", "--unit=mariadb.service", "--grep=Reversing history"]), host


def cut(lab: ControllersLab, host: str) -> None:
    """Drop what other members send to one."""
    addresses = ", ".join(lab.addresses[name] for name in SERVERS if name != host)
    rules = f"table inet cut {{\nchain input {{\ntype filter hook input priority -300;\nip saddr {{ {addresses} }} drop\n}}\n}}\n"
    lab.run(host, ["nft", "-f", "-"], stdin=rules)


def heal(lab: ControllersLab, host: str) -> None:
    lab.run(host, ["nft", "delete", "table", "inet", "cut"])


def kill(lab: ControllersLab, *hosts: str) -> None:
    for host in hosts:
        lab.run(host, ["systemctl", "kill", "--signal=KILL", "mariadb"])


def test_the_cluster_is_deployed(lab: ControllersLab) -> None:
    done = lab.play(PLAY)
    assert done.rc == 0, done.output[-6000:]
    sql(lab, ONE, "CREATE TABLE IF NOT EXISTS footprint.returns (n INT PRIMARY KEY) ENGINE=InnoDB; DELETE FROM footprint.returns")
    eventually("the cluster is whole", lambda: whole(lab), SECONDS)
    for host in SERVERS:
        eventually("its guard follows", lambda host=host: state(lab, host)["step"]["reason"] == "in the Primary Component", 30)


def test_only_members_may_ask_a_guard(lab: ControllersLab) -> None:
    code = "import http.client, sys; c = http.client.HTTPConnection(sys.argv[1], 9200, timeout=5); c.request('GET', '/state'); print(c.getresponse().status)"
    request = ["python3", "-c", code, lab.addresses[ONE]]
    assert lab.run(TWO, request).strip() == "200"
    # by the allow-list, or by the health check
    assert lab.run("laptop", request, check=False).strip() in ("403", "")


@pytest.mark.parametrize("way", ["kill", "power"])
def test_a_member_that_was_cut_off_does_not_replace_newer_data(lab: ControllersLab, way: str) -> None:
    number = 1 if way == "kill" else 2
    cut(lab, ONE)
    eventually("it has lost the component", lambda: status(lab, ONE, "wsrep_cluster_status") == "non-Primary", 60)
    eventually("its guard has isolated it", lambda: state(lab, ONE)["report"]["isolated"], 20)
    eventually("the others serve", lambda: status(lab, TWO, "wsrep_cluster_size") == "2", 60)
    insert(lab, TWO, number)
    if way == "kill":
        kill(lab, TWO, THREE)
        heal(lab, ONE)
    else:
        lab.lose_power(TWO, THREE)
        heal(lab, ONE)
        lab.power_on(TWO, THREE)
    has(lab, *range(1, number + 1))


def test_a_start_that_was_decided_before_the_guards_acted_is_refused(lab: ControllersLab) -> None:
    """As when the control node slept between the decision and the start."""
    cut(lab, ONE)
    eventually("its guard has isolated it", lambda: state(lab, ONE)["report"]["isolated"], 90)
    eventually("the others serve", lambda: status(lab, TWO, "wsrep_cluster_size") == "2", 60)
    late = {"state": "bootstrapped", "confirm": [TWO, THREE], "cluster_uuid": status(lab, TWO, "wsrep_cluster_state_uuid")}
    run = [{"hosts": ONE, "gather_facts": False, "tasks": [{"reduced.footprint.galera_member": late}]}]
    refused = lab.play(run)
    assert refused.rc != 0 and "does not answer. It was not so when that was decided" in refused.output, refused.output[-3000:]
    assert status(lab, ONE, "wsrep_cluster_status") == "non-Primary"
    heal(lab, ONE)
    has(lab, 1, 2)
    # what it must not do, it does not have to do any more
    done = lab.play(run)
    assert done.rc == 0 and "changed=0" in done.output, done.output[-3000:]


def test_a_plain_cut_of_all_ends_by_itself(lab: ControllersLab) -> None:
    for host in SERVERS:
        cut(lab, host)
    for host in SERVERS:
        eventually("its guard has isolated it", lambda host=host: (state(lab, host)["report"] or {}).get("isolated"), 90)
    for host in SERVERS:
        heal(lab, host)
    has(lab, 1, 2)


def test_a_power_loss_of_all(lab: ControllersLab) -> None:
    insert(lab, THREE, 3)
    lab.lose_power(*SERVERS)
    lab.power_on(*SERVERS)
    has(lab, 1, 2, 3)


def test_a_missing_member_with_newer_data_is_waited_for(lab: ControllersLab) -> None:
    cut(lab, ONE)
    eventually("the others serve", lambda: status(lab, TWO, "wsrep_cluster_size") == "2", 60)
    insert(lab, TWO, 4)
    lab.lose_power(TWO)
    kill(lab, THREE)
    heal(lab, ONE)
    eventually("they wait for it", lambda: all(TWO in state(lab, host)["step"]["waits_for"] for host in (ONE, THREE)), 90)
    time.sleep(15)
    assert all(status(lab, host, "wsrep_cluster_status") != "Primary" for host in (ONE, THREE))
    seen = lab.play([{"hosts": ONE, "gather_facts": False, "tasks": [{"reduced.footprint.controlplane_info": {"services": ["galera"]}, "register": "seen"},
                                                                     {"debug": {"var": "seen.controlplane.problems"}}]}])
    assert f"its guard waits: {TWO}" in seen.output, seen.output[-3000:]
    lab.power_on(TWO)
    has(lab, 1, 2, 3, 4)


def test_an_orderly_stop_of_all(lab: ControllersLab) -> None:
    for host in SERVERS:
        lab.run(host, ["systemctl", "stop", "mariadb"])
        time.sleep(2)
    for host in SERVERS:
        lab.run(host, ["systemctl", "start", "--no-block", "mariadb"])
    has(lab, 1, 2, 3, 4)


def test_a_member_that_differs_returns_with_the_data_of_the_others(lab: ControllersLab) -> None:
    sql(lab, THREE, "SET SESSION wsrep_on = OFF; DELETE FROM footprint.returns WHERE n = 4")
    sql(lab, ONE, "DELETE FROM footprint.returns WHERE n = 4")
    has(lab, 1, 2, 3)


def test_a_guard_that_is_killed_while_it_forms_a_component_continues(lab: ControllersLab) -> None:
    lab.run(THREE, ["systemctl", "stop", GUARD])
    lab.run(THREE, ["touch", "/run/footprint-galera/forming"])
    lab.run(THREE, ["systemctl", "stop", "mariadb"])
    lab.run(THREE, ["systemctl", "start", GUARD])
    has(lab, 1, 2, 3)
    assert lab.run(THREE, ["systemctl", "is-active", GUARD]).strip() == "active"


def test_a_server_that_an_operator_stopped_stays_stopped(lab: ControllersLab) -> None:
    lab.run(THREE, ["systemctl", "stop", "mariadb"])
    time.sleep(10)
    assert lab.run(THREE, ["systemctl", "is-active", "mariadb"], check=False).strip() == "inactive"
    lab.run(THREE, ["systemctl", "start", "mariadb"])
    has(lab, 1, 2, 3)


def test_a_run_that_is_refused_leaves_the_database_to_its_guards(lab: ControllersLab) -> None:
    # it is not confirmed
    refused = lab.play("remove_controller", variables={"remove_controller_name": THREE})
    assert refused.rc != 0 and "Plan the removal" in refused.output, refused.output[-4000:]
    assert not [host for host in SERVERS if lab.answers(host, ["test", "-e", RUN])]
    insert(lab, TWO, 5)
    numbers = rows(lab, TWO)
    kill(lab, *SERVERS)
    has(lab, *numbers)


def test_a_run_that_is_killed_keeps_the_database_down_for_some_minutes_only(lab: ControllersLab) -> None:
    """As when the laptop that runs it goes home."""
    galera = {"deploy_controllers_components": ["galera"]}
    killed = lab.play("deploy_controllers", variables=galera, kill_at="TASK [Deploy the services in order", kill_delay=1)
    assert killed.rc < 0, killed.output[-4000:]
    assert all(lab.answers(host, ["test", "-e", RUN]) for host in SERVERS)
    insert(lab, THREE, 6)
    numbers = rows(lab, THREE)
    kill(lab, *SERVERS)
    left = "a run that restarts members"
    eventually("a guard leaves the decision to it", lambda: any(left in state(lab, host)["step"]["reason"] for host in SERVERS), 120)
    eventually("the cluster is whole", lambda: whole(lab), DEFERRED + SECONDS)
    has(lab, *numbers)
    again = lab.play("deploy_controllers", variables=galera)
    assert again.rc == 0, again.output[-4000:]
    assert not [host for host in SERVERS if lab.answers(host, ["test", "-e", RUN])]
