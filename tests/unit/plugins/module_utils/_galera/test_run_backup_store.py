# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The directory with backups after a power loss and an interrupted copy."""

from __future__ import annotations

import hashlib
import pathlib

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files
from ansible_collections.reduced.footprint.plugins.module_utils._galera import run_backup
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import Backup

UUID = "aaaaaaaa-0000-11ef-8000-000000000001"


@pytest.fixture(name="store")
def fixture_store(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "store/.incoming").mkdir(parents=True)
    return tmp_path / "store"


def keep(store: pathlib.Path, day: int, retain: int) -> str:
    """Store the backup of a day; returns the name of its file."""
    name = f"lab-202611{day:02}T120000Z"
    file = f"{name}.mbs.zst"
    (store / ".incoming" / file).write_text("data", "ascii")
    digest = hashlib.sha256(b"data").hexdigest()
    backup = Backup(name, file, "lab", "metal3", name[4:], "10.11.6-MariaDB", "zstd", digest, 4, UUID, 17)
    run_backup.keep(str(store), str(store / ".incoming" / file), backup, retain, check_mode=False)
    return file


def test_a_truncated_backup_does_not_take_the_place_of_a_usable_one(store: pathlib.Path) -> None:
    first = keep(store, 1, 2)
    (store / keep(store, 2, 2)).write_text("da", "ascii")
    last = keep(store, 3, 2)
    assert [one.file for one in run_backup.backups(store)] == [first, last]


def test_the_last_backup_is_kept_although_the_clock_was_set_back(store: pathlib.Path) -> None:
    later = keep(store, 26, 1)
    now = keep(store, 3, 1)
    assert [one.file for one in run_backup.backups(store)] == [now, later]


def test_a_backup_is_on_the_disk_before_older_ones_are_removed(store: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = keep(store, 1, 1)
    synced: list[tuple[str, bool]] = []
    monkeypatch.setattr(io_files, "sync_path", lambda path: synced.append((str(path), (store / first).exists())))
    last = keep(store, 2, 1)
    assert (str(store / ".incoming" / last), True) in synced and not (store / first).exists()


def test_a_renamed_backup_is_kept_and_does_not_end_the_run(store: pathlib.Path) -> None:
    first = keep(store, 1, 1)
    for end in ("", ".json"):
        (store / f"{first}{end}").rename(store / f"important.mbs.zst{end}")
    last = keep(store, 2, 1)
    assert [one.file for one in run_backup.backups(store)] == [last]
    assert (store / "important.mbs.zst").exists() and (store / "important.mbs.zst.json").exists()
    assert run_backup.inspect(str(store / "important.mbs.zst"), prove=True).file == first
