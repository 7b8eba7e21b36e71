# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host outside the cluster fetches a backup by its timer's unit, over ssh with the restricted key; the database is restored from it."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from controllers_lab import ControllersLab

pytestmark = pytest.mark.chapter

MEMBER, STORE = "metal1", "metal2"
IMAGE = "0b0dd3a5-5d2c-4f55-9d0f-2b7a9f1c0a01"
UNIT = "reduced-footprint-backup-lab"
FOLDER = "/var/lib/reduced.footprint/backups"
PLAY = [{"hosts": "controller", "gather_facts": False, "any_errors_fatal": True, "roles": [{"role": "reduced.footprint.galera"}]}]
# what a cloud has, without its services
CLOUD = (
    "CREATE DATABASE glance; CREATE TABLE glance.images (id VARCHAR(36) PRIMARY KEY, status VARCHAR(30), deleted INT);"
    f"INSERT INTO glance.images VALUES ('{IMAGE}', 'active', 0), ('0b0dd3a5-5d2c-4f55-9d0f-2b7a9f1c0a02', 'deleted', 1);"
)


@pytest.fixture(scope="module", name="member")
def fixture_member(lab: ControllersLab) -> ControllersLab:
    """A cluster of one member, whose backups metal2 fetches."""
    without = dict.fromkeys(("load_balancer_virtual_address", "galera_databases", "galera_users"))
    lab.write_inventory({"galera_backup_host": STORE, **without}, groups={"controller": [MEMBER], "spare": [STORE]})
    done = lab.play(PLAY)
    assert done.rc == 0, done.output[-6000:]
    return lab


def ssh_as_store(lab: ControllersLab, command: str) -> tuple[bool, str]:
    """Run a command on the member with the key of the backups."""
    home = "/var/lib/reduced.footprint/daily-backup/lab"
    options = f"-F /dev/null -i {home}/id_ed25519 -o BatchMode=yes -o UserKnownHostsFile={home}/known_hosts.{MEMBER}"
    text = lab.ssh(STORE, f"ssh {options} root@{lab.addresses[MEMBER]} {command} 2>&1; echo $?", check=False)
    return text.split()[-1] == "0", text


def stored(lab: ControllersLab) -> list[str]:
    """The names of the backups that are stored."""
    return sorted(name for name in lab.run(STORE, ["ls", FOLDER]).split() if name.endswith(".zst"))


def test_a_second_run_changes_nothing(member: ControllersLab) -> None:
    for check in (True, False):
        again = member.play(PLAY, check=check)
        assert again.rc == 0 and again.changed == 0, again.changed_tasks()
    assert "enabled" in member.run(STORE, ["systemctl", "is-enabled", f"{UNIT}.timer"])


def test_the_unit_fetches_a_backup_with_images_and_keys(member: ControllersLab) -> None:
    member.run(MEMBER, ["mariadb"], stdin=CLOUD)
    member.ssh(MEMBER, f"mkdir -p /var/lib/glance/images /etc/keystone/credential-keys && echo image > /var/lib/glance/images/{IMAGE}")
    member.ssh(MEMBER, "echo key > /etc/keystone/credential-keys/1 && chmod 600 /etc/keystone/credential-keys/1")
    member.run(STORE, ["systemctl", "start", f"{UNIT}.service"])
    [file] = stored(member)
    files = f"{FOLDER}/{file.split('.')[0]}.files"
    assert member.run(STORE, ["cat", f"{files}/images/{IMAGE}", f"{files}/credential-keys/1"]).split() == ["image", "key"]
    assert member.run(STORE, ["stat", "-c", "%a %U", FOLDER, files]).split("\n")[:2] == ["700 root", "700 root"]
    look = {"hosts": "controller", "gather_facts": False, "tasks": [{"reduced.footprint.controlplane_info": {"services": ["galera"]}}]}
    done = member.play([look], "-v")
    assert json.loads(member.run(MEMBER, ["cat", "/var/lib/reduced.footprint/backup/stored"]))["name"] in done.output


def test_the_key_does_nothing_else(member: ControllersLab) -> None:
    for command in ("id", "cat /etc/shadow", "rsync --server --sender -re.LsfxCIvu . /etc/", "rsync --server -re.LsfxCIvu . /var/lib/glance/images/"):
        worked, output = ssh_as_store(member, command)
        assert not worked and "must not run" in output, output


def test_the_database_is_restored_from_it(member: ControllersLab, tmp_path: pathlib.Path) -> None:
    member.run(MEMBER, ["mariadb", "-e", "DELETE FROM glance.images"])
    [file] = stored(member)
    for name in (file, f"{file}.json"):
        fetch = {"hosts": STORE, "gather_facts": False, "tasks": [{"ansible.builtin.fetch": {"src": f"{FOLDER}/{name}", "dest": f"{tmp_path}/", "flat": True}}]}
        assert member.play([fetch]).rc == 0
    done = member.play("restore_database", variables={"galera_restore_file": f"{tmp_path}/{file}", "galera_restore_confirm": "lab"})
    assert done.rc == 0, done.output[-6000:]
    assert IMAGE in member.run(MEMBER, ["mariadb", "-BN", "-e", "SELECT id FROM glance.images WHERE deleted = 0"])


def test_the_daily_backups_end(member: ControllersLab) -> None:
    ends: dict[str, t.Any] = {"galera_backup_time": ""}
    done = member.play(PLAY, variables=ends)
    assert done.rc == 0 and done.changed, done.output[-6000:]
    again = member.play(PLAY, variables=ends)
    assert again.rc == 0 and again.changed == 0, again.changed_tasks()
    assert "backup-lab" not in member.run(MEMBER, ["cat", "/root/.ssh/authorized_keys"], check=False)
    assert not member.answers(STORE, ["systemctl", "cat", f"{UNIT}.timer"]) and len(stored(member)) == 1
