# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A start forced while the majority is only unreachable: two Primary Components with one uuid, and their recovery."""

from __future__ import annotations

import time
import typing as t

import pytest
from controllers_lab import SERVERS, ControllersLab
from support import eventually
from test_database import deploy, synced

pytestmark = pytest.mark.chapter

ALONE, MAJORITY = "metal3", ("metal1", "metal2")
PORTS = "{ 4444, 4567, 4568 }"


def cut(lab: ControllersLab) -> None:
    """Drop the replication traffic between one member and the others."""
    if not lab.answers(ALONE, ["test", "-e", "/usr/sbin/nft"]):
        lab.run(ALONE, ["apt-get", "update", "-q"])
        lab.run(ALONE, ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends", "nftables"])
    rules = [f"add table inet cut; add chain inet cut {hook} {{ type filter hook {hook} priority -10; policy accept; }}" for hook in ("input", "output")]
    rules += [f"add rule inet cut {hook} tcp {port} {PORTS} drop" for hook in ("input", "output") for port in ("dport", "sport")]
    lab.run(ALONE, ["nft", "-f", "-"], stdin="\n".join(rules))


def restore(lab: ControllersLab) -> None:
    lab.run(ALONE, ["nft", "delete", "table", "inet", "cut"], check=False)


def execute(lab: ControllersLab, host: str, statement: str) -> str:
    return lab.run(host, ["mariadb", "-BN", "-e", statement]).strip()


def value(lab: ControllersLab, host: str, name: str) -> str:
    return execute(lab, host, f"SHOW GLOBAL STATUS LIKE '{name}'").partition("\t")[2]


@pytest.fixture(name="parted")
def fixture_parted(lab: ControllersLab) -> t.Iterator[str]:
    """Create two Primary Components with different rows; return the uuid."""
    lab.write_inventory()
    deploy(lab)
    execute(lab, "metal1", "CREATE OR REPLACE TABLE footprint.parted (host VARCHAR(20) PRIMARY KEY)")
    cut(lab)
    try:
        eventually("metal3 sees that it is alone", lambda: value(lab, ALONE, "wsrep_cluster_status") == "non-Primary", 60)
        eventually("the majority continues", lambda: synced(lab, MAJORITY), 60)
        execute(lab, ALONE, "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=1'")
        eventually("metal3 serves on its own", lambda: synced(lab, [ALONE]), 60)
        execute(lab, ALONE, "INSERT INTO footprint.parted VALUES ('metal3')")
        for number in range(5):
            execute(lab, "metal1", f"INSERT INTO footprint.parted VALUES ('metal1 {number}')")
        yield value(lab, ALONE, "wsrep_cluster_state_uuid")
    finally:
        restore(lab)


def test_two_primary_components_are_reported_and_recovered(lab: ControllersLab, parted: str) -> None:
    assert {value(lab, host, "wsrep_cluster_state_uuid") for host in SERVERS} == {parted}
    words = f"there are 2 Primary Components of the cluster {parted} at once: metal1, metal2 (size 2, configuration "
    given = {"deploy_controllers": {"deploy_controllers_components": "galera"}, "backup_database": {"galera_backup_directory": "/nowhere"}}
    for name in ("status", "recover_database", "deploy_controllers", "backup_database"):
        done = lab.play(name, variables=given.get(name))
        said = " ".join(done.output.split())
        assert done.rc != 0, f"{name} did not refuse: {done.output[-3000:]}"
        assert words in said and "; that of metal1 has committed more" in said, f"{name}: {done.output[-3000:]}"
        if name != "status":
            assert done.changed == 0, done.changed_tasks()
    forced = lab.play("recover_database", "-e", f"galera_force_bootstrap={ALONE}")
    assert forced.rc != 0 and "Primary Components" in forced.output
    # nothing was stopped or restarted without the operator
    assert synced(lab, MAJORITY) and synced(lab, [ALONE])

    # the procedure of docs/database.md, after a decision for the majority
    lab.run(ALONE, ["systemctl", "stop", "mariadb"])
    lab.run(ALONE, ["mv", "/var/lib/mysql", "/var/lib/mysql.other-part"])
    lab.run(ALONE, ["install", "-d", "-o", "mysql", "-g", "mysql", "-m", "0755", "/var/lib/mysql"])
    restore(lab)
    done = lab.play("recover_database")
    assert done.rc == 0, done.output[-6000:]
    assert synced(lab)
    kept = "\n".join(f"metal1 {number}" for number in range(5))
    assert {execute(lab, host, "SELECT host FROM footprint.parted ORDER BY host") for host in SERVERS} == {kept}
    assert lab.answers(ALONE, ["test", "-f", "/var/lib/mysql.other-part/footprint/parted.ibd"])
    again = lab.play("status")
    assert again.rc == 0, again.output[-3000:]
    lab.run(ALONE, ["rm", "-rf", "/var/lib/mysql.other-part"])


@pytest.mark.whole
def test_components_do_not_merge_without_the_operator(lab: ControllersLab, parted: str) -> None:
    """After reconnection both components continue to serve, as described in docs/database.md, and are refused as before."""
    restore(lab)
    time.sleep(30)
    assert synced(lab, MAJORITY) and synced(lab, [ALONE])
    refused = lab.play("recover_database")
    assert refused.rc != 0 and f"2 Primary Components of the cluster {parted}" in " ".join(refused.output.split())
    lab.run(ALONE, ["systemctl", "stop", "mariadb"])
    lab.run(ALONE, ["find", "/var/lib/mysql", "-mindepth", "1", "-delete"])
    done = lab.play("recover_database")
    assert done.rc == 0, done.output[-6000:]
    assert synced(lab)
