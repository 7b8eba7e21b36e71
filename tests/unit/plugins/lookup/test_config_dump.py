# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup ``config_dump`` in real plays: variables from files that are encrypted with Ansible Vault."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.support.preloaded import ansible_playbook

ROOT = pathlib.Path(__file__).resolve().parents[4]
VAULT = str(pathlib.Path(sys.executable).with_name("ansible-vault"))
INVENTORY = "[galera]\ndb1 ansible_connection=local\n"
PLAY = """
- name: Dump
  hosts: db1
  gather_facts: false
  tasks:
    - name: Show
      ansible.builtin.debug:
        var: lookup('reduced.footprint.config_dump').configs.galera
"""


def environment(folder: pathlib.Path) -> dict[str, str]:
    return {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_VAULT_PASSWORD_FILE": str(folder / "password"),
    }


@pytest.mark.parametrize("encrypted", [True, False])
def test_variables_of_an_encrypted_file_are_masked(tmp_path: pathlib.Path, encrypted: bool) -> None:
    """The values of variables with ordinary names are masked only if their file is encrypted, wherever Ansible finds it."""
    variables = ["first/group_vars/all.yml", "second/group_vars/all/app.yml", "plays/host_vars/db1.yml", "given.yml"]
    # not read by Ansible, and encrypted with a password that is not given
    backup = {"first/group_vars/all.yml.bak": "$ANSIBLE_VAULT;1.1;AES256\n6162\n"}
    files = {**backup, "password": "of the vault\n", "first/hosts": INVENTORY, "second/hosts": INVENTORY, "plays/play.yml": PLAY}
    files.update({name: f"galera_note{number}: PLANTED{number}\n" for number, name in enumerate(variables)})
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    if encrypted:
        subprocess.run([VAULT, "encrypt", *variables], cwd=tmp_path, env=environment(tmp_path), check=True, capture_output=True, timeout=120)
    done = ansible_playbook("-i", "first", "-i", "second/hosts", "-e", "@given.yml", "plays/play.yml", cwd=tmp_path, env=environment(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    for number, name in enumerate(variables):
        assert f'"note{number}"' in done.stdout
        assert (f"PLANTED{number}" in done.stdout) != encrypted, (name, done.stdout)
