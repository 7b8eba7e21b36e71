# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data directory on a host without the server; on others it is in ``test_run_data_restore.py``."""

from __future__ import annotations

import pathlib
import types
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import Backup
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_data import DataRequest, ensure_data

BACKUP = Backup("lab-20261122T120000Z", "lab.mbs.zst", "lab", "metal1", "20261122T120000Z", "10.11.6-MariaDB", "zstd", "0" * 64, 9, "u", 17)


def prepared(folder: pathlib.Path, version: str, check_mode: bool) -> tuple[str, ...]:
    """Prepare a backup next to a data directory that does not exist; returns the actions.

    :arg version: that of the server on the host, empty if it is not installed.
    """
    server: t.Any = types.SimpleNamespace(datadir=folder / "mysql")
    tool: t.Any = types.SimpleNamespace(server_version=lambda: version)
    request = DataRequest("prepared", "before-x", file=str(folder / "missing"), backup=BACKUP, lock_timeout=1)
    return ensure_data(request, server, tool, check_mode=check_mode).actions


def test_check_mode_before_the_server_is_installed(tmp_path: pathlib.Path) -> None:
    # the play installs it first
    assert prepared(tmp_path, "", check_mode=True) == ("prepare",)
    with pytest.raises(RefusedError, match="the server on this host is not installed"):
        prepared(tmp_path, "", check_mode=False)


def test_check_mode_compares_the_installed_version(tmp_path: pathlib.Path) -> None:
    with pytest.raises(RefusedError, match="the server on this host is 11.8.2-MariaDB"):
        prepared(tmp_path, "11.8.2-MariaDB", check_mode=True)


@pytest.mark.parametrize("state", ["copied", "set_aside"])
def test_data_that_serves_meanwhile_is_left_alone(tmp_path: pathlib.Path, state: str) -> None:
    (tmp_path / "mysql").mkdir()
    serves = {"wsrep_on": "ON", "wsrep_cluster_status": "Primary"}
    # no verb to stop it
    server: t.Any = types.SimpleNamespace(datadir=tmp_path / "mysql", status=lambda: serves, unit_state=lambda: {"ActiveState": "active"})
    with pytest.raises(RefusedError, match="this member is in a Primary Component and may serve clients"):
        ensure_data(DataRequest(state, "before-x", lock_timeout=1), server, t.cast(t.Any, None), check_mode=False)
    assert list(tmp_path.iterdir()) == [tmp_path / "mysql"]
