# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services of a cloud use TLS with a database whose certificate names its address, unless the operator chose otherwise."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode


@pytest.mark.parametrize("role", ["glance", "horizon", "neutron", "nova", "placement"])
@pytest.mark.parametrize("given, expected", [(None, True), (False, False), (True, True)], ids=["unset", "false", "true"])
def test_tls_is_the_default(role: str, given: bool | None, expected: bool, tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "galera_info")
    control.answers = {"galera_info metal1": {"galera": {"running": True, "standalone": False, "certificate_names": ["192.0.2.20"]}}}
    # the description of the service comes as a variable of its role, which is templated as late as there
    tasks: list[dict[str, t.Any]] = [
        {"ansible.builtin.include_vars": str(ROOT / "roles" / role / "vars/main.yml")},
        {
            "ansible.builtin.include_tasks": "database.yml",
            "vars": {"openstack_service_definition": f"{{{{ __{role}_service }}}}", "__openstack_service_first": "metal2"},
        },
        {"ansible.builtin.debug": {"msg": "TLS: {{ __openstack_service_database_tls }}"}},
    ]
    (tmp_path / "database.yml").write_text((ROOT / "roles/openstack_service/tasks/database.yml").read_text("utf-8"), "utf-8")
    variables = {
        "openstack_service_database_address": "192.0.2.20", "__openstack_service_database_host": "metal1", "__openstack_service_name": role,
        "__openstack_service_database_ca": str(tmp_path / "missing"), **HERE,
        **({} if given is None else {f"{role}_database_tls": given}),
    }  # fmt: skip
    code, output = control.play(yaml.safe_load(yaml.safe_dump(tasks)), **variables)
    assert code == 0 and f"TLS: {expected}" in output, output
