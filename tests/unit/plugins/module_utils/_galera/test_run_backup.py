# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A backup is created, verified and stored, with a simulated server and mariabackup."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._galera import run_backup
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_backup import BackupRequest, backups, inspect, keep, make

from tests.support.backups import A, NOON, SYNCED, Server, Tool, made, make_datadir, names, simulate


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    simulate(tmp_path, monkeypatch)


@pytest.fixture
def datadir(tmp_path):
    return make_datadir(tmp_path)


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
