# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A port, a name or a secret that is set for one role is also used by the roles that connect to its service."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

ADDRESS = {"load_balancer_virtual_address": "192.0.2.20"}


#: Role, shown expression of it, given variables, expected value.
CASES: list[tuple[str, str, dict[str, t.Any], str]] = [
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
]


@pytest.fixture(scope="module", name="output")
def fixture_output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of one run, with a server for each case."""
    control = ControlNode(tmp_path_factory.mktemp("control"))
    plays = []
    for number, (role, shown, given, _expected) in enumerate(CASES):
        control.more[f"case{number}"] = {}
        file = str(ROOT / "roles" / role / ("vars" if shown.startswith("__") else "defaults") / "main.yml")
        tasks = [{"ansible.builtin.include_vars": file}, {"ansible.builtin.debug": {"msg": f"found {{{{ {shown} }}}} here"}, "ignore_errors": True}]
        plays.append({"hosts": f"case{number}", "gather_facts": False, "vars": given, "tasks": tasks})
    (control.folder / "play.yml").write_text(yaml.safe_dump(plays), "utf-8")
    code, output = control.run(str(control.folder / "play.yml"))
    assert code == 0, output
    return output


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_setting_of_another_role_is_used(output: str, number: int) -> None:
    (shown,) = re.findall(rf'ok: \[case{number}\] => {{\n    "msg": "(.*)"\n}}', output)
    assert shown == f"found {CASES[number][3]} here"
