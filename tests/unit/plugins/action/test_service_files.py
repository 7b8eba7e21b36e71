# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin that masks secrets of the inventory, in a real run of Ansible: what it shows depends on its version."""

from __future__ import annotations

import os
import pathlib

import pytest
import yaml

from tests.support.preloaded import ansible_playbook

SECRETS = ["Plain-value-31", "Referenced-value-32", "Deep-value-33"]
VARIABLES = {
    "galera_root_password": SECRETS[0],
    "app_password": "{{ of_the_vault }}",
    "of_the_vault": "{{ kept.app | default('') }}",
    "kept": {"app": SECRETS[1]},
    "own_password": "{{ own_password }}",
    "other_password": "{{ lookup('ansible.builtin.env', 'OTHER') }}",
    "web": {"pwd": "{{ deep }}"},
    "deep": SECRETS[2],
}


@pytest.mark.parametrize("options", [["--diff", "--check"], ["-vvv"]])
def test_secrets_of_variables_are_shown_neither_in_differences_nor_in_errors(tmp_path: pathlib.Path, options: list[str]) -> None:
    (tmp_path / "vars.yml").write_text(yaml.safe_dump(VARIABLES), "utf-8")
    content = "first {{ galera_root_password }}\nsecond {{ app_password }}\nthird {{ web.pwd }}\n"
    # a program that quotes what it refuses
    file = {"path": str(tmp_path / "out.conf"), "content": content, "validate": ["sh", "-c", 'cat "$0"; exit 3', "%s"]}
    task = {"reduced.footprint.service_files": {"files": [file], "units": []}}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "vars_files": ["vars.yml"], "tasks": [task]}]), "utf-8")
    variables = {**os.environ, "ANSIBLE_DISPLAY_TRACEBACK": "error"}
    done = ansible_playbook("play.yml", *options, cwd=tmp_path, env=variables)
    shown = done.stdout + done.stderr
    assert "first ********" in shown and ("third ********" in shown or "--check" not in options), shown
    assert ("validation of the new content failed" in shown) == ("--check" not in options)
    assert [each for each in SECRETS if each in shown] == []
