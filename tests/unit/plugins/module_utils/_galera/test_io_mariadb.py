# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a MariaDB server's host shows of it."""

from __future__ import annotations

import pathlib

import pytest
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
