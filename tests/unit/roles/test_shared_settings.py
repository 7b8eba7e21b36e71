# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A port, a name or a secret that is set for one role is also used by the roles that connect to its service."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.support.control_node import ROOT, ControlNode

ADDRESS = {"load_balancer_virtual_address": "192.0.2.20"}


@pytest.mark.parametrize(
    "role, shown, given, expected",
    [
        # with a wrong port of the health check no database would be usable, and no load balancer would hold its address
        ("load_balancer", "__load_balancer_mysql.check_port", {}, "9200"),
        ("load_balancer", "__load_balancer_mysql.check_port", {"galera_check_port": 9201}, "9201"),
        ("load_balancer", "__load_balancer_keystone.port", {"keystone_port": 5001}, "5001"),
        ("keystone", "keystone_memcached_port", {"memcached_port": 11212}, "11212"),
        ("compute", "compute_auth_url", ADDRESS, "https://192.0.2.20:5000/v3"),
        ("compute", "compute_auth_url", {**ADDRESS, "keystone_port": 5001}, "https://192.0.2.20:5001/v3"),
        ("compute", "compute_auth_url", {**ADDRESS, "keystone_public_name": "cloud.example.org"}, "https://cloud.example.org:5000/v3"),
        ("compute", "compute_auth_url", {**ADDRESS, "keystone_public_url": "https://id.example.org/v3"}, "https://id.example.org/v3"),
        ("compute", "compute_console_url", ADDRESS, "https://192.0.2.20:6080/vnc_lite.html"),
        ("compute", "compute_console_url", {**ADDRESS, "keystone_public_name": "cloud.example.org"}, "https://cloud.example.org:6080/vnc_lite.html"),
        # otherwise Nova refuses the requests of the agent
        ("ovn_chassis", "ovn_chassis_metadata_secret", {"nova_metadata_secret": "of-the-vault"}, "of-the-vault"),
        ("ovn_chassis", "ovn_chassis_metadata_url", {**ADDRESS, "keystone_public_name": ""}, "https://192.0.2.20:8775"),
        ("ovn_chassis", "ovn_chassis_metadata_url", {**ADDRESS, "openstack_service_public_name": "cloud.example.org"}, "https://cloud.example.org:8775"),
    ],
)
def test_the_setting_of_another_role_is_used(role: str, shown: str, given: dict[str, t.Any], expected: str, tmp_path: pathlib.Path) -> None:
    folder = "vars" if shown.startswith("__") else "defaults"
    file = str(ROOT / "roles" / role / folder / "main.yml")
    tasks = [{"ansible.builtin.include_vars": file}, {"ansible.builtin.debug": {"msg": f"found {{{{ {shown} }}}} here"}}]
    code, output = ControlNode(tmp_path).play(tasks, **given)
    assert code == 0 and f"found {expected} here" in output, output
