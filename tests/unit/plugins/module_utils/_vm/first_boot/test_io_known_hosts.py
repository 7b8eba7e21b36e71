# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of public host keys: what is read from it, and what ssh does with what is made of it."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_known_hosts

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs"


def test_entries_are_read_and_other_lines_are_ignored(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "known"
    path.write_text(f"# mine\n\nc1,c2 {KEY} comment\n@revoked c3 {KEY}\n|1|abc|def {KEY}\nc4 ssh-rsa AAAA\nc5\n")
    assert io_known_hosts.read(path) == {"c1": KEY, "c2": KEY}


def test_no_file_means_no_keys(tmp_path: pathlib.Path) -> None:
    assert io_known_hosts.read(tmp_path / "none") == {}


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(BackendError, match="cannot be read"):
        io_known_hosts.read(tmp_path)


def test_ssh_accepts_the_options(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a folder" / "known"
    variables = io_known_hosts.connection_variables("c1", path)
    assert sorted(variables) == ["ansible_scp_extra_args", "ansible_sftp_extra_args", "ansible_ssh_extra_args"]
    from ansible.plugins.connection.ssh import Connection

    words = Connection._split_ssh_args(variables["ansible_ssh_extra_args"])
    shown = subprocess.run(["ssh", "-F", "none", "-G", *words, "192.0.2.1"], check=True, capture_output=True, text=True).stdout.splitlines()
    for expected in ("hostkeyalias c1", f"globalknownhostsfile {path}", "stricthostkeychecking true", "checkhostip no"):
        assert expected in shown
