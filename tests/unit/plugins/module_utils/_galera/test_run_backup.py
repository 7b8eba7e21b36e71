# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A backup is created, verified, stored and restored, with a simulated server and mariabackup."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import os
import pathlib
import shutil

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._galera import run_backup, run_data
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_backup import BackupRequest, backups, inspect, keep, make
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_data import DataRequest, ensure_data

A = "aaaaaaaa-0000-11ef-8000-000000000001"
SYNCED = {"wsrep_on": "ON", "wsrep_cluster_status": "Primary", "wsrep_connected": "ON", "wsrep_ready": "ON", "wsrep_local_state_comment": "Synced"}
NOON = datetime.datetime(2026, 11, 22, 12, 0, tzinfo=datetime.timezone.utc)


class Server:
    """A server with a data directory in a folder of the test."""

    def __init__(self, datadir, status=None, unit="active"):
        self.datadir, self.now, self.unit, self.done = pathlib.Path(datadir), status, unit, []

    def status(self):
        return self.now

    def query(self, sql, timeout=30):
        return [["app"], ["shop"]]

    def unit_state(self):
        return {"ActiveState": self.unit}

    def stop(self):
        self.done.append("stop")
        self.unit, self.now = "inactive", None

    def recover_position(self):
        assert self.unit in ("inactive", "failed")
        content = (self.datadir / "ibdata1").read_text("ascii")
        # what a server writes moves it on; that of a previous cluster may have the same UUID
        return {"data": (A, 17), "old": (A, 4711), "damaged": None}[content]


class Tool:
    """A mariabackup whose streams are plain text."""

    def __init__(self, prepares=True, version="10.11.6-MariaDB"):
        self.prepares, self.version = prepares, version

    def program(self):
        return "mariabackup"

    def server_version(self):
        return self.version

    def compressor(self, names):
        return next(iter(names))

    def stream(self, target, scratch, compressor):
        target.write_text("data", encoding="ascii")

    def unpack(self, file, folder, compressor):
        (folder / "ibdata1").write_text(file.read_text(encoding="ascii"), encoding="ascii")
        (folder / "mysql").mkdir()
        (folder / "shop").mkdir()
        (folder / "shop" / "t.ibd").write_text("rows", encoding="ascii")

    def prepare(self, folder):
        if not self.prepares:
            raise BackendError("mariabackup did not prepare it.")

    def position(self, folder):
        return A, 17

    def gtid(self, folder):
        return ""

    def tidy(self, folder):
        pass


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Locks in the test's own folder; the server's user does not exist here."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(run_data.os, "chown", lambda *unused: None)
    monkeypatch.setattr(run_data.os, "lchown", lambda *unused: None)
    monkeypatch.setattr(run_data.Directory, "owner", lambda unused: (1, 1, 0o755))


@pytest.fixture
def datadir(tmp_path):
    path = tmp_path / "lib" / "mysql"
    path.mkdir(parents=True)
    (path / "ibdata1").write_text("old", encoding="ascii")
    return path


def made(tmp_path, datadir, when=NOON, **more):
    request = BackupRequest(str(tmp_path / "spool"), "lab", "metal3", lock_timeout=1)
    return make(request, Server(datadir, SYNCED), Tool(**more), check_mode=False, now=when)


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_make(tmp_path, datadir):
    changed, backup = made(tmp_path, datadir)
    assert changed
    assert (backup.name, backup.uuid, backup.seqno, backup.bytes, backup.databases) == ("lab-20261122T120000Z", A, 17, 4, ("app", "shop"))
    assert names(tmp_path / "spool") == ["lab-20261122T120000Z.mbs.zst", "lab-20261122T120000Z.mbs.zst.json"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (tmp_path / "spool").iterdir())
    assert inspect(str(tmp_path / "spool" / backup.file), prove=True) == backup
    assert backups(tmp_path / "spool") == [backup]


def test_what_cannot_be_prepared_gets_no_name(tmp_path, datadir):
    with pytest.raises(BackendError, match="did not prepare"):
        made(tmp_path, datadir, prepares=False)
    assert not [name for name in names(tmp_path / "spool") if not name.startswith(".")]
    # what is left is cleared by the next one
    unused, backup = made(tmp_path, datadir)
    assert names(tmp_path / "spool") == [backup.file, f"{backup.file}.json"]


def test_a_full_disk_is_not_left_full(tmp_path, datadir, monkeypatch):
    def full(self, file, folder, compressor):
        (folder / "ibdata1").write_text("half", encoding="ascii")
        raise BackendError("No space left on device")

    unused, backup = made(tmp_path, datadir)
    monkeypatch.setattr(Tool, "unpack", full)
    with pytest.raises(BackendError, match="No space"):
        made(tmp_path, datadir, NOON.replace(day=23))
    assert names(tmp_path / "spool") == [backup.file, f"{backup.file}.json"]
    server = Server(datadir)
    with pytest.raises(BackendError, match="No space"):
        data("prepared", server, file=str(tmp_path / "spool" / backup.file), backup=backup)
    monkeypatch.setattr(run_data, "run", lambda argv, **unused: (pathlib.Path(argv[-1]).mkdir(), full(None, None, pathlib.Path(argv[-1]), None)))
    with pytest.raises(BackendError, match="No space"):
        data("copied", server)
    assert tree(datadir.parent) == {"mysql": ["ibdata1"]}


def test_check_mode_makes_nothing(tmp_path, datadir):
    request = BackupRequest(str(tmp_path / "spool"), "lab", "metal3")
    assert make(request, Server(datadir, SYNCED), Tool(), check_mode=True, now=NOON) == (True, None)
    assert not (tmp_path / "spool").exists()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "its server is not running as a cluster member"),
        ({"wsrep_on": "OFF"}, "not running as a cluster member"),
        ({**SYNCED, "wsrep_local_state_comment": "Joined"}, "wsrep_local_state_comment is Joined"),
        ({**SYNCED, "wsrep_cluster_status": "non-Primary"}, "non-Primary"),
    ],
)
def test_a_member_that_is_not_ready_makes_none(tmp_path, datadir, status, words):
    with pytest.raises(RefusedError, match=words):
        make(BackupRequest(str(tmp_path), "lab", "m"), Server(datadir, status), Tool(), check_mode=False)


def test_no_room(tmp_path, datadir, monkeypatch):
    monkeypatch.setattr(run_backup, "free", lambda unused: 1)
    with pytest.raises(RefusedError, match="directory: a backup and its verification need up to"):
        made(tmp_path, datadir)


def test_a_relative_directory(datadir):
    with pytest.raises(InputError, match="directory: 'spool' is not an absolute path"):
        make(BackupRequest("spool", "lab", "m"), Server(datadir, SYNCED), Tool(), check_mode=False)


def brought(tmp_path, datadir, day):
    unused, backup = made(tmp_path, datadir, NOON.replace(day=day))
    store = tmp_path / "store"
    (store / ".incoming").mkdir(parents=True, exist_ok=True)
    shutil.copy(tmp_path / "spool" / backup.file, store / ".incoming" / backup.file)
    return store, store / ".incoming" / backup.file, backup


def test_keep_and_remove(tmp_path, datadir):
    left = tmp_path / "store" / ".incoming" / "left"
    left.parent.mkdir(parents=True)
    left.touch()
    os.utime(left, (0, 0))
    for day in (1, 2):
        store, incoming, backup = brought(tmp_path, datadir, day)
        assert keep(str(store), str(incoming), backup, 2, check_mode=False) == (True, ())
    assert keep(str(store), str(incoming), backup, 2, check_mode=False) == (False, ())
    store, incoming, backup = brought(tmp_path, datadir, 3)
    oldest = "lab-20261101T120000Z.mbs.zst"
    assert keep(str(store), str(incoming), backup, 2, check_mode=True) == (True, (oldest,))
    assert (store / oldest).exists()
    assert keep(str(store), str(incoming), backup, 2, check_mode=False) == (True, (oldest,))
    assert [one.made[6:8] for one in backups(store)] == ["02", "03"]
    assert not [name for name in names(store) if "20261101" in name]
    assert not left.exists()
    assert keep(str(store), "gone", backup, 0, check_mode=False) == (False, ())


def test_what_arrived_broken_is_not_kept(tmp_path, datadir):
    store, incoming, backup = brought(tmp_path, datadir, 1)
    incoming.write_text("dat", encoding="ascii")
    with pytest.raises(BackendError, match="does not match the backup that metal3 sent"):
        keep(str(store), str(incoming), backup, 7, check_mode=False)
    with pytest.raises(InputError, match="retain: -1 is less than 0"):
        keep(str(store), str(incoming), backup, -1, check_mode=False)
    assert backups(store) == []


@pytest.mark.parametrize(
    ("content", "note", "words"),
    [
        ("dota", True, "does not match its metadata file"),
        ("dat", True, "it has 3 bytes, expected 4"),
        ("data", False, "metadata file .* does not exist"),
        (None, True, "mbs.zst does not exist"),
    ],
)
def test_inspect(tmp_path, datadir, content, note, words):
    unused, backup = made(tmp_path, datadir)
    file = tmp_path / "spool" / backup.file
    file.write_text(content or "", encoding="ascii")
    if not note:
        pathlib.Path(f"{file}.json").unlink()
    if content is None:
        file.unlink()
    with pytest.raises(InputError, match=words):
        inspect(str(file), prove=True)


def data(state, server, label="before-x", check_mode=False, tool=None, **more):
    return ensure_data(DataRequest(state, label, lock_timeout=1, **more), server, tool or Tool(), check_mode=check_mode)


def tree(folder):
    return {path.name: names(path) for path in sorted(folder.iterdir())}


def test_copied(datadir):
    server = Server(datadir, unit="activating")
    wanted = data("copied", server, check_mode=True)
    assert (wanted.changed, wanted.actions, server.done) == (True, ("stop", "copy"), [])
    assert data("copied", server).actions == ("stop", "copy")
    assert server.done == ["stop"]
    assert tree(datadir.parent) == {"mysql": ["ibdata1"], "mysql.before-x": ["ibdata1"]}
    assert not data("copied", server).changed


def test_set_aside(datadir):
    server = Server(datadir)
    wanted = data("set_aside", server, check_mode=True)
    assert (wanted.actions, server.done) == (("stop", "set aside"), [])
    assert data("set_aside", server).actions == ("stop", "set aside")
    assert tree(datadir.parent) == {"mysql": [], "mysql.before-x": ["ibdata1"]}
    server.unit = "active"
    assert not data("set_aside", server).changed
    assert server.done == ["stop"]


def test_a_backup_in_the_place_of_the_data(tmp_path, datadir):
    unused, backup = made(tmp_path, datadir)
    more = {"file": str(tmp_path / "spool" / backup.file), "backup": backup}
    server = Server(datadir)
    assert data("prepared", server, check_mode=True, **more).actions == ("prepare",)
    assert data("prepared", server, **more).actions == ("prepare",)
    assert server.done == []
    assert not data("prepared", server, **more).changed
    assert data("replaced", server, check_mode=True, backup=backup).actions == ("stop", "replace")
    assert data("replaced", server, backup=backup).actions == ("stop", "replace")
    assert (datadir / "ibdata1").read_text(encoding="ascii") == "data"
    assert (datadir.parent / "mysql.before-x" / "ibdata1").read_text(encoding="ascii") == "old"
    assert not (datadir.parent / "mysql.before-x.prepared").exists()
    # the same occasion again does nothing, also when the file is gone
    assert not data("prepared", server, file="gone", backup=backup).changed
    assert not data("replaced", server, backup=backup).changed
    assert not data("verified", server, check_mode=True, backup=backup).changed and not (datadir.parent / "mysql.before-x.restored").exists()
    assert not data("verified", server, backup=backup).changed
    # nor when the restored cluster has moved on
    server.unit = "active"
    (datadir / "ibdata1").write_text("written since", encoding="ascii")
    for state in ("prepared", "replaced", "verified"):
        assert not data(state, server, file="gone", backup=backup).changed
    assert server.done == ["stop"] and (datadir / "ibdata1").read_text(encoding="ascii") == "written since"


def received(datadir, content="old"):
    """Let a member receive the data of a previous cluster."""
    shutil.rmtree(datadir)
    (datadir / "mysql").mkdir(parents=True)
    (datadir / "ibdata1").write_text(content, encoding="ascii")


@pytest.mark.parametrize("content", ["old", "damaged"])
@pytest.mark.parametrize("unit", ["active", "inactive"])
def test_a_member_that_rejoined_the_previous_cluster_is_restored_again(tmp_path, datadir, content, unit):
    """The run was killed after the data of this member was replaced; the member was restarted, and joined one that was not stopped yet."""
    unused, backup = made(tmp_path, datadir)
    more = {"file": str(tmp_path / "spool" / backup.file), "backup": backup}
    server = Server(datadir)
    for number in (2, 3):
        data("prepared", server, **more)
        data("replaced", server, backup=backup)
        received(datadir, content)
        server.unit = unit
        with pytest.raises(RefusedError, match="does not have the position of the backup"):
            data("verified", server, backup=backup)
        server.unit = unit
        assert data("prepared", server, check_mode=True, **more).actions == data("prepared", server, **more).actions == ("prepare",)
        wanted = ("stop", "replace") if unit == "active" else ("replace",)
        assert data("replaced", server, check_mode=True, backup=backup).actions == data("replaced", server, backup=backup).actions == wanted
        # nothing is deleted
        assert (datadir.parent / f"mysql.before-x.{number}" / "ibdata1").read_text(encoding="ascii") == content
        assert (datadir / "ibdata1").read_text(encoding="ascii") == "data"
    data("verified", server, backup=backup)
    assert (datadir.parent / "mysql.before-x.restored").exists()


def test_a_member_that_received_data_after_it_was_emptied_is_emptied_again(tmp_path, datadir):
    unused, backup = made(tmp_path, datadir)
    server = Server(datadir)
    data("set_aside", server, backup=backup)
    assert not data("set_aside", server, backup=backup).changed
    received(datadir)
    server.unit = "active"
    assert data("set_aside", server, check_mode=True, backup=backup).actions == data("set_aside", server, backup=backup).actions == ("stop", "set aside")
    assert tree(datadir.parent) == {"mysql": [], "mysql.before-x": ["ibdata1"], "mysql.before-x.2": ["ibdata1", "mysql"]}


def test_where_nothing_is_left(tmp_path, datadir):
    unused, backup = made(tmp_path, datadir)
    shutil.rmtree(datadir)
    server = Server(datadir, unit="failed")
    data("prepared", server, file=str(tmp_path / "spool" / backup.file), backup=backup)
    assert data("replaced", server, backup=backup).actions == ("replace",)
    assert tree(datadir.parent) == {"mysql": ["ibdata1", "mysql", "shop"], "mysql.before-x": []}


def test_a_member_that_was_only_emptied_is_not_restored_yet(tmp_path, datadir):
    # a run that started from another member was killed, or that member is lost
    unused, backup = made(tmp_path, datadir)
    more = {"file": str(tmp_path / "spool" / backup.file), "backup": backup}
    server = Server(datadir)
    data("set_aside", server)
    assert data("prepared", server, **more).actions == ("prepare",)
    assert data("replaced", server, backup=backup).actions == ("replace",)
    assert tree(datadir.parent) == {"mysql": ["ibdata1", "mysql", "shop"], "mysql.before-x": ["ibdata1"]}
    assert not data("replaced", server, backup=backup).changed


class Killed(BaseException):
    """Power loss."""


@pytest.mark.parametrize("story", [("prepared", "replaced", "verified"), ("set_aside",), ("copied",)])
def test_killed_at_any_rename_it_is_completed(tmp_path, datadir, story, monkeypatch):
    unused, backup = made(tmp_path, datadir)
    more = {"file": str(tmp_path / "spool" / backup.file), "backup": backup}
    real, killed = run_data.rename, 0
    for number in itertools.count():
        for late in (False, True):
            shutil.rmtree(datadir.parent)
            datadir.mkdir(parents=True)
            (datadir / "ibdata1").write_text("old", encoding="ascii")
            countdown = itertools.count()

            def rename(one, other, *, new, late=late, countdown=countdown, number=number):
                if next(countdown) == number:
                    if late:
                        real(one, other, new=new)
                    raise Killed
                real(one, other, new=new)

            server = Server(datadir)
            monkeypatch.setattr(run_data, "rename", rename)
            try:
                for state in story:
                    data(state, server, **(more if len(story) > 1 else {}))
                finished = True
            except Killed:
                finished = False
                killed += 1
            monkeypatch.setattr(run_data, "rename", real)
            for state in story:
                data(state, server, **(more if len(story) > 1 else {}))
            found = {name: content for name, content in tree(datadir.parent).items() if not name.endswith(".restored")}
            assert sorted(found) == ["mysql", "mysql.before-x"]
            assert (datadir.parent / "mysql.before-x" / "ibdata1").read_text(encoding="ascii") == "old"
            assert found["mysql"] == {"verified": ["ibdata1", "mysql", "shop"], "set_aside": [], "copied": ["ibdata1"]}[story[-1]]
            for state in story:
                assert not data(state, server, **(more if len(story) > 1 else {})).changed
        if finished:
            break
    assert killed == 2 * number > 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"label": "../x"}, "label: '../x' is not valid as part"),
        ({"file": None}, "file: a backup is required"),
        ({"file": "/nowhere"}, "does not match the backup"),
        ({"unpacked_bytes": 1 << 60}, "are required next to the data directory"),
        ({"seqno": 18}, "the file has position .*:17, its metadata says .*:18"),
        ({"tool": Tool(version="11.4.1-MariaDB")}, "the backup is from MariaDB"),
    ],
)
def test_what_is_refused(tmp_path, datadir, change, words):
    unused, backup = made(tmp_path, datadir)
    more = {"file": str(tmp_path / "spool" / backup.file), "backup": backup, **change}
    noted = {key: more.pop(key) for key in ("seqno", "unpacked_bytes") if key in more}
    more["backup"] = dataclasses.replace(backup, **noted)
    server = Server(datadir)
    with pytest.raises((InputError, RefusedError), match=words):
        data("prepared", server, **more)
    assert server.done == [] and (datadir / "ibdata1").read_text(encoding="ascii") == "old"
    assert not (datadir.parent / "mysql.before-x.prepared").exists()


def test_nothing_is_replaced_by_nothing(datadir):
    server = Server(datadir)
    with pytest.raises(RefusedError, match="Prepare the backup's data first"):
        data("replaced", server)
    assert server.done == []
    shutil.rmtree(datadir)
    with pytest.raises(RefusedError, match="Restore a backup instead"):
        data("copied", server)


@pytest.mark.parametrize("state", ["set_aside", "prepared"])
def test_a_data_directory_that_is_a_mount_point_is_refused(tmp_path, datadir, state, monkeypatch):
    unused, backup = made(tmp_path, datadir)
    monkeypatch.setattr(run_data.os.path, "ismount", lambda path: str(path) == str(datadir))
    server = Server(datadir)
    with pytest.raises(RefusedError, match="datadir: .* is a mount point"):
        data(state, server, file=str(tmp_path / "spool" / backup.file), backup=backup)
    assert server.done == []
