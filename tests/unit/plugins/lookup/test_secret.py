# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup ``secret`` in real plays: forks, environments, check mode, Ansible vault."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.support.preloaded import ansible_playbook

ROOT = pathlib.Path(__file__).resolve().parents[4]
INVENTORY = "[all]\n" + "".join(f"h{number} ansible_connection=local ansible_python_interpreter={sys.executable}\n" for number in range(8))
PLAY = """
- name: Ask
  hosts: all
  gather_facts: false
  vars:
    shop: "{{ lookup('reduced.footprint.secret', 'rabbitmq/shop') }}"
  tasks:
    - name: Use it
      ansible.builtin.set_fact:
        seen: "{{ shop }}"
      no_log: true
    - name: Compare
      ansible.builtin.assert:
        that: (ansible_play_hosts | map('extract', hostvars, 'seen') | unique | length) == 1
        quiet: true
    - name: Keep the answer
      ansible.builtin.copy:
        content: "{{ seen }}"
        dest: "{{ answer }}"
        mode: "0600"
      run_once: true
      check_mode: false
      diff: false
      no_log: true
"""


def play(folder: pathlib.Path, *words: str, ok: bool = True) -> str:
    """What the play says."""
    (folder / "ansible.cfg").write_text("", "utf-8")
    settings = {"ANSIBLE_CONFIG": str(folder / "ansible.cfg"), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"), "ANSIBLE_NOCOLOR": "1"}
    settings["ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED"] = "1"
    environment = dict(os.environ, **settings)
    argv = ["-i", "hosts", "--forks", "8", "-e", f"answer={folder / 'answer'}", *words, "play.yml"]
    done = ansible_playbook(*argv, cwd=folder, env=environment)
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "hosts").write_text(INVENTORY, "utf-8")
    (tmp_path / "play.yml").write_text(PLAY, "utf-8")
    return tmp_path


def test_forks_get_the_same_secret_and_output_does_not_contain_it(folder: pathlib.Path) -> None:
    said = play(folder, "--check", "-vvv", "--diff")
    assert not (folder / ".secrets").exists()
    stand_in = (folder / "answer").read_text("utf-8")
    said += play(folder, "-vvv", "--diff")
    file = folder / ".secrets" / "footprint" / "rabbitmq" / "shop.txt"
    value = file.read_text("utf-8").strip()
    assert (folder / "answer").read_text("utf-8") == value != stand_in
    assert value not in said
    assert stand_in not in said


def test_an_inventory_directory_may_contain_them(folder: pathlib.Path) -> None:
    (folder / "inventory").mkdir()
    (folder / "hosts").rename(folder / "inventory" / "hosts")
    (folder / "hosts").symlink_to("inventory")
    for _unused in range(2):
        assert "Unable to parse" not in play(folder, "-vvvv")
    assert (folder / "hosts" / ".secrets" / "footprint" / "rabbitmq" / "shop.txt").is_file()


def test_environment_vault_and_bad_names(folder: pathlib.Path) -> None:
    play(folder, "-e", json.dumps({"footprint_cluster": "blue"}))
    play(folder, "-e", json.dumps({"footprint_cluster": "blue", "footprint_environment": "{{ 'gr' ~ 'een' }}"}))
    play(folder, "-e", json.dumps({"footprint_secrets": "{{ inventory_dir }}/mine"}))
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("shop.txt"))
    assert files == [".secrets/blue/rabbitmq/shop.txt", ".secrets/green/rabbitmq/shop.txt", "mine/rabbitmq/shop.txt"]
    assert len({(folder / file).read_text("utf-8") for file in files}) == 3

    file, password = folder / files[-1], folder / "vault-password"
    value = file.read_text("utf-8").strip()
    password.write_text("opensesame", "utf-8")
    vault = pathlib.Path(sys.executable).with_name("ansible-vault")
    subprocess.run([str(vault), "encrypt", "--vault-password-file", str(password), str(file)], check=True, capture_output=True, timeout=60)
    mine = ("-e", json.dumps({"footprint_secrets": str(folder / "mine")}))
    play(folder, *mine, "--vault-password-file", str(password))
    assert (folder / "answer").read_text("utf-8") == value
    assert "vault" in play(folder, *mine, ok=False)

    assert "footprint_environment: '../x' is not a valid environment name" in play(folder, "-e", "footprint_environment=../x", ok=False)
    assert "footprint_secrets: 'mine' is not an absolute path" in play(folder, "-e", "footprint_secrets=mine", ok=False)
