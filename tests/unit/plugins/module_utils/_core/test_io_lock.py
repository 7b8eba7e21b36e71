# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run at a time, and a killed one frees the host."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import stat
import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files, io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError


FOLDER = io_lock.lock_folder


@pytest.fixture(autouse=True)
def fixture_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of this test only."""
    monkeypatch.setattr(io_lock, "lock_folder", lambda: tmp_path / "locks")


def hold(ready: str) -> None:
    """Another process with the lock."""
    with host_lock("x", 0):
        pathlib.Path(ready).touch()
        time.sleep(60)


def test_lock_is_refused_after_the_timeout_and_freed_by_a_killed_holder(tmp_path: pathlib.Path) -> None:
    other = multiprocessing.get_context("fork").Process(target=hold, args=(str(tmp_path / "ready"),))
    other.start()
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    with pytest.raises(BackendError, match="another run has held .*x.lock"):
        with host_lock("x", 0.3):
            pass
    with host_lock("y", 0):
        pass
    other.kill()
    other.join()
    with host_lock("x", 5):
        pass


def test_lock_folder_of_root_is_writable_by_root_only() -> None:
    if os.geteuid() == 0:
        assert not any(stat.S_IMODE(os.lstat(each).st_mode) & 0o002 for each in FOLDER().parents if each.exists())
    assert FOLDER().parent == io_files.RUN or str(os.geteuid()) in FOLDER().name


def test_folder_of_another_user_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locks").mkdir(mode=0o777)
    if os.geteuid() == 0:
        os.chown(tmp_path / "locks", 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(BackendError, match="not a folder of this user: it belongs to"):
        with host_lock("x", 0):
            pass
    assert not list((tmp_path / "locks").iterdir())


def test_a_planted_link_is_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "locks").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BackendError, match="is a link or a file"):
        with host_lock("x", 0):
            pass
    (tmp_path / "locks").unlink()
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "x.lock").symlink_to(tmp_path / "elsewhere" / "made")
    with pytest.raises(BackendError, match="cannot be opened"):
        with host_lock("x", 0):
            pass
    assert not list((tmp_path / "elsewhere").iterdir())


def test_mode_of_an_own_folder_is_corrected(tmp_path: pathlib.Path) -> None:
    (tmp_path / "locks").mkdir()
    os.chmod(tmp_path / "locks", 0o777)
    with host_lock("x", 0):
        assert stat.S_IMODE(os.stat(tmp_path / "locks").st_mode) == 0o700
        assert stat.S_IMODE(os.stat(tmp_path / "locks" / "x.lock").st_mode) == 0o600
