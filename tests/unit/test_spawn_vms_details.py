# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VM details that are given to a run: hosts of the same run, checked as the inventory is, and kept next to it. Ansible itself reads all of them."""

from __future__ import annotations

import json
import os
import pathlib
import re
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode
from tests.support.preloaded import ansible_playbook

NODES = """
plugin: reduced.footprint.nodes
cluster: blue
address_sources: [fixed]
vm_defaults: {ram: 4, nics: [{bridge: br-admin}], disks: [{size: 20}], gateway: 192.0.2.1}
servers:
  metal1: {ansible_host: 192.0.2.11, roles: [virt], vms: [{id: one, address: 192.0.2.31/24, roles: [controller]}]}
  metal2: {ansible_host: 192.0.2.12, roles: [virt]}
  metal3: {ansible_host: 192.0.2.13, roles: [compute]}
"""
PLAY = f"""
- hosts: virt
  gather_facts: false
  tasks:
    - ansible.builtin.include_tasks: {ROOT}/playbooks/tasks/add_details.yml
    - ansible.builtin.debug: {{msg: "{{{{ inventory_hostname }}}} has {{{{ vms | map(attribute='id') | join('+') }}}}"}}
- hosts: controller
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {{msg: "{{{{ inventory_hostname }}}} on {{{{ vm_host }}}} at {{{{ ansible_host }}}} with {{{{ vm_details.ram }}}}"}}
"""
WEB = {"id": "web", "ram": 8, "address": "192.0.2.40/24", "roles": ["controller"]}
PASSED = ["metal1 has one", "metal2 has web", "one on metal1 at 192.0.2.31 with 4", "web on metal2 at 192.0.2.40 with 8"]


class Site:
    """An inventory, and plays that are given VM details."""

    def __init__(self, folder: pathlib.Path) -> None:
        ControlNode(folder)
        self.folder, self.inventory = folder, folder / "inventory"
        self.inventory.mkdir()
        self.nodes, self.kept = self.inventory / "nodes.yml", self.inventory / "nodes.vms.yml"
        self.nodes.write_text(NODES, "utf-8")
        (folder / "play.yml").write_text(PLAY, "utf-8")

    def run(self, *options: str, play: str = "play.yml", source: str = "inventory", **variables: t.Any) -> tuple[int, str]:
        environment = {
            **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"), "PYTHONPATH": "", "HOME": str(self.folder),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "local"), "TMPDIR": str(self.folder), "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
        }  # fmt: skip
        more = ["-e", json.dumps(variables)] if variables else []
        done = ansible_playbook("-i", source, *options, *more, play, cwd=self.folder, env=environment)
        return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr)

    def passes(self, *options: str, changed: bool, **variables: t.Any) -> str:
        code, output = self.run(*options, **variables)
        assert code == 0 and [line for line in PASSED if f'"msg": "{line}"' not in output] == [] and "[WARNING]" not in output, output
        assert ("changed=1" in output) == changed, output
        return output


@pytest.fixture(name="site")
def fixture_site(tmp_path: pathlib.Path) -> Site:
    return Site(tmp_path)


def test_they_are_hosts_of_the_run_and_kept(site: Site) -> None:
    given = {"metal2": [WEB]}
    shown = site.passes("--check", "--diff", changed=True, spawn_vms_details=given)
    assert "VM details would be kept in" in shown and "+ - id: web" in shown and not site.kept.exists()
    assert "VM details kept in" in site.passes(changed=True, spawn_vms_details=json.dumps(given))
    before = site.kept.stat().st_ino
    site.passes(changed=False, spawn_vms_details=given)
    assert site.kept.stat().st_ino == before
    # later runs have them without the variable
    site.passes(changed=False)


def test_a_variable_of_the_run_adds_hosts(site: Site) -> None:
    """As in a job of AWX: the inventory was read without them."""
    (site.folder / "play.yml").write_text(PLAY.replace("  tasks:", "  vars: {spawn_vms_details: '{{ given }}'}\n  tasks:", 1), "utf-8")
    site.passes("--check", changed=True, given={"metal2": [WEB]})
    output = site.passes("-e", "awx_job_id=7", changed=False, given={"metal2": [{**WEB, "user_data": {"password": "hunter22"}}]})
    assert "nodes.vms.yml is lost with this job of AWX. Keep the VM details in it" in output and "- id: web" in output
    assert "hunter22" not in output and not site.kept.exists()
    code, output = site.run(given={"metal2": [{**WEB, "ram": "much", "cpu": 0}], "metl1": []})
    assert code != 0 and "Nothing was changed" in output and not site.kept.exists(), output
    for words in ("metl1: is not such a server. Did you mean metal1?", "metal2[0].ram: 'much'", "metal2[0].cpu: "):
        assert f"spawn_vms_details.{words}" in output, output


def test_invalid_ones_are_errors_of_the_inventory(site: Site) -> None:
    code, output = site.run(spawn_vms_details={"metal2": [{**WEB, "nics": [{"bridge": 7}], "address": "192.0.2.31/24", "ram": "{{ 4 }}"}]})
    assert code != 0 and "spawn_vms_details.metal2[0].ram: contains a template." in output, output


def test_spawn_vms_and_site_add_them_before_anything_else() -> None:
    for name in ("spawn_vms", "site"):
        plays = yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text("utf-8"))
        assert [task["name"] for task in plays[0]["pre_tasks"]][:2] == ["Pass the expert gate", "Add the VM details that are given"]
