# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A created certificate whose files the operator has encrypted with Ansible vault is used, because the module cannot read them."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nthat of the edge\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nits key\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize("sealed", [(), ("ca-key.txt",), ("ca.txt", "ca-key.txt", "certificate.txt", "certificate-key.txt")])
def test_encrypted_files_are_used_as_given_ones(sealed: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    tls, password = tmp_path / "tls", tmp_path / "password"
    tls.mkdir()
    password.write_text("open sesame", "utf-8")
    for name in ("ca.txt", "ca-key.txt", "certificate.txt", "certificate-key.txt"):
        (tls / name).write_text(KEY if name.endswith("key.txt") else CERTIFICATE, "utf-8")
    if sealed:
        vault = [str(pathlib.Path(sys.executable).with_name("ansible-vault")), "encrypt", "--vault-password-file", str(password)]
        subprocess.run([*vault, *(str(tls / name) for name in sealed)], check=True, capture_output=True)
    variables = {"load_balancer_certificate": "", "load_balancer_private_key": "", "load_balancer_tls_directory": str(tls)}
    shown = "{{ '-----BEGIN CERTIFICATE' in __load_balancer_given_certificate and '-----BEGIN PRIVATE' in __load_balancer_given_key }}"
    shown += " {{ __load_balancer_given_certificate | length + __load_balancer_given_key | length }}"
    tasks = [{"ansible.builtin.include_vars": str(ROOT / "roles/load_balancer/vars/main.yml")}, {"ansible.builtin.debug": {"msg": f"given: {shown}"}}]
    play = {"hosts": "metal2", "gather_facts": False, "vars": variables, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]), "utf-8")
    control = ControlNode(tmp_path)
    code, output = control.run(str(tmp_path / "play.yml"), "--vault-password-file", str(password), ansible_connection="local")
    # lookups of files remove the newline at their end
    wanted = f"given: True {len(CERTIFICATE) + len(KEY) - 2}" if sealed else "given: False 0"
    assert code == 0 and wanted in output, output
