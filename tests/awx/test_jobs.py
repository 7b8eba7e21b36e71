# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a job of AWX lacks: an inventory that is read again, and files that survive. Without servers."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import time

import pytest
import yaml
from awx_job import BIN, ROOT, Awx

NODES = """
plugin: reduced.footprint.nodes
cluster: blue
address_sources: [fixed, lease]
dhcp_leases: [{leases}]
servers:
  metal1:
    roles: [virt, compute]
    node_capacity: {{memory: 64, cpus: 16, pools: {{default: 500 GiB}}, bridges: [br-admin], hypervisors: [kvm]}}
    vms:
      - {{id: controller1, cpu: 2, ram: 8, roles: [controller], address: 192.0.2.31, nics: [{{bridge: br-admin}}], disks: [{{size: 40}}]}}
      - {{id: controller2, cpu: 2, ram: 8, roles: [controller], nics: [{{bridge: br-admin}}], disks: [{{size: 40}}]}}
"""
HERE = f"ansible_connection: local\nansible_python_interpreter: {sys.executable}\n"
ASK = """
- hosts: metal1
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        content: "{{ lookup('reduced.footprint.secret', 'shop') }}"
        dest: ANSWER
        mode: "0600"
"""
FIND = f"""
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.import_tasks: {ROOT}/playbooks/tasks/find_addresses.yml
    - ansible.builtin.debug:
        msg: "controller2 is at {{{{ hostvars.controller2.ansible_host | default('nowhere') }}}}"
      run_once: true
"""
UPLOAD = f"""
- hosts: virt
  gather_facts: false
  tasks:
    - ansible.builtin.include_tasks: {ROOT}/playbooks/tasks/add_details.yml
    - ansible.builtin.debug: {{msg: "metal1 has {{{{ vms | map(attribute='id') | join('+') }}}}"}}
- hosts: footprint_vms
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {{msg: "{{{{ inventory_hostname }}}} on {{{{ vm_host }}}} of {{{{ vm_details.cpu }}}}"}}
"""


@pytest.fixture(name="blue")
def fixture_blue(awx: Awx, tmp_path: pathlib.Path) -> Awx:
    """A project with one server; the lease file is outside of it, and empty."""
    (tmp_path / "leases").write_text("", "utf-8")
    (awx.project / "inventory" / "nodes.yml").write_text(NODES.format(leases=tmp_path / "leases"), "utf-8")
    (awx.project / "inventory" / "group_vars").mkdir()
    (awx.project / "inventory" / "group_vars" / "all.yml").write_text(HERE, "utf-8")
    (awx.project / "ask.yml").write_text(ASK.replace("ANSWER", str(tmp_path / "answer")), "utf-8")
    (awx.project / "find.yml").write_text(FIND, "utf-8")
    (awx.project / "upload.yml").write_text(UPLOAD, "utf-8")
    awx.update_inventory()
    return awx


def settings(awx: Awx, **variables: object) -> None:
    """Change the variables of the inventory and update it."""
    (awx.project / "inventory" / "group_vars" / "all.yml").write_text(HERE + yaml.safe_dump(variables), "utf-8")
    awx.update_inventory()


def test_a_plan_of_a_frozen_inventory(blue: Awx) -> None:
    done = blue.job("plan_placement", plan_placement_measure="false", plan_placement_profile="")
    assert done.rc == 0, done.output
    assert "controller2" in done.text
    assert done.recap("changed") == 0


def test_the_gate_is_closed_until_the_survey_says_otherwise(blue: Awx) -> None:
    done = blue.job("provision_virt", expert_mode="false")
    assert done.rc != 0
    assert "AVAILABILITY" in done.text


def test_answers_are_flat_and_are_no_templates(blue: Awx) -> None:
    done = blue.job("config_dump", config_dump_format="{{ 'yaml' }}", config_dump_origins="false")
    assert done.rc != 0
    assert "config_dump_format must be one of: yaml, json, got: {{ 'yaml' }}" in done.text


def test_an_address_is_found_after_the_inventory_was_frozen(blue: Awx, tmp_path: pathlib.Path) -> None:
    assert "controller2 is at nowhere" in blue.job("find.yml").text
    (mac,) = (entry["__ansible_unsafe"] for entry in blue.inventory["_meta"]["hostvars"]["controller2"]["vm_macs"])
    (tmp_path / "leases").write_text(f"{int(time.time()) + 3600} {mac} 192.0.2.32 controller2 *\n", "utf-8")
    done = blue.job("find.yml")
    assert "controller2 is at 192.0.2.32" in done.text
    assert done.recap("changed") == 0


def same_path(awx: Awx) -> None:
    """In containers, the project of the inventory update has the path of that of the job."""
    awx.inventory = json.loads(re.sub(r'[^"]*/update-[0-9]+/project', str(awx.project), json.dumps(awx.inventory)))


def test_details_of_a_survey_are_hosts_of_the_job(blue: Awx) -> None:
    web = {"id": "web", "cpu": 3, "ram": 4, "nics": [{"bridge": "br-admin"}], "disks": [{"size": 20}]}
    missing = blue.job("upload.yml", spawn_vms_details=json.dumps({"metal1": [web]}))
    assert missing.rc != 0 and "nodes.yml: does not exist here." in missing.text, missing.text
    same_path(blue)
    done = blue.job("upload.yml", spawn_vms_details=json.dumps({"metal1": [web]}))
    assert done.rc == 0, done.text
    assert "metal1 has controller1+controller2+web" in done.text and "web on metal1 of 3" in done.text
    assert "nodes.vms.yml is lost with this job of AWX." in done.text and "- id: web" in done.text
    refused = blue.job("upload.yml", spawn_vms_details=json.dumps({"metal1": [{**web, "cpu": "{{ 7 }}"}]}))
    assert refused.rc != 0 and "spawn_vms_details.metal1[0].cpu: contains a template." in refused.text
    # committed as shown
    kept = {"plugin": "reduced.footprint.nodes", "part_of": "nodes.yml", "servers": {"metal1": {"vms": [web]}}}
    (blue.project / "inventory" / "nodes.vms.yml").write_text(yaml.safe_dump(kept, sort_keys=False), "utf-8")
    blue.update_inventory()
    same_path(blue)
    again = blue.job("upload.yml", spawn_vms_details=json.dumps({"metal1": [web]}))
    assert "web on metal1 of 3" in again.text and "is lost" not in again.text and again.recap("changed") == 0
    assert "web on metal1 of 3" in blue.job("upload.yml", spawn_vms_details="").text


def test_a_job_generates_no_secret_that_would_be_lost(blue: Awx, tmp_path: pathlib.Path) -> None:
    done = blue.job("ask.yml")
    assert done.rc != 0
    assert "what a job of AWX generates is lost when the job ends" in done.text
    assert "footprint_secrets" in done.text
    assert not (tmp_path / "answer").exists()


def test_secrets_in_a_mounted_directory_survive(blue: Awx, tmp_path: pathlib.Path) -> None:
    mounted = tmp_path / "mounted"
    settings(blue, footprint_secrets=str(mounted), footprint_secrets_generate=True)
    missing = blue.job("ask.yml")
    assert missing.rc != 0
    assert "is not a directory in this job of AWX" in missing.text
    mounted.mkdir(mode=0o700)
    assert blue.job("ask.yml").rc == 0
    value = (tmp_path / "answer").read_text("utf-8")
    assert (mounted / "shop.txt").read_text("utf-8").strip() == value
    again = blue.job("ask.yml")
    assert (again.rc, again.recap("changed")) == (0, 0)


def test_vault_files_in_the_project_are_read(blue: Awx, tmp_path: pathlib.Path) -> None:
    folder = blue.project / "inventory" / ".secrets" / "blue"
    folder.mkdir(parents=True)
    (folder / "shop.txt").write_text("from the vault\n", "utf-8")
    (tmp_path / "password").write_text("open sesame\n", "utf-8")
    subprocess.run([str(BIN / "ansible-vault"), "encrypt", "--vault-password-file", str(tmp_path / "password"), str(folder / "shop.txt")], check=True)
    settings(blue, footprint_secrets=str(folder))
    blue.vault_password = "open sesame"
    done = blue.job("ask.yml")
    assert done.rc == 0, done.output
    assert (tmp_path / "answer").read_text("utf-8") == "from the vault"
    assert "from the vault" not in done.text


def test_an_encrypted_variable_is_decrypted_in_the_job_only(blue: Awx, tmp_path: pathlib.Path) -> None:
    (tmp_path / "password").write_text("open sesame\n", "utf-8")
    argv = [str(BIN / "ansible-vault"), "encrypt_string", "--vault-password-file", str(tmp_path / "password"), "--name", "keystone_admin_password", "hunter22"]
    made = subprocess.run(argv, check=True, capture_output=True, encoding="utf-8")
    (blue.project / "inventory" / "group_vars" / "all.yml").write_text(HERE + made.stdout, "utf-8")
    (blue.project / "show.yml").write_text(
        "- hosts: metal1\n  gather_facts: false\n  tasks:\n    - ansible.builtin.assert: {that: keystone_admin_password == 'hunter22'}\n", "utf-8"
    )
    blue.update_inventory()
    assert "hunter22" not in json.dumps(blue.inventory)
    blue.vault_password = "open sesame"
    done = blue.job("show.yml")
    assert done.rc == 0, done.text
