# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook that writes the first inventory, with recorded facts; then the inventory plugin and the plan read what it wrote."""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

import pytest

from tests.support.control_node import ROOT, ControlNode
from tests.support.facts import facts_of
from tests.support.preloaded import ansible_playbook

ADDRESSES = {"metal1": "192.0.2.11", "metal2": "192.0.2.12", "laptop": "192.0.2.2"}
ANSWERS = {
    "init_servers": "metal1=192.0.2.11,metal2=192.0.2.12", "init_user": "root", "init_wanted": "control_plane", "init_source": "laptop=192.0.2.2",
    "init_addresses": "192.0.2.20-192.0.2.40", "init_directory": "home", "expert_mode": True,
}  # fmt: skip
CAPACITY = {"memory": 16, "cpus": 4, "pools": {"default": "50 GiB"}, "bridges": ["br-admin"], "hypervisors": ["kvm"]}


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> ControlNode:
    control = ControlNode(tmp_path, "setup")
    control.answers = {f"setup {name}": {"ansible_facts": facts_of(address)} for name, address in ADDRESSES.items()}
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_ed25519.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs me\n", "utf-8")
    # the module that only answers instead of the one of Ansible
    text = (ROOT / "playbooks/init.yml").read_text("utf-8")
    assert text.count("ansible.builtin.setup:") == 1
    (tmp_path / "init.yml").write_text(text.replace("ansible.builtin.setup:", "reduced.footprint.setup:"), "utf-8")
    (tmp_path / "tasks").symlink_to(ROOT / "playbooks/tasks")
    return control


def init(control: ControlNode, *options: str, **changes: t.Any) -> tuple[int, str]:
    return control.run(str(control.folder / "init.yml"), *options, "-e", json.dumps({**ANSWERS, **changes}))


def plan(folder: pathlib.Path, control: ControlNode) -> str:
    """Run the plan in the written directory, with its configuration."""
    environment = {
        **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(control.folder / "collections"), "PYTHONPATH": "", "HOME": str(control.folder),
        "ANSIBLE_LOCAL_TEMP": str(control.folder / "local"), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
    }  # fmt: skip
    options = ["-e", "plan_placement_measure=false", "-e", json.dumps({"node_capacity": CAPACITY})]
    done = ansible_playbook(*options, "reduced.footprint.plan_placement", cwd=folder, env=environment)
    assert done.returncode == 0 and "[WARNING]" not in done.stderr, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("wanted", "more", "words"),
    [
        ("control_plane", {}, "all 4 VMs have a server. High availability: restart."),
        ("cloud", {"init_source": ""}, "all 3 VMs have a server. High availability: restart."),
        ("vms", {"init_source": "", "init_user": "admin"}, "all 1 VMs have a server."),
        ("move", {}, "all 1 VMs have a server."),
    ],
)
def test_what_is_written_is_read_and_planned(control: ControlNode, wanted: str, more: dict[str, t.Any], words: str) -> None:
    code, output = init(control, init_wanted=wanted, **more)
    assert code == 0 and words in output and "changed=1" in output, output
    assert words in plan(control.folder / "home", control)
    if wanted == "control_plane":
        calls = {call["host"]: call["address"] for call in control.calls("setup")}
        # a connection of the play would inspect the control node instead
        assert calls == ADDRESSES


def test_a_second_run_keeps_what_was_edited(control: ControlNode) -> None:
    code, output = init(control, "--check", "--diff")
    assert code == 0 and "changed=1" in output and "+plugin: reduced.footprint.nodes" in output, output
    assert not (control.folder / "home").exists()
    assert init(control)[0] == 0
    code, output = init(control, "--diff")
    assert code == 0 and "changed=0" in output and "differs" not in output, output
    nodes = control.folder / "home/inventory/nodes.yml"
    nodes.write_text(edited := nodes.read_text("utf-8").replace("ram: 4", "ram: 6"), "utf-8")
    code, output = init(control, "--diff")
    assert code == 0 and "changed=0" in output and "-  ram: 6" in output and nodes.read_text("utf-8") == edited, output
    # the control node may have the inventory already
    code, output = init(control, "-i", str(nodes))
    assert code == 0 and "changed=0" in output, output


@pytest.mark.parametrize(
    ("answer", "changes", "words"),
    [
        ({"unreachable": True, "msg": "Task failed: Failed to connect to the host via ssh: No route to host"}, {}, "metal2 (192.0.2.12) does not answer"),
        ({"failed": True, "msg": "no sudo"}, {}, "metal2 (192.0.2.12) could not be inspected: no sudo."),
        ({}, {"init_addresses": "192.0.2.10-192.0.2.40"}, "init_addresses: contains 192.0.2.11, which is in use by metal1."),
        ({}, {"init_servers": ""}, "init_servers: is required."),
        ({}, {"init_wantd": "cloud"}, "init_wantd: the playbook init has no such variable. Did you mean init_wanted?"),
        ({}, {"init_wanted": "clouds"}, "value of init_wanted must be one of: vms, control_plane, cloud, move, got: clouds"),
    ],
)
def test_an_error_writes_nothing(control: ControlNode, answer: dict[str, t.Any], changes: dict[str, t.Any], words: str) -> None:
    if answer:
        control.answers["setup metal2"] = answer
    code, output = init(control, **changes)
    assert code != 0 and words in " ".join(output.split()), output
    assert not (control.folder / "home").exists()
