# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The virtual host of nova in RabbitMQ is not changed: the mapping of its cell, which is written once, and the compute servers use it as well."""

from __future__ import annotations

import base64
import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

SETTINGS = "\n[DEFAULT]\ntransport_url = rabbit://nova:pass%2Fword@192.0.2.11:5671,nova:pass%2Fword@192.0.2.12:5671/{}\n\n[database]\nconnection = x/y\n"
ABSENT = {"failed": True, "msg": "file not found"}


def checked(folder: pathlib.Path, role: str, answers: dict[str, t.Any], **variables: t.Any) -> tuple[int, str]:
    """Run the tasks that read and check the virtual host."""
    control = ControlNode(folder, "slurp")
    listed = yaml.safe_load((ROOT / f"roles/{role}/tasks/check.yml").read_text("utf-8"))
    tasks = [task for task in listed if "ansible.builtin.slurp" in task or "virtual host" in task["name"]]
    assert len(tasks) == 2
    tasks[0]["reduced.footprint.slurp"] = tasks[0].pop("ansible.builtin.slurp")
    control.answers = {f"slurp {host}": answer for host, answer in answers.items()}
    code, output = control.play(tasks, **variables)
    assert "pass%2F" not in output
    return code, " ".join(output.split())


def file(vhost: str) -> dict[str, str]:
    return {"content": base64.b64encode(SETTINGS.format(vhost).encode()).decode()}


@pytest.mark.parametrize(("found", "wanted", "good"), [(None, "other", True), ("nova", "nova", True), ("nova", "other", False), ("a.b", "a-b", False)])
def test_a_member_keeps_its_virtual_host(tmp_path: pathlib.Path, found: str | None, wanted: str, good: bool) -> None:
    answers = {"metal2": file(found) if found else ABSENT}
    code, output = checked(tmp_path, "nova", answers, nova_rabbitmq_vhost=wanted, __nova_secrets="/etc/x")
    assert (code == 0) == good, output
    assert good or f"nova_rabbitmq_vhost: nova on metal2 uses the virtual host {found}, which cannot be changed to {wanted}" in output


@pytest.mark.parametrize(("found", "wanted", "good"), [(None, "other", True), ("nova", "nova", True), ("nova", "other", False)])
@pytest.mark.parametrize("first", [ABSENT, {"unreachable": True, "msg": "No route to host"}])
def test_a_compute_server_uses_that_of_the_controllers(tmp_path: pathlib.Path, found: str | None, wanted: str, good: bool, first: dict[str, t.Any]) -> None:
    answers = {"metal1": first, "metal2": file(found) if found else ABSENT}
    code, output = checked(tmp_path, "compute", answers, compute_rabbitmq_vhost=wanted, __compute_plane={"nova": ["metal1", "metal2"]})
    assert (code == 0) == good, output
    assert good or f"the controllers use the virtual host {found}, so nova-compute would not be reached at {wanted}" in output
