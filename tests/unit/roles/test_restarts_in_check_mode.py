# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode reports the restart of a member whose settings would be written."""

from __future__ import annotations

import json
import pathlib
import sys
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

SETTINGS = {
    "galera": ("__galera_configured", "/etc/mysql/mariadb.conf.d/70-footprint-galera.cnf", "/usr/local/lib/reduced.footprint/galera_check.py"),
    "rabbitmq": ("__rabbitmq_configured", "/etc/rabbitmq/rabbitmq.conf", "/etc/systemd/system/epmd.socket.d/footprint.conf"),
    "ovn_database": ("__ovn_database_written", "/etc/systemd/system/ovn-ovsdb-server-nb.service.d/footprint.conf", ""),
}
DECISION = {"bootstrap": None, "first": "metal1", "action": "none", "begin": {}, "steps": {"metal2": {}}}


def turned(role: str, folder: pathlib.Path, written: str, *options: str) -> bool:
    """Return whether the turn of a running member that needs nothing else is reported as a change.

    :arg written: file that is, or would be, written before.
    """
    control = ControlNode(folder, f"{role}_member")
    control.answers = {f"{role}_member metal2": {"changed": False, "actions": []}}
    files = [path for path in (ROOT / "roles" / role / "vars/main.yml", ROOT / "roles" / role / "vars/Debian.yml") if path.exists()]
    tasks: list[t.Any] = [{"ansible.builtin.include_vars": str(path)} for path in files]
    tasks += yaml.safe_load((ROOT / "roles" / role / "tasks/turn.yml").read_text("utf-8"))
    given: dict[str, t.Any] = {
        f"__{role}_turn": "metal2", "__galera_turn_uuid": "", f"__{role}_decision": DECISION, f"__{role}_todo": {"actions": [], role: {"ready": True}},
        f"{role}_join_timeout": 9, SETTINGS[role][0]: {"actions": [f"write {written}"]}, "rabbitmq_gone_nodes": [], "rabbitmq_erlang_cookie": "x" * 20,
    }  # fmt: skip
    # addresses and files are not the subject
    given.update({"__galera_tls_directory": "/tls", "__ovn_database_unit_files": [], "__ovn_database_tls_files": [], "__ovn_database_address": "192.0.2.12"})
    given.update({"__rabbitmq_nodes": {"metal1": "", "metal2": ""}, "__rabbitmq_node": "rabbit@metal2", "ansible_python_interpreter": sys.executable})
    (folder / "play.yml").write_text(yaml.safe_dump([{"hosts": "metal2", "gather_facts": False, "tasks": tasks}]), "utf-8")
    code, output = control.run(str(folder / "play.yml"), "-e", json.dumps(given), *options)
    assert code == 0, output
    return "changed=1" in output


@pytest.mark.parametrize("role", sorted(SETTINGS))
def test_a_restart_is_reported(role: str, tmp_path: pathlib.Path) -> None:
    assert turned(role, tmp_path, SETTINGS[role][1], "--check")


@pytest.mark.parametrize("role", sorted(SETTINGS))
def test_what_is_written_does_not_count_as_a_restart(role: str, tmp_path: pathlib.Path) -> None:
    # the module compares the times of the files
    assert not turned(role, tmp_path, SETTINGS[role][1])


@pytest.mark.parametrize("role", ["galera", "rabbitmq"])
def test_another_file_restarts_no_member(role: str, tmp_path: pathlib.Path) -> None:
    assert not turned(role, tmp_path, SETTINGS[role][2], "--check")
