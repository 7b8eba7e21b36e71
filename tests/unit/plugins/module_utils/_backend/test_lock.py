# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run at a time, and a killed one frees the host."""

from __future__ import annotations

import multiprocessing
import pathlib
import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._backend import lock as lock_module
from ansible_collections.reduced.footprint.plugins.module_utils._backend.lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError


@pytest.fixture(autouse=True)
def fixture_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of this test only."""
    monkeypatch.setattr(lock_module, "lock_folder", lambda: tmp_path / "locks")


def hold(ready: str) -> None:
    """Another process with the lock."""
    with host_lock("x", 0):
        pathlib.Path(ready).touch()
        time.sleep(60)


def test_the_second_waits_or_is_told_and_a_killed_holder_frees_it(tmp_path: pathlib.Path) -> None:
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
