# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files and commands of mariabackup, with the file names of all versions."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariabackup import Mariabackup, digest, taken
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariadb import MariaDb

UUID = "aaaaaaaa-0000-11ef-8000-000000000001"


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/usr/bin/env python3\nimport pathlib, sys\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def bin(tmp_path, monkeypatch):
    """A folder in front of the search path, with a mariabackup and an mbstream that play along."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    program(folder, "mbstream", "pathlib.Path(sys.argv[3], 'x').write_bytes(sys.stdin.buffer.read())")
    return folder


@pytest.mark.parametrize("tool", ["mariadb-backup", "mariabackup"])
def test_there_and_back(tmp_path, bin, tool):
    program(bin, tool, "assert '--user=root' in sys.argv and '--datadir=/data' in sys.argv; print('stream')")
    here = Mariabackup("/data")
    here.stream(tmp_path / "file", tmp_path / "scratch", "gzip")
    (tmp_path / "out").mkdir()
    here.unpack(tmp_path / "file", tmp_path / "out", "gzip")
    assert (tmp_path / "out" / "x").read_text(encoding="ascii") == "stream\n"
    # cut off, as by a full disk
    (tmp_path / "file").write_bytes((tmp_path / "file").read_bytes()[:-6])
    with pytest.raises(CommandError, match="(?i)unexpected end of file.*The file is damaged"):
        here.unpack(tmp_path / "file", tmp_path / "out", "gzip")


def test_what_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match="mariabackup is not installed"):
        Mariabackup().program()
    with pytest.raises(BackendError, match="no compressor is installed"):
        Mariabackup().compressor(["zstd", "gzip"])


@pytest.mark.parametrize("kind", ["full-prepared", "log-applied"])
def test_prepared(tmp_path, bin, kind):
    program(bin, "mariabackup", f"pathlib.Path(sys.argv[2][13:], 'xtrabackup_checkpoints').write_text('backup_type = {kind}\\nfrom_lsn = 0\\n')")
    Mariabackup().prepare(tmp_path)


def test_not_prepared(tmp_path, bin):
    program(bin, "mariabackup", "pathlib.Path(sys.argv[2][13:], 'xtrabackup_checkpoints').write_text('backup_type = full-backuped\\n')")
    with pytest.raises(BackendError, match="The backup is not usable"):
        Mariabackup().prepare(tmp_path)
    program(bin, "mariabackup", "sys.exit('corrupt page')")
    with pytest.raises(CommandError, match="corrupt page.*The backup is not usable"):
        Mariabackup().prepare(tmp_path)


@pytest.mark.parametrize("name", ["xtrabackup_galera_info", "mariadb_backup_galera_info"])
@pytest.mark.parametrize("end", ["", "\n", " 0\n"])
def test_position(tmp_path, name, end):
    (tmp_path / name).write_text(f"{UUID}:17{end}", encoding="ascii")
    assert Mariabackup().position(tmp_path) == (UUID, 17)


def test_no_position(tmp_path):
    with pytest.raises(BackendError, match="does not contain the cluster position"):
        Mariabackup().position(tmp_path)


@pytest.mark.parametrize(
    ("text", "gtid"),
    [("binlog_pos = \n", ""), ("binlog_pos = filename 'b.1', position '2', GTID of the last change '0-1-2'\n", "0-1-2"), (None, "")],
)
def test_gtid(tmp_path, text, gtid):
    if text is not None:
        (tmp_path / "xtrabackup_info").write_text(text, encoding="ascii")
    assert Mariabackup().gtid(tmp_path) == gtid


def test_its_own_files_are_removed_and_no_data(tmp_path):
    own = ("xtrabackup_info", "xtrabackup_galera_info_SST", "mariadb_backup_checkpoints", "donor_galera_info", "backup-my.cnf")
    data = ("ibdata1", "ib_logfile0", "aria_log_control")
    for name in (*own, *data):
        (tmp_path / name).touch()
    (tmp_path / "xtrabackup_shop").mkdir()
    Mariabackup().tidy(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*data, "xtrabackup_shop"])


def test_files(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert digest(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    (tmp_path / "b").write_bytes(b"x" * 5000)
    assert taken(tmp_path) >= 5000


class Asked(MariaDb):
    """A server with one answer."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def query(self, sql, timeout=30):
        if self.rows is None:
            raise CommandError(["mariadb"], 1, "down")
        return self.rows


@pytest.mark.parametrize(("rows", "clients"), [([["3"]], 3), ([], 0), (None, 0), ([["NULL"]], 0)])
def test_clients(rows, clients):
    assert Asked(rows).clients() == clients


def test_provider():
    rows = [["wsrep_provider_version", "26.4.23(r1)"], ["wsrep_provider_options", "socket.ssl = YES"], ["wsrep_cluster_name", "blue"]]
    assert Asked(rows).provider() == ("26.4.23(r1)", "socket.ssl = YES", "blue")
    assert Asked(None).provider() == Asked([]).provider() == ("", "", "")
