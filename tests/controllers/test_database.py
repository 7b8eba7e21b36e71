# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The database of three controllers: members stopped, power loss, foreign data, backup, destruction, restore, encryption.

A client continuously writes through the virtual address. Its gaps are recorded in tests/output/controllers/LAB/database.json.
"""

from __future__ import annotations

import json
import pathlib
import time
import typing as t

import pytest
import snapshot
from connecting import Connecting
from controllers_lab import ControllersLab, SERVERS, notes
from support import eventually

pytestmark = pytest.mark.chapter
note = notes("database")

GRASTATE = "/var/lib/mysql/grastate.dat"
PLAY = [
    {
        "hosts": "all",
        "gather_facts": False,
        "any_errors_fatal": True,
        "roles": [{"role": "reduced.footprint.galera"}, {"role": "reduced.footprint.load_balancer"}],
    }
]


def deploy(lab: ControllersLab, **variables: t.Any) -> t.Any:
    """Deploy the database and the load balancers."""
    done = lab.play(PLAY, variables=variables)
    assert done.rc == 0, done.output[-6000:]
    return done


def stop(lab: ControllersLab, *hosts: str) -> None:
    for host in hosts:
        lab.run(host, ["systemctl", "stop", "mariadb"])


def synced(lab: ControllersLab, hosts: t.Sequence[str] = SERVERS) -> bool:
    """Whether each host is a ready member of one cluster of that size."""
    for host in hosts:
        text = lab.run(host, ["mariadb", "-BN", "-e", "SHOW GLOBAL STATUS LIKE 'wsrep\\_%'"], check=False)
        status = dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)
        wanted = {"wsrep_cluster_status": "Primary", "wsrep_local_state_comment": "Synced", "wsrep_cluster_size": str(len(hosts))}
        if any(status.get(name) != value for name, value in wanted.items()):
            return False
    return True


def recover(lab: ControllersLab, *arguments: str, **options: t.Any) -> t.Any:
    done = lab.play("recover_database", *arguments, **options)
    assert done.rc == 0, done.output[-6000:]
    return done


def pause(lab: ControllersLab) -> float:
    """Return the longest time without an acknowledged row; check that no row is missing."""
    eventually("rows are written", lab.writing, 120)
    lab.stop_writing()
    report = lab.written()
    assert report["rows_lost"] == 0, report
    return report["largest_gap_seconds"]


def rows(lab: ControllersLab, table: str = "footprint.events") -> set[str]:
    """Return the different checksums of a table on all members."""
    return {lab.run(host, ["mariadb", "-BN", "-e", f"CHECKSUM TABLE {table}"]) for host in SERVERS}


def test_second_deployment_changes_nothing(lab: ControllersLab) -> None:
    first = deploy(lab)
    again = deploy(lab)
    assert again.changed == 0, again.changed_tasks()
    checked = lab.play(PLAY, check=True)
    assert (checked.rc, checked.changed) == (0, 0), checked.changed_tasks()
    note("deploy", seconds=round(first.seconds), again_seconds=round(again.seconds))


def test_a_diagnostic_snapshot_contains_no_secret(lab: ControllersLab, tmp_path: pathlib.Path) -> None:
    note("snapshot", **snapshot.without_secrets(lab, tmp_path))


@pytest.mark.parametrize(
    ("name", "variables", "words"),
    [
        ("deploy_controllers", {"deploy_controllers_components": "galera", "galera_cluster_name": "other"}, "is named lab, expected other"),
        ("backup_database", {}, "galera_backup_directory: unset"),
        ("backup_database", {"galera_backup_directory": "here"}, "galera_backup_directory: here"),
        ("backup_database", {"galera_backup_directory": "/nowhere", "galera_backup_retain": -1}, "galera_backup_retain: -1"),
        ("backup_database", {"galera_backup_directory": "/nowhere", "galera_backup_member": "metal9"}, "metal9 is not among the members"),
        ("restore_database", {}, "galera_restore_file: expected an absolute path"),
        ("restore_database", {"galera_restore_file": "/nowhere/x.mbs.zst"}, "/nowhere/x.mbs.zst does not exist"),
    ],
)
def test_invalid_input_is_refused(lab: ControllersLab, name: str, variables: dict[str, t.Any], words: str) -> None:
    done = lab.play(name, variables=variables)
    assert done.rc != 0
    assert words in done.output, done.output[-3000:]
    assert synced(lab)


def test_members_stopped_one_by_one_are_recovered_without_loss(lab: ControllersLab) -> None:
    lab.start_writing()
    for host in SERVERS:
        stop(lab, host)
        time.sleep(3)
    stamps = list(lab.acknowledged().values())
    began = time.time()
    dry = recover(lab, check=True)
    assert "metal3 has the highest position" in dry.output
    assert "was the last member to leave; starts the cluster" in dry.output
    assert not lab.answers("metal3", ["systemctl", "is-active", "--quiet", "mariadb"])
    done = recover(lab)
    serving = time.time() - began
    assert synced(lab)
    gap = pause(lab)
    kept = lab.promises_kept()
    copies = lab.run("metal3", ["find", "/var/lib", "-maxdepth", "1", "-name", "mysql.before-recovery-*"]).split()
    assert len(copies) == 1 and lab.answers("metal3", ["test", "-f", f"{copies[0]}/ibdata1"])
    again = recover(lab)
    assert again.changed == 0, again.changed_tasks()
    assert "all members are in the Primary Component" in again.output
    while_some_serve = max(after - before for before, after in zip(stamps, stamps[1:]))
    figures = {"recovery_seconds": round(done.seconds), "with_dry_run": round(serving)}
    note("stopped one by one", rows=kept, largest_gap=gap, largest_gap_while_some_serve=round(while_some_serve, 3), **figures)


def test_no_client_waits_for_ever_for_a_killed_member(lab: ControllersLab) -> None:
    """HAProxy must neither keep nor forget a connection that waits for a member until that is marked down."""
    lab.stop_writing()
    for unused in range(3):
        eventually("the database is whole", lambda: synced(lab), 120)
        victim = str(lab.writer_sql("SELECT @@hostname")[0][0])
        with Connecting(lab) as clients:
            time.sleep(3)
            lab.run(victim, ["systemctl", "kill", "--signal=KILL", "mariadb"])
            time.sleep(10)
        assert clients.waiting(20) == 0, f"{victim} was killed"
        note(f"connections while {victim} is killed", longest_seconds=round(clients.longest, 1))
    eventually("the database is whole", lambda: synced(lab), 120)


def test_power_loss_of_all_members_is_recovered_automatically(lab: ControllersLab) -> None:
    lab.start_writing()
    time.sleep(3)
    lab.lose_power(*SERVERS)
    began = time.time()
    lab.power_on(*SERVERS)
    eventually("the cluster is back by itself", lambda: synced(lab), 300)
    back = time.time() - began
    gap = pause(lab)
    note("power loss of all three", rows=lab.promises_kept(), largest_gap=gap, synced_after_power_on=round(back))
    done = recover(lab)
    assert done.changed == 0, done.changed_tasks()


def test_foreign_member_is_refused(lab: ControllersLab) -> None:
    stop(lab, *SERVERS)
    text = lab.run("metal2", ["cat", GRASTATE])
    [uuid] = [line.split()[1] for line in text.splitlines() if line.startswith("uuid:")]
    foreign = "bbbbbbbb-0000-11ef-8000-000000000002"
    lab.run("metal2", ["sed", "-i", f"s/{uuid}/{foreign}/", GRASTATE])
    for arguments in ([], ["-e", "galera_force_bootstrap=metal1"]):
        done = lab.play("recover_database", *arguments)
        assert done.rc != 0
        assert foreign in done.output and uuid in done.output and "Nothing was changed" in done.output, done.output[-3000:]
    assert not any(lab.answers(host, ["systemctl", "is-active", "--quiet", "mariadb"]) for host in SERVERS)
    lab.run("metal2", ["sed", "-i", f"s/{foreign}/{uuid}/", GRASTATE])
    recover(lab)
    assert synced(lab)
    lab.promises_kept()


def test_databases_without_a_position_are_kept_until_the_operator_decides(lab: ControllersLab) -> None:
    zeros = "# GALERA saved state\\nversion: 2.1\\nuuid:    00000000-0000-0000-0000-000000000000\\nseqno:   -1\\nsafe_to_bootstrap: 0\\n"
    steps = (
        "mv /var/lib/mysql /var/lib/mysql.original",
        "mariadb-install-db --user=mysql --skip-test-db >/dev/null 2>&1",
        "install -d -o mysql -g mysql /var/lib/mysql/keystone",
        # one of them is empty, as after a full disk
        f"printf '{zeros}' >{GRASTATE}; [ $(hostname) != metal3 ] || : >{GRASTATE}; chown mysql: {GRASTATE}",
    )
    stop(lab, *SERVERS)
    for host in SERVERS:
        lab.run(host, ["sh", "-ec", "\n".join(steps)])
    for arguments in (["recover_database"], ["deploy_controllers", "-e", "deploy_controllers_components=galera"]):
        refused = lab.play(*arguments)
        assert refused.rc != 0
        assert "metal1: keystone; metal2: keystone; metal3: keystone" in refused.output and "galera_force_bootstrap" in refused.output, refused.output[-3000:]
    assert not any(lab.answers(host, ["systemctl", "is-active", "--quiet", "mariadb"]) for host in SERVERS)
    recover(lab, "-e", "galera_force_bootstrap=metal2")
    assert synced(lab)
    kept = "find /var/lib -maxdepth 3 -path '*mysql.before-recovery-none*' -name keystone"
    assert [len(lab.run(host, ["sh", "-c", kept]).split()) for host in SERVERS] == [1, 1, 1], "two are set aside, and one is copied before it starts"
    stop(lab, *SERVERS)
    for host in SERVERS:
        lab.run(host, ["sh", "-ec", "rm -rf /var/lib/mysql /var/lib/mysql.before-recovery-none*; mv /var/lib/mysql.original /var/lib/mysql"])
    recover(lab)
    lab.promises_kept()


def test_missing_member_is_refused_unless_forced(lab: ControllersLab) -> None:
    lab.start_writing()
    # metal3 is the first to leave, so nothing is lost without it
    for host in reversed(SERVERS):
        stop(lab, host)
        time.sleep(2)
    lab.lose_power("metal3")
    refused = lab.play("recover_database")
    assert refused.rc != 0
    assert "metal3: does not answer" in refused.output and "galera_force_bootstrap" in refused.output, refused.output[-3000:]
    assert not lab.answers("metal1", ["systemctl", "is-active", "--quiet", "mariadb"])
    unknown = lab.play("recover_database", "-e", "galera_force_bootstrap=metal3")
    assert unknown.rc != 0 and "metal3 is forced to start the cluster, but does not answer" in unknown.output
    forced = recover(lab, "-e", "galera_force_bootstrap=metal1")
    assert synced(lab, SERVERS[:2])
    gap = pause(lab)
    lab.power_on("metal3")
    eventually("metal3 joins by itself", lambda: synced(lab), 180)
    note("one missing, forced", rows=lab.promises_kept(), largest_gap=gap, recovery_play_seconds=round(forced.seconds))


@pytest.mark.whole
def test_forced_older_member_sets_the_newer_data_aside(lab: ControllersLab) -> None:
    eventually("the table is made", lambda: lab.writer_sql("CREATE OR REPLACE TABLE footprint.late (n INT PRIMARY KEY)") == [], 60)
    stop(lab, "metal1")
    # clients may have been directed to this member
    eventually("a row is written", lambda: lab.writer_sql("REPLACE INTO footprint.late VALUES (1)") == [], 60)
    stop(lab, "metal2", "metal3")
    done = recover(lab, "-e", "galera_force_bootstrap=metal1")
    assert "newer rows of metal2, metal3 are lost" in done.output
    assert synced(lab)
    assert lab.writer_sql("SELECT COUNT(*) FROM footprint.late") == [(0,)]
    for host in ("metal2", "metal3"):
        assert lab.run(host, ["find", "/var/lib", "-maxdepth", "1", "-name", "mysql.before-recovery-*"]).split()


def destroy(lab: ControllersLab) -> None:
    """Remove all data of all members."""
    for host in SERVERS:
        lab.run(host, ["systemctl", "kill", "--signal=SIGKILL", "mariadb"], check=False)
        lab.run(host, ["systemctl", "stop", "mariadb"], check=False)
        lab.run(host, ["rm", "-rf", "/var/lib/mysql"])


def backup(lab: ControllersLab, folder: pathlib.Path, **variables: t.Any) -> pathlib.Path:
    """Create a backup."""
    done = lab.play("backup_database", variables={"galera_backup_directory": str(folder), **variables})
    assert done.rc == 0, done.output[-6000:]
    [*unused, newest] = sorted(path for path in folder.glob("lab-*.mbs.*") if path.suffix != ".json")
    return newest


def restore(lab: ControllersLab, file: pathlib.Path, **variables: t.Any) -> t.Any:
    done = lab.play("restore_database", variables={"galera_restore_file": str(file), "galera_restore_confirm": "lab", **variables})
    assert done.rc == 0, done.output[-6000:]
    return done


def test_backup_is_restored_after_destruction(lab: ControllersLab, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("backups")
    lab.start_writing()
    before = set(lab.acknowledged())
    first = backup(lab, folder)
    assert lab.writing()
    # the backup is not taken from the member that clients write to
    [writer] = [host for host in SERVERS if "writer" in lab.run(host, ["mariadb", "-BN", "-e", "SELECT user FROM information_schema.processlist"])]
    assert json.loads(pathlib.Path(f"{first}.json").read_text(encoding="utf-8"))["member"] != writer
    second = backup(lab, folder, galera_backup_retain=1)
    gap = pause(lab)
    assert not first.exists() and second.exists() and second.stat().st_mode & 0o777 == 0o600
    manifest = json.loads(pathlib.Path(f"{second}.json").read_text(encoding="utf-8"))
    lab.promises_kept()
    assert not any(lab.run(host, ["find", "/var/lib/reduced.footprint/backup", "-type", "f"], check=False) for host in SERVERS)

    refused = lab.play("restore_database", variables={"galera_restore_file": str(second)})
    assert refused.rc != 0 and "-e galera_restore_confirm=lab" in refused.output
    damaged = folder / "damaged.mbs.zst"
    damaged.write_bytes(second.read_bytes()[:-1] + b"x")
    pathlib.Path(f"{damaged}.json").write_bytes(pathlib.Path(f"{second}.json").read_bytes())
    broken = lab.play("restore_database", variables={"galera_restore_file": str(damaged), "galera_restore_confirm": "lab"})
    assert broken.rc != 0 and "does not match its metadata file" in broken.output
    assert synced(lab)

    destroy(lab)
    done = restore(lab, second)
    assert synced(lab)
    assert len(rows(lab)) == 1
    assert before <= lab.rows_of("metal3")
    # accounts are restored as well
    eventually("the writer is let in", lambda: lab.writer_sql("SELECT COUNT(*) FROM footprint.events") != [(0,)], 60)
    again = restore(lab, second)
    assert again.changed == 0, again.changed_tasks()
    assert "galera_restore_round=2" in again.output
    size, compression = manifest["bytes"], manifest["compression"]
    note("backup and restore", largest_gap_while_backing_up=gap, bytes=size, compression=compression, restore_seconds=round(done.seconds))


@pytest.mark.whole
@pytest.mark.parametrize(
    "task,seconds",
    [
        ("Unpack and prepare the backup", 1),
        ("Replace the data on one member", 1),
        ("Start the cluster", 1),
        ("Join or restart metal2", 1),
        ("Join or restart metal3", 1),
        # one of the last tasks, and a short one
        ("Remove the copied backup", 0.1),
    ],
)
def test_killed_restore_is_completed_by_the_next_run(lab: ControllersLab, task: str, seconds: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    lab.writer_sql("CREATE OR REPLACE TABLE footprint.story (n INT PRIMARY KEY)")
    lab.writer_sql("INSERT INTO footprint.story VALUES (1), (2)")
    file = backup(lab, tmp_path_factory.mktemp("backups"))
    lab.writer_sql("INSERT INTO footprint.story VALUES (3)")
    lab.killed("restore_database", "-e", f"galera_restore_file={file}", "-e", "galera_restore_confirm=lab", kill_at=task, kill_delay=seconds)
    restore(lab, file)
    assert synced(lab)
    assert len(rows(lab, "footprint.story")) == 1
    assert lab.run("metal2", ["mariadb", "-BN", "-e", "SELECT GROUP_CONCAT(n) FROM footprint.story"]).strip() == "1,2"
    assert restore(lab, file).changed == 0


REPLICATION = (4567, 4568, 4444)


def speaks(lab: ControllersLab, host: str) -> tuple[bool, bool]:
    """Whether a member accepts TLS, and whether it accepts plain text."""
    text = lab.run(host, ["mariadb", "-BN", "-e", "SELECT @@wsrep_provider_options"])
    options = {key.strip(): value.strip() for key, _equals, value in (part.partition("=") for part in text.split(";"))}
    return options.get("socket.ssl") == "YES", options.get("socket.dynamic") == "YES"


def copied(lab: ControllersLab, canary: str) -> tuple[set[int], dict[int, int]]:
    """Write rows with a member online, offline (IST) and without data (SST); return the ports that showed a row, and the bytes of each."""
    name = f"footprint.canary{time.time_ns()}"
    with lab.capture(canary) as capture:
        lab.run("metal1", ["mariadb", "-e", f"CREATE TABLE {name} (t VARCHAR(80)); INSERT INTO {name} VALUES ('{canary}')"])
        stop(lab, "metal3")
        lab.run("metal1", ["mariadb", "-e", f"INSERT INTO {name} VALUES ('{canary}')"])
        lab.run("metal3", ["systemctl", "start", "mariadb"])
        eventually("metal3 has what it missed", lambda: synced(lab), 120)
        stop(lab, "metal3")
        lab.run("metal3", ["find", "/var/lib/mysql", "-mindepth", "1", "-delete"])
        lab.run("metal3", ["systemctl", "start", "mariadb"])
        eventually("metal3 has all data", lambda: synced(lab), 180)
        assert lab.run("metal3", ["mariadb", "-BN", "-e", f"SELECT COUNT(*) FROM {name}"]).strip() == "2"
    return capture.seen & set(REPLICATION), {port: capture.bytes[port] for port in REPLICATION}


def test_new_cluster_uses_tls(lab: ControllersLab) -> None:
    """No row is readable in the traffic, neither when it is written nor when it is copied."""
    assert {speaks(lab, host) for host in SERVERS} == {(True, False)}
    seen, through = copied(lab, "canary-of-a-row-under-tls-0123456789")
    assert not seen and all(through.values()), through
    for host in SERVERS:
        assert lab.run(host, ["stat", "-c", "%U %G %a", "/etc/reduced.footprint/galera/key.pem"]).strip() == "root mysql 640"


def test_plain_text_is_kept_until_tls_is_requested(lab: ControllersLab) -> None:
    """A cluster without TLS keeps plain text, and the play reports it."""
    lab.write_inventory({"galera_tls": False})
    deploy(lab)
    assert {speaks(lab, host) for host in SERVERS} == {(False, False)}
    seen, through = copied(lab, "canary-of-a-row-in-plain-text-012345")
    assert seen == set(REPLICATION), f"the capture misses plain text: {seen}, {through}"
    lab.write_inventory()
    kept = deploy(lab)
    assert kept.changed == 0, kept.changed_tasks()
    assert "uses plain text" in kept.output and "galera_tls: true" in kept.output
    assert {speaks(lab, host) for host in SERVERS} == {(False, False)}


def test_encryption_is_enabled_while_a_client_writes(lab: ControllersLab) -> None:
    lab.write_inventory({"galera_tls": True})
    lab.start_writing()
    done = deploy(lab)
    assert {speaks(lab, host) for host in SERVERS} == {(True, False)}
    gap = pause(lab)
    kept = lab.promises_kept()
    again = deploy(lab)
    assert again.changed == 0, again.changed_tasks()
    # the setting is kept when the variable is no longer given
    lab.write_inventory()
    unsaid = deploy(lab)
    assert unsaid.changed == 0, unsaid.changed_tasks()
    secrets = lab.inventory_path / ".secrets" / "lab" / "galera"
