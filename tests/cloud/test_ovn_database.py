# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The databases of OVN on three servers: formed, leaders killed, a disk lost, a majority lost."""

from __future__ import annotations

import time

import pytest
from cloud_lab import DATABASES, OVN, CloudLab
from controllers_lab import SERVERS
from support import eventually

pytestmark = pytest.mark.chapter
PLAY = [{"hosts": "ovn_database", "gather_facts": False, "any_errors_fatal": True, "roles": [{"role": "reduced.footprint.ovn_database"}]}]
UNITS = [f"ovn-ovsdb-server-{short}" for short in DATABASES]


@pytest.fixture(scope="module", autouse=True)
def members(lab: CloudLab) -> None:
    """Three members."""
    lab.write_inventory(groups={"ovn_database": SERVERS})


def whole(lab: CloudLab) -> bool:
    """Whether all members follow leaders in clusters of three."""
    states = [lab.cluster(host, short) for host in SERVERS for short in DATABASES]
    return all(one.get("Status") == "cluster member" and one.get("Leader", "unknown") != "unknown" and one["servers"] == "3" for one in states)


def wipe(lab: CloudLab, *hosts: str) -> None:
    """A lost disk."""
    for host in hosts:
        lab.run(host, ["systemctl", "stop", *UNITS])
        lab.run(host, ["sh", "-c", "rm -f /var/lib/ovn/*.db"])


def test_three_members_form_the_databases(lab: CloudLab) -> None:
    lab.succeeds(PLAY)
    eventually("all members follow leaders", lambda: whole(lab), 30)
    again = lab.succeeds(PLAY)
    assert again.changed == 0, again.changed_tasks()
    lab.nbctl("metal1", "ls-add", "kept")


def test_they_listen_on_their_own_addresses_and_admit_signed_clients_only(lab: CloudLab) -> None:
    for host in SERVERS:
        listening = [line.split()[3] for line in lab.run(host, ["ss", "-Htln"]).splitlines()]
        ports = sorted(one for one in listening if one.endswith((":6641", ":6642", ":6643", ":6644")))
        assert ports == [f"{lab.addresses[host]}:{port}" for port in (6641, 6642, 6643, 6644)]
    lab.run("metal1", ["install", "-d", "-m", "0700", "/root/other"])
    lab.run("metal1", ["cp", f"{OVN}/ca.pem", "/root/other/ca.pem"])
    lab.run("metal1", ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=other",
                       "-keyout", "/root/other/key.pem", "-out", "/root/other/certificate.pem", "-days", "1"])
    assert "kept" in lab.nbctl("metal1", "ls-list")
    assert "kept" not in lab.nbctl("metal1", "ls-list", check=False, directory="/root/other")


def test_a_killed_leader_is_replaced_within_seconds(lab: CloudLab) -> None:
    victim = lab.leader("nb")
    other = next(host for host in SERVERS if host != victim)
    # the unit would be started again after a second
    lab.run(victim, ["systemctl", "mask", "--runtime", *UNITS])
    lab.run(victim, ["systemctl", "kill", "--signal=KILL", *UNITS])
    began = time.monotonic()
    eventually("the database takes writes", lambda: lab.nbctl(other, "--may-exist", "ls-add", "written", check=False) == "" and
               "written" in lab.nbctl(other, "ls-list", check=False), 30)
    print(f"writable {time.monotonic() - began:.1f} s after the kill")
    lab.run(victim, ["systemctl", "unmask", "--runtime", *UNITS])
    lab.succeeds(PLAY)
    eventually("all members follow leaders", lambda: whole(lab), 30)


def test_a_member_that_lost_its_disk_joins_again(lab: CloudLab) -> None:
    wipe(lab, "metal2")
    seen = lab.succeeds(PLAY, check=True)
    assert "join OVN_Northbound" in seen.output and not lab.answers("metal2", ["test", "-e", "/var/lib/ovn/ovnnb_db.db"])
    lab.succeeds(PLAY, limit="metal2")
    eventually("all members follow leaders", lambda: whole(lab), 30)
    assert {"kept", "written"} <= {word.strip("()") for word in lab.run("metal2", ["ovn-nbctl", "--no-leader-only", "ls-list"]).split()}
    again = lab.succeeds(PLAY)
    assert again.changed == 0, again.changed_tasks()


def test_a_restarted_unit_does_not_create_a_database(lab: CloudLab) -> None:
    wipe(lab, "metal1")
    lab.run("metal1", ["systemctl", "start", *UNITS], check=False)
    assert not lab.answers("metal1", ["systemctl", "is-active", UNITS[0]])
    assert not lab.answers("metal1", ["test", "-e", "/var/lib/ovn/ovnnb_db.db"])
    lab.succeeds(PLAY)
    eventually("all members follow leaders", lambda: whole(lab), 30)


def test_a_lost_majority_is_refused_unless_a_member_is_forced(lab: CloudLab) -> None:
    wipe(lab, "metal2", "metal3")
    refused = lab.play(PLAY)
    assert refused.rc != 0 and "has no leader: 1 of 3 servers are not a majority (metal2, metal3 lost the data" in " ".join(refused.output.split())
    assert refused.changed == 0, refused.changed_tasks()
    lab.succeeds(PLAY, variables={"ovn_database_force": "metal1"})
    eventually("all members follow leaders", lambda: whole(lab), 30)
    assert "kept" in lab.nbctl("metal3", "ls-list")
    again = lab.succeeds(PLAY, variables={"ovn_database_force": "metal1"})
    assert again.changed == 0, again.changed_tasks()
