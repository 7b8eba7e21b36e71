# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that need not answer does not end a run.

In a play with ``any_errors_fatal``, ``ignore_unreachable`` alone has no effect: Ansible ends the play for all hosts, and its recap shows no failure.
"""

from __future__ import annotations

import json
import pathlib
import sys
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

FILES = sorted([*ROOT.glob("playbooks/*.yml"), *ROOT.glob("playbooks/tasks/*.yml"), *ROOT.glob("roles/*/tasks/*.yml")])
LISTS = ("block", "rescue", "always", "pre_tasks", "tasks", "post_tasks")


def ending(entries: t.Any, fatal: bool) -> t.Iterator[str]:
    """Return the names of tasks that ignore unreachable hosts and end the play nevertheless.

    :arg fatal: ``any_errors_fatal`` of the play or block; the plays that include a file of tasks may have set it.
    """
    for entry in entries or ():
        own = bool(entry.get("any_errors_fatal", fatal and "hosts" not in entry))
        if own and entry.get("ignore_unreachable") is True:
            yield entry["name"]
        for name in LISTS:
            yield from ending(entry.get(name), own)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_host_that_need_not_answer_does_not_end_the_play(path: pathlib.Path) -> None:
    assert not list(ending(yaml.safe_load(path.read_text("utf-8")), True))


def test_a_load_balancer_outside_the_run_may_be_down(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "virtual_address_info")
    control.answers = {"virtual_address_info metal1": {"unreachable": True, "msg": "No route to host"}}
    (asking,) = [task for task in yaml.safe_load((ROOT / "roles/load_balancer/tasks/check.yml").read_text("utf-8")) if "delegate_to" in task]
    tasks = [asking, {"ansible.builtin.debug": {"msg": "the play continues"}}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{"hosts": "metal2", "gather_facts": False, "any_errors_fatal": True, "tasks": tasks}]), "utf-8")
    given = {
        "__load_balancer_members": ["metal1", "metal2"], "__load_balancer_addresses": ["192.0.2.11", "192.0.2.12"], "__load_balancer_wanted": [],
        "ansible_python_interpreter": sys.executable,
    }  # fmt: skip
    code, output = control.run(str(tmp_path / "play.yml"), "-e", json.dumps(given))
    assert code == 0 and "the play continues" in output, output


def test_a_compute_server_that_is_off_does_not_end_the_others(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path)
    gather = yaml.safe_load((ROOT / "playbooks/tasks/cloud_servers.yml").read_text("utf-8"))
    tasks = [*gather, {"ansible.builtin.debug": {"msg": "{{ inventory_hostname }} has UEFI: {{ __cloud_uefi | default('unknown') }}"}}]
    play = {"hosts": "metal1,metal2", "gather_facts": False, "ignore_unreachable": True, "tasks": tasks}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]), "utf-8")
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/metal1.yml").write_text("ansible_connection: local\n", "utf-8")
    silent = {"ansible_host": "127.0.0.1", "ansible_port": 1}
    code, output = control.run(str(tmp_path / "play.yml"), "-e", json.dumps({"ansible_python_interpreter": sys.executable}), **silent)
    assert code == 0 and "metal2 has UEFI: unknown" in output and "metal1 has UEFI: unknown" not in output, output
