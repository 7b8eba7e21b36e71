# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a MariaDB server's host shows of it."""

from __future__ import annotations

import os
import pathlib
import types

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._galera import io_mariadb
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariadb import MariaDb


def process(proc: pathlib.Path, number: str, program: str, namespace: str) -> None:
    (proc / number / "ns").mkdir(parents=True)
    (proc / number / "comm").write_text(program + "\n")
    (proc / number / "ns" / "pid").symlink_to(namespace)


@pytest.mark.parametrize(
    ("program", "namespace", "seen"),
    [
        ("mysql_upgrade", "pid:[1]", True),
        ("mariadb-upgrade", "pid:[1]", True),
        ("debian-start", "pid:[1]", True),
        ("mariadbd", "pid:[1]", False),
        # a container's own server is its own affair
        ("mysql_upgrade", "pid:[2]", False),
    ],
)
def test_the_check_of_the_system_tables_is_seen(tmp_path: pathlib.Path, program: str, namespace: str, seen: bool) -> None:
    process(tmp_path, "self", "python3", "pid:[1]")
    process(tmp_path, "40", "sshd", "pid:[1]")
    process(tmp_path, "41", program, namespace)
    # one that ended while it was looked at
    (tmp_path / "42").mkdir()
    assert MariaDb().upgrading(tmp_path) is seen


def test_the_saved_position_belongs_to_the_server_although_a_run_was_killed(tmp_path: pathlib.Path) -> None:
    os.chown(tmp_path, 1234, 1235)
    saved = tmp_path / "grastate.dat"
    saved.write_text("seqno:   -1\nsafe_to_bootstrap: 0\n")  # of root
    MariaDb(datadir=str(tmp_path)).allow_bootstrap()
    assert saved.read_text() == "seqno:   -1\nsafe_to_bootstrap: 1\n"
    assert (saved.stat().st_uid, saved.stat().st_gid) == (1234, 1235)


@pytest.mark.parametrize(("found", "given", "kept"), [("0", "a", "a"), ("0", None, "0"), ("b", "a", "b")])
def test_the_cluster_keeps_its_identity(tmp_path: pathlib.Path, found: str, given: str | None, kept: str) -> None:
    uuids = {letter: "-".join(letter * length for length in (8, 4, 4, 4, 12)) for letter in "0ab"}
    saved = tmp_path / "grastate.dat"
    saved.write_text(f"uuid:    {uuids[found]}\nsafe_to_bootstrap: 0\n")
    MariaDb(datadir=str(tmp_path)).allow_bootstrap(given and uuids[given])
    assert saved.read_text() == f"uuid:    {uuids[kept]}\nsafe_to_bootstrap: 1\n"


def test_a_member_that_forms_a_component_lets_the_others_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    monkeypatch.setattr(io_mariadb, "run", lambda argv, stdin, **unused: statements.append(stdin) or types.SimpleNamespace(stdout=""))
    MariaDb().reform()
    (text,) = statements
    assert 0 < text.index("pc.bootstrap=true") < text.index("gmcast.isolate=0")


def test_a_member_whose_data_was_set_aside_by_a_killed_run_starts(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[list[str]] = []
    monkeypatch.setattr(io_mariadb, "run", lambda argv, **unused: done.append(argv))
    monkeypatch.setattr("pwd.getpwnam", lambda unused: types.SimpleNamespace(pw_uid=1234, pw_gid=1235))
    datadir = tmp_path / "mysql"
    MariaDb(datadir=str(datadir)).start()
    assert (datadir.stat().st_uid, datadir.stat().st_mode & 0o777, list(tmp_path.iterdir())) == (1234, 0o755, [datadir])
    assert done[-1] == ["systemctl", "start", "--no-block", "--", "mariadb.service"]
    (datadir / "ibdata1").touch()
    MariaDb(datadir=str(datadir)).start()
    assert (datadir / "ibdata1").exists()


def test_data_that_an_interrupted_run_has_set_aside_is_seen(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mysql.before-lab/mysql").mkdir(parents=True)
    (tmp_path / "mysql.before-lab.partial/mysql").mkdir(parents=True)
    (tmp_path / "mysql.before-empty").mkdir()
    database = MariaDb(datadir=str(tmp_path / "mysql"))
    assert database.aside() == (str(tmp_path / "mysql.before-lab"),)
    (tmp_path / "mysql").mkdir()
    assert database.aside() == (str(tmp_path / "mysql.before-lab"),)
    (tmp_path / "mysql/mysql").mkdir()
    assert database.aside() == ()


def test_the_saved_view_is_that_of_the_last_component(tmp_path: pathlib.Path) -> None:
    database = MariaDb(datadir=str(tmp_path))
    assert database.saved_view() == ""
    # renamed before the server was started, which has not been in a component since
    (tmp_path / "gvwstate.dat.last").write_text("older")
    (tmp_path / "grastate.dat").write_text("seqno:   -1\n")
    assert database.saved_view() == "older"
    (tmp_path / "gvwstate.dat").write_text("newer")
    assert database.saved_view() == "newer"
    # an orderly stop: it left its component
    (tmp_path / "gvwstate.dat").unlink()
    (tmp_path / "grastate.dat").write_text("seqno:   7\n")
    assert database.saved_view() == ""


def test_the_guard_asks_the_others(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, settings = tmp_path / "guard.py", tmp_path / "members.json"
    program.write_text("import sys; print(open(sys.argv[1]).read().replace('WHAT', sys.argv[2]))")
    settings.write_text('{"name": "n1", "WHAT": {"n2": null}}')
    monkeypatch.setattr(io_mariadb, "_GUARD", (str(program), str(settings)))
    assert MariaDb("mariadb.service").others() == ("n1", {"n2": None})
    monkeypatch.setattr(io_mariadb, "_GUARD", (str(tmp_path / "missing.py"), str(settings)))
    with pytest.raises(CommandError):
        MariaDb("mariadb.service").others()
