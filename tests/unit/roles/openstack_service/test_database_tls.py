# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services of a cloud use TLS with a database whose certificate names its address, unless the operator chose otherwise."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.support.control_node import HERE, ROOT, ControlNode


@pytest.mark.parametrize("role", ["glance", "horizon", "neutron", "nova", "placement"])
@pytest.mark.parametrize("given, expected", [(None, True), (False, False), (True, True)], ids=["unset", "false", "true"])
def test_tls_is_the_default(role: str, given: bool | None, expected: bool, tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "galera_info")
    control.answers = {"galera_info metal2": {"galera": {"running": True, "standalone": False, "certificate_names": ["192.0.2.20"]}}}
    # the description of the service comes as a variable of its role, which is templated as late as there
    show = {"ansible.builtin.template": {"src": "{{ source }}", "dest": "{{ source }}.done"}}
    (tmp_path / "show.j2").write_text("TLS: {{ __openstack_service_database_tls }}", "utf-8")
    role_tasks = {"name": "reduced.footprint.openstack_service", "tasks_from": "database", "public": True}
    tasks: list[t.Any] = [
        {"ansible.builtin.include_vars": str(ROOT / "roles" / role / "vars/main.yml")},
        {"ansible.builtin.include_role": role_tasks, "vars": {"openstack_service_definition": f"{{{{ __{role}_service }}}}"}},
        {**show, "vars": {"openstack_service_definition": f"{{{{ __{role}_service }}}}"}},
    ]
    variables = {
        "openstack_service_database_address": "192.0.2.20", "openstack_service_database_group": "virt", f"{role}_group": "virt",
        "source": str(tmp_path / "show.j2"), **HERE, **({} if given is None else {f"{role}_database_tls": given}),
    }  # fmt: skip
    code, output = control.play(tasks, "metal2", "-e", f"__openstack_service_database_ca={tmp_path}/missing", **variables)
    assert code == 0 and (tmp_path / "show.j2.done").read_text("utf-8") == f"TLS: {expected}", output
