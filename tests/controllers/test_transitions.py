# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each transition that the model of Galera claims for three members, on real ones without their guards.

``LAB_RELEASE`` selects the release of Debian, and with it that of MariaDB. Not covered: the transitions with a witness, and those that
nothing shows afterwards.
"""

from __future__ import annotations

import re
import time
import typing as t

import pytest
from controllers_lab import SERVERS, ControllersLab
from support import eventually
from test_return import GUARD, PLAY, SECONDS, sql, status

from tests.model.galera_transitions import TRANSITIONS, Transition

NAMES = dict(zip("abc", SERVERS))
DROP_IN = "/etc/systemd/system/mariadb.service.d/footprint.conf"
#: The program in it that renames the saved view.
RENAMES = "galera_before_start.py"
#: Of the last one, the members with newer data abort, at different moments.
NOT_COVERED = ("no commit without all", "a view has a position", "memory wins over the disk")
COVERED = [each for each in TRANSITIONS if each.members == "abc" and each.name not in NOT_COVERED]
#: Seconds in which a component that must not be formed would have been.
LONG = 12


def wait(lab: ControllersLab, host: str, name: str, value: str) -> None:
    eventually(f"{name} of {host} is {value}", lambda: status(lab, host, name) == value, SECONDS)


def unit(lab: ControllersLab, host: str) -> str:
    return lab.run(host, ["systemctl", "is-active", "mariadb"], check=False).strip()


class Members:
    """Carries out the steps of a transition."""

    def __init__(self, lab: ControllersLab) -> None:
        self.lab = lab

    def reset(self) -> None:
        """Make the cluster whole, by its guards; then stop these."""
        for host in SERVERS:
            self.lab.run(host, ["nft", "delete", "table", "inet", "cut"], check=False)
            sql(self.lab, host, "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'", check=False)
            self.lab.run(host, ["systemctl", "start", GUARD])
            self.lab.run(host, ["systemctl", "start", "--no-block", "mariadb"])
        for host in SERVERS:
            wait(self.lab, host, "wsrep_cluster_size", "3")
            wait(self.lab, host, "wsrep_local_state_comment", "Synced")
        for host in SERVERS:
            self.lab.run(host, ["systemctl", "stop", GUARD])

    def drop(self, host: str, *others: str) -> None:
        """Drop what others send."""
        addresses = ", ".join(self.lab.addresses[each] for each in others)
        rules = f"table inet cut {{\nchain input {{\ntype filter hook input priority -300;\nip saddr {{ {addresses} }} drop\n}}\n}}\n"
        self.lab.run(host, ["nft", "-f", "-"], stdin=rules)

    def crash(self, host: str) -> None:
        """End a server without an orderly leave, and keep it ended."""
        self.lab.run(host, ["sh", "-c", "systemctl kill --signal=KILL mariadb; systemctl stop mariadb"])

    def form(self, host: str) -> None:
        if status(self.lab, host, "wsrep_cluster_status") == "Primary":
            return
        if unit(self.lab, host) == "active":
            sql(self.lab, host, "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=true'")
        else:
            self.crash(host)
            self.lab.run(host, ["sed", "-i", "s/^safe_to_bootstrap:.*/safe_to_bootstrap: 1/", "/var/lib/mysql/grastate.dat"])
            self.lab.run(host, ["systemctl", "set-environment", "_WSREP_NEW_CLUSTER=--wsrep-new-cluster --wsrep-cluster-address=gcomm://"])
            self.lab.run(host, ["systemctl", "start", "mariadb"])

    def do(self, step: str) -> None:
        """Carry out a step of the table."""
        hosts = [NAMES[each] for each in re.findall(r"\b[abc]\b", step)]
        one = hosts[0] if hosts else ""
        if step.startswith("not: "):
            time.sleep(LONG)
        elif step.endswith("is cut off"):
            self.drop(one, *[each for each in SERVERS if each != one])
        elif step.startswith("the link"):
            self.drop(one, hosts[1])
            time.sleep(LONG)
        elif step.endswith("agree"):
            for host in hosts:
                # one that waits answers nothing yet
                if unit(self.lab, host) == "active":
                    wait(self.lab, host, "wsrep_cluster_size", str(len(hosts)))
        elif step.endswith("loses power"):
            self.crash(one)
        elif step.startswith("the operator stops"):
            self.lab.run(one, ["systemctl", "stop", "mariadb"])
        elif step.startswith("the server of"):
            self.lab.run(one, ["systemctl", "kill", "--signal=KILL", "mariadb"])
        elif step == "all links are back":
            for host in SERVERS:
                self.lab.run(host, ["nft", "delete", "table", "inet", "cut"], check=False)
        elif step.endswith(": isolate"):
            sql(self.lab, one, "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
        elif step.endswith(": form"):
            self.form(one)
        elif step.endswith("order"):
            sql(self.lab, one, "INSERT INTO footprint.returns VALUES (DEFAULT)")
        else:
            assert step.endswith("receives"), step

    def become(self, host: str, state: str) -> None:
        """Wait for a state of the table."""
        if state in ("synced", "joining"):
            # one that joins is synchronised soon
            wait(self.lab, host, "wsrep_cluster_status", "Primary")
            wait(self.lab, host, "wsrep_local_state_comment", "Synced")
        elif state in ("lost", "isolated"):
            wait(self.lab, host, "wsrep_cluster_status", "non-Primary")
        else:
            expected = {"waiting": "activating", "stopped": "inactive"}[state]
            eventually(f"{host} is {expected}", lambda: unit(self.lab, host) == expected, SECONDS)


@pytest.fixture(scope="module", name="members")
def fixture_members(lab: ControllersLab) -> t.Iterator[Members]:
    """The deployed members."""
    done = lab.play(PLAY)
    assert done.rc == 0, done.output[-6000:]
    sql(lab, SERVERS[0], "CREATE OR REPLACE TABLE footprint.returns (n INT PRIMARY KEY AUTO_INCREMENT) ENGINE=InnoDB")
    members = Members(lab)
    yield members
    members.reset()
    for host in SERVERS:
        lab.run(host, ["systemctl", "start", GUARD])


@pytest.mark.parametrize("transition", COVERED, ids=lambda each: each.name.replace(" ", "-"))
def test_what_galera_does(lab: ControllersLab, members: Members, transition: Transition) -> None:
    members.reset()
    if transition.restores:
        for host in SERVERS:
            lab.run(host, ["grep", "--quiet", f"^ExecStartPre=.*{RENAMES}", DROP_IN])
            lab.run(host, ["sed", "-i.renames", f"/{RENAMES}/d", DROP_IN])
            lab.run(host, ["systemctl", "daemon-reload"])
    try:
        for step in transition.steps:
            members.do(step)
        for name, state in transition.then.items():
            members.become(NAMES[name], state)
    finally:
        if transition.restores:
            for host in SERVERS:
                lab.run(host, ["mv", f"{DROP_IN}.renames", DROP_IN])
                lab.run(host, ["systemctl", "daemon-reload"])
