# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another host fetches backups with a simulated server and mariabackup, and with a real rsync that sends what the key permits."""

from __future__ import annotations

import datetime
import json
import pathlib
import shutil
import subprocess
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._galera import run_backup, run_backup_agent, run_daily_backup as daily
from ansible_collections.reduced.footprint.plugins.module_utils._keys.run_dispatch import command_of
from ansible_collections.reduced.footprint.plugins.module_utils._remote import model_one_time_key
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore

from tests.support.backups import NOON, SYNCED, Server, Tool, make_datadir, names, simulate

IMAGES = ["0b0dd3a5-5d2c-4f55-9d0f-2b7a9f1c0a01", "0b0dd3a5-5d2c-4f55-9d0f-2b7a9f1c0a02"]
MODEL = model_one_time_key.__name__
READY = {"ready": True, "clients": 0, "primary": True, "view": [], "node": "n"}
# ssh for rsync: runs what the forced command of the key would run
SSH = f"""#!/usr/bin/env python3
import os, sys
from {command_of.__module__} import command_of
argv = command_of("backup", "backup-lab", " ".join(sys.argv[sys.argv.index("rsync"):]), lambda: os.read(0, 1))
os.execvp(argv[0], argv)
"""


class CloudServer(Server):
    """A server with the database of glance."""

    def query(self, sql, timeout=30):
        return [[one] for one in IMAGES] if "glance.images" in sql else [["glance"], ["keystone"]]


class Plane:
    """Two members and the host that stores their backups, in a folder."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home, self.day, self.now = home, 1, False
        self.silent: set[str] = set()
        self.folders = {"images": home / "glance", "credential-keys": home / "keys"}
        self.store = JournalStore("lab", home / "jobs")
        members = [{"name": name, "host": "192.0.2.1", "port": 22, "host_keys": []} for name in ("c1", "c2")]
        self.store.write_job({"cluster": "lab", "directory": str(home / "kept"), "retain": 2, "members": members})
        for folder in self.folders.values():
            folder.mkdir()
        for image in IMAGES:
            (self.folders["images"] / image).write_text(image, encoding="ascii")
        (self.folders["images"] / "upload.part").touch()
        (self.folders["credential-keys"] / "1").write_text("key", encoding="ascii")

    def ask(self, member: daily._Member, command: str, given: t.Any = None, timeout: float = 60, *, once: bool = False) -> dict[str, t.Any]:
        """Answer as the agent of a member."""
        if member.who in self.silent:
            raise BackendError("no route to host")
        answer = run_backup_agent.answer(command, "lab", given or {}, str(self.home / "spool"))
        return json.loads(json.dumps(answer))

    def time(self) -> datetime.datetime | None:
        """When the next backup is made; ``None`` for now."""
        return None if self.now else NOON.replace(day=self.day)

    def fetch(self) -> list[str]:
        """Fetch a backup on the next day."""
        self.day += 1
        return daily.fetch("lab")


@pytest.fixture(name="plane")
def fixture_plane(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Plane:
    simulate(tmp_path, monkeypatch)
    plane = Plane(tmp_path)
    monkeypatch.setattr(daily, "HOME", tmp_path / "jobs")
    datadir = make_datadir(tmp_path)
    create = run_backup.make
    monkeypatch.setattr(run_backup_agent.run_galera, "local_database", lambda unit: CloudServer(datadir, SYNCED))
    monkeypatch.setattr(run_backup_agent.run_galera, "look", lambda database, recover: READY)
    monkeypatch.setattr(run_backup, "local_tool", Tool)
    monkeypatch.setattr(run_backup, "make", lambda *args, check_mode: create(*args, check_mode=check_mode, now=plane.time()))

    def ask(member: daily._Member, *args: t.Any, **more: t.Any) -> dict[str, t.Any]:
        return plane.ask(member, *args, **more)

    monkeypatch.setattr(daily._Member, "ask", ask)
    for module in (daily, run_backup_agent):
        monkeypatch.setattr(module, "BACKUP_SPOOL", str(tmp_path / "spool"))
        monkeypatch.setattr(module, "BACKUP_FOLDERS", {name: str(path) for name, path in plane.folders.items()})
    ssh = tmp_path / "ssh"
    # the paths that the key permits are those of the system
    permitted = f'import re, {MODEL} as model\nmodel._BACKUP_PATH = re.compile(r"{tmp_path}/(?:spool/[^/]+|glance/|keys/)")\n'
    ssh.write_text(SSH.replace("argv = ", f"{permitted}argv = "), encoding="ascii")
    ssh.chmod(0o755)
    monkeypatch.setattr(daily._Member, "ssh_argv", lambda member: [str(ssh)])
    return plane


def test_a_backup_is_fetched_with_images_and_keys(plane: Plane) -> None:
    assert plane.fetch() == []
    kept, name = plane.home / "kept", "lab-20261102T120000Z"
    assert names(kept) == [".incoming", f"{name}.files", f"{name}.mbs.zst", f"{name}.mbs.zst.json"]
    assert run_backup.inspect(str(kept / f"{name}.mbs.zst"), prove=True).member == "c2"
    # unfinished uploads are not images
    assert names(kept / f"{name}.files" / "images") == IMAGES and names(kept / f"{name}.files" / "credential-keys") == ["1"]
    assert names(plane.home / "spool") == ["stored"] and names(kept / ".incoming") == []
    assert run_backup.last_stored(str(plane.home / "spool")) == {"name": name, "made": "2026-11-02T12:00:00Z"}


def test_old_backups_go_with_their_files_and_equal_files_are_stored_once(plane: Plane) -> None:
    for _day in range(3):
        assert plane.fetch() == []
    kept = plane.home / "kept"
    assert [name for name in names(kept) if name.endswith(".files")] == ["lab-20261103T120000Z.files", "lab-20261104T120000Z.files"]
    one, two = (kept / f"lab-2026110{day}T120000Z.files" / "images" / IMAGES[0] for day in (3, 4))
    assert one.samefile(two)


def test_a_failed_run_is_repeated_and_a_successful_one_is_not(plane: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    plane.now = True
    plane.silent = {"c1", "c2"}
    assert daily.main(["lab"]) == 1
    plane.silent = set()
    for _hour in range(2):
        assert daily.main(["lab"]) == 0
    assert len(run_backup.backups(plane.home / "kept")) == 1 and "the last backup was made at" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["killed", "failed", "incomplete"])
def test_what_belongs_to_a_stored_backup_is_fetched_later(plane: Plane, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    plane.now = True
    lost = plane.folders["images"] / IMAGES[0]
    if ending == "incomplete":
        lost.rename(plane.home / "elsewhere")
    else:
        transfer = daily._Member.fetch

        def stop(member: daily._Member, path: str, *args: t.Any) -> None:
            if path.startswith(str(plane.folders["images"])):
                raise KeyboardInterrupt if ending == "killed" else BackendError("no route to host")
            transfer(member, path, *args)

        monkeypatch.setattr(daily._Member, "fetch", stop)
    if ending == "killed":
        with pytest.raises(KeyboardInterrupt):
            daily.main(["lab"])
    else:
        # a later run must not hide the failure
        assert [daily.main(["lab"]) for _hour in range(2)] == [daily.INCOMPLETE if ending == "incomplete" else 1] * 2
    if ending == "incomplete":
        (plane.home / "elsewhere").rename(lost)
        # what was fetched already is kept, although this member does not have it
        (plane.folders["images"] / IMAGES[1]).unlink()
    else:
        monkeypatch.setattr(daily._Member, "fetch", transfer)
    assert daily.main(["lab"]) == 0
    (backup,) = run_backup.backups(plane.home / "kept")
    assert names(plane.home / "kept" / f"{backup.name}.files" / "images") == IMAGES and names(plane.home / "kept" / ".incoming") == []


def test_a_member_cannot_choose_where_files_are_stored(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = daily._Member.ask

    def lie(member: daily._Member, command: str, *args: t.Any, **more: t.Any) -> dict[str, t.Any]:
        answer = ask(member, command, *args, **more)
        return {**answer, "folders": [*answer["folders"], "../../escaped"]} if command == "look" else answer

    monkeypatch.setattr(daily._Member, "ask", lie)
    assert plane.fetch() == [] and not list(plane.home.rglob("escaped"))


def test_what_a_killed_run_left_is_replaced(plane: Plane) -> None:
    left = plane.home / "kept" / ".incoming" / "lab-20261101T120000Z.files" / "images"
    left.mkdir(parents=True)
    assert plane.fetch() == [] and names(plane.home / "kept" / ".incoming") == []


def test_a_member_that_does_not_answer_is_not_chosen(plane: Plane) -> None:
    plane.silent = {"c2"}
    assert plane.fetch() == []
    assert run_backup.backups(plane.home / "kept")[0].member == "c1"
    plane.silent = {"c1", "c2"}
    with pytest.raises(RefusedError, match="no member is Primary"):
        plane.fetch()


def test_missing_images_are_reported_and_the_database_is_stored(plane: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    (plane.folders["images"] / IMAGES[1]).unlink()
    assert daily.main(["lab"]) == daily.INCOMPLETE and IMAGES[1] in capsys.readouterr().err
    assert len(run_backup.backups(plane.home / "kept")) == 1


def test_the_spool_is_emptied_also_when_the_copy_fails(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*unused: t.Any) -> None:
        raise BackendError("No space left on device")

    monkeypatch.setattr(daily._Member, "fetch", full)
    with pytest.raises(BackendError, match="No space"):
        plane.fetch()
    assert names(plane.home / "spool") == [] and names(plane.home / "kept") == [".incoming"]


GIVEN = {"state": "scheduled", "cluster": "lab", "directory": "/srv/backups", "time": "02:15", "retain": 7, "members": []}


@pytest.fixture(name="units")
def fixture_units(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder of units, without a systemd."""
    simulate(tmp_path, monkeypatch)
    run = daily.run
    monkeypatch.setattr(daily, "run", lambda argv, **more: None if argv[0] == "systemctl" else run(argv, **more))
    monkeypatch.setattr(daily, "HOME", tmp_path / "jobs")
    monkeypatch.setattr(daily.io_units, "UNITS", tmp_path)
    monkeypatch.setattr(daily.io_units, "keep_code", lambda: tmp_path / "code.zip")
    monkeypatch.setattr(daily.io_units, "code_path", lambda: tmp_path / "code.zip")
    return tmp_path


def test_the_timer_is_installed_and_removed(units: pathlib.Path) -> None:
    preview = daily.schedule(GIVEN, check_mode=True)
    assert preview["changed"] and preview["public_key"] is None and not names(units)
    made = daily.schedule(GIVEN, check_mode=False)
    assert made["diff"] == preview["diff"] and made["public_key"].endswith(" reduced.footprint-migrate-backup-lab")
    assert "OnCalendar=*-*-* 02,03,04,05:15:00" in (units / "reduced-footprint-backup-lab.timer").read_text()
    if shutil.which("systemd-analyze"):
        for unit in units.glob("reduced-footprint-backup-lab.*"):
            subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], check=True)
    for check in (True, False):
        assert daily.schedule(GIVEN, check_mode=check)["changed"] is False
    assert daily.schedule({**GIVEN, "time": "03:00"}, check_mode=True)["changed"]
    for changed in (True, False):
        assert daily.schedule({**GIVEN, "state": "unscheduled"}, check_mode=True)["changed"] is changed
        assert daily.schedule({**GIVEN, "state": "unscheduled"}, check_mode=False)["changed"] is changed
    assert not list(units.glob("reduced-footprint-*")) and not (units / "jobs" / "lab").exists()


@pytest.mark.parametrize("wrong", [{"time": "2:15"}, {"time": "24:00"}, {"directory": "backups"}, {"cluster": "../lab"}])
def test_invalid_requests_have_a_path_and_a_hint(units: pathlib.Path, wrong: dict[str, str]) -> None:
    with pytest.raises(InputError) as raised:
        daily.schedule({**GIVEN, **wrong}, check_mode=False)
    assert raised.value.path == next(iter(wrong)) and raised.value.hint and not names(units)


@pytest.mark.parametrize(
    "words",
    [
        "--server --sender -tre.iLsfxCIvu . /etc/shadow",
        "--server --sender -tre.iLsfxCIvu . /var/lib/reduced.footprint/backup/../source",
        "--server --sender -tre.iLsfxCIvu --files-from=- --from0 . /etc/keystone/credential-keys/",
        "--server --sender -tre.iLsfxCIvu . /var/lib/glance/images/ /etc/shadow",
        "--server -tre.iLsfxCIvu . /var/lib/reduced.footprint/backup/x",
        "--server -ntre.iLsfxCIvu . /var/lib/glance/images/",
    ],
)
def test_the_key_reads_nothing_else_and_writes_nothing(words: str) -> None:
    with pytest.raises(InputError):
        command_of("backup", "backup-lab", f"rsync {words}", lambda: b"")


@pytest.mark.parametrize(
    "path", ["/var/lib/glance/images/", "/etc/keystone/credential-keys/", "/var/lib/reduced.footprint/backup/lab-20261102T120000Z.mbs.zst"]
)
def test_the_key_reads_what_belongs_to_a_backup(path: str) -> None:
    assert command_of("backup", "backup-lab", f"rsync --server --sender -tre.iLsfxCIvu . {path}", lambda: b"")[0] == "rsync"


def test_the_key_runs_what_the_worker_asks_for_and_for_its_cluster_only(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def ssh(argv: t.Sequence[str], **unused: t.Any) -> Completed:
        sent.append(argv[-1])
        return Completed(tuple(argv), 0, '{"ok": {}}', "")

    monkeypatch.setattr(daily.io_remote_source, "run", ssh)
    daily._Member("lab", {"name": "c1", "host": "192.0.2.1", "port": 22, "host_keys": []}, tmp_path).ask("look")
    assert command_of("backup", "backup-lab", sent[0], lambda: b"") == [daily.AGENT, "look", "backup-lab"]
    with pytest.raises(InputError):
        command_of("backup", "backup-other", sent[0], lambda: b"")
