# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of a cluster are restarted one by one, and none after one that failed."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode


def test_no_member_of_rabbitmq_is_restarted_after_one_that_failed(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "rabbitmq_info", "rabbitmq_member")
    nodes = ["rabbit@metal1", "rabbit@metal2"]
    look = {"rabbitmq": {"running": True, "members": nodes, "contents": [], "cookie": "same", "ready": True}}
    for host in ("metal1", "metal2"):
        control.answers[f"rabbitmq_member {host}"] = {"failed": True, "msg": "the broker is not running after 600 s"}
        control.answers[f"rabbitmq_member {host} check"] = {"changed": True, "actions": ["restart"], **look}
    role = {"ansible.builtin.include_role": {"name": "reduced.footprint.rabbitmq", "tasks_from": "cluster"}}
    given = {
        "rabbitmq_group": "virt", "rabbitmq_erlang_cookie": "x" * 20, **HERE,
    }  # fmt: skip
    code, output = control.play([{"ansible.builtin.set_fact": {"__rabbitmq_look": look}}, role], "virt", **given)
    assert code != 0 and "the broker is not running after 600 s" in output
    assert [call["host"] for call in control.calls("rabbitmq_member") if not call["check"]] == ["metal1"], output


@pytest.mark.parametrize(
    "role, path, included", [("openstack_service", "apply.yml", "restart.yml"), ("keystone", "apply.yml", "renew.yml")], ids=["openstack_service", "keystone"]
)
def test_no_member_of_an_api_is_restarted_after_one_that_failed(role: str, path: str, included: str, tmp_path: pathlib.Path) -> None:
    # also in a play of the operator, without any_errors_fatal
    turn = next(task for task in yaml.safe_load((ROOT / "roles" / role / "tasks" / path).read_text("utf-8")) if task["name"].endswith("one by one"))
    (tmp_path / included).write_text(f"[{{command: {{argv: [sh, -c, 'echo {{{{ inventory_hostname }}}} >> {tmp_path}/restarted; exit 1']}}}}]", "utf-8")
    given = {
        f"__{role}_members": ["metal1", "metal2"], f"__{role}_configured": {"needs": {"api.service": "restart"}}, f"__{role}_units": [],
        f"__{role}_unit": "api.service", **HERE,
    }  # fmt: skip
    code, output = ControlNode(tmp_path).play([turn], "virt", **given)
    # the order of the members varies
    assert code != 0 and (tmp_path / "restarted").read_text("utf-8").splitlines() in (["metal1"], ["metal2"]), output


@pytest.mark.parametrize("path", sorted(ROOT.glob("roles/*/tasks/*.yml")), ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_no_member_is_changed_with_throttle(path: pathlib.Path) -> None:
    # its tasks are started on all hosts, whether or not an earlier one failed; a restart is included for one host at a time
    tasks = [] if path.stem == "restart" else yaml.safe_load(path.read_text("utf-8"))
    assert not [task["name"] for task in tasks if "throttle" in task and any(key.endswith("_member") for key in task)]
