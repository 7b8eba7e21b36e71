# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated server and mariabackup for tests of backups and of their restore."""

from __future__ import annotations

import datetime
import pathlib

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._galera import run_data
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_backup import BackupRequest, make

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


def simulate(tmp_path, monkeypatch):
    """Use locks in the test's own folder; the server's user does not exist here."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(run_data.os, "chown", lambda *unused: None)
    monkeypatch.setattr(run_data.os, "lchown", lambda *unused: None)
    monkeypatch.setattr(run_data.Directory, "owner", lambda unused: (1, 1, 0o755))


def make_datadir(tmp_path):
    """Create a data directory."""
    path = tmp_path / "lib" / "mysql"
    path.mkdir(parents=True)
    (path / "ibdata1").write_text("old", encoding="ascii")
    return path


def made(tmp_path, datadir, when=NOON, **more):
    """Make a backup."""
    request = BackupRequest(str(tmp_path / "spool"), "lab", "metal3", lock_timeout=1)
    return make(request, Server(datadir, SYNCED), Tool(**more), check_mode=False, now=when)


def names(folder):
    """Return the names in a folder."""
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
