# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nova-compute refuses its first start on a server with VMs, unless Nova knows the service: those of the footprint are no reason, instances are."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.support.control_node import HERE, ROOT, ControlNode

SCRIPT = ROOT / "roles/compute/files/register_service.py"
MASTER = {"id": "master", "instance": None}
INSTANCE = {"id": "instance-00000001", "instance": {"name": "web", "project": "demo"}}
DOWN = {"ansible_host": "127.0.0.1", "ansible_port": 1}


def registered(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, vms: list[t.Any], script: str = "echo registered", first: t.Mapping[str, t.Any] = HERE
) -> tuple[int, str, str]:
    """Register metal2 by metal1 or, after it, itself; returns the exit code and output of the run, and the arguments and input of each command."""
    control = ControlNode(folder, "vm_info")
    control.answers = {"vm_info metal2": {"changed": False, "vms": vms}}
    control.more = {"metal1": first, "metal2": HERE}
    control.program(monkeypatch, "runuser", f'echo "$@" >> {folder}/ran\ncat >> {folder}/ran\n{script}')
    role = {"ansible.builtin.include_role": {"name": "reduced.footprint.compute", "tasks_from": "register"}}
    code, output = control.play([role], "metal2", "-e", "nova_group=virt")
    return code, output, (folder / "ran").read_text("utf-8") if (folder / "ran").exists() else ""


def test_a_server_with_vms_of_the_footprint_is_registered(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, ran = registered(tmp_path, monkeypatch, [MASTER])
    assert code == 0 and "changed=1" in output, output
    assert ran.strip() == f"-u nova -- python3 - metal2\n{SCRIPT.read_text('utf-8').strip()}"


def test_a_server_with_instances_is_left_to_nova(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, ran = registered(tmp_path, monkeypatch, [MASTER, INSTANCE])
    assert code == 0 and "changed=0" in output and not ran, output


def test_another_controller_registers_it_while_the_first_one_is_down(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, ran = registered(tmp_path, monkeypatch, [], first=DOWN)
    assert code == 0 and "changed: [metal2] => (item=metal2)" in output and ran.count("python3 - metal2") == 1, output
