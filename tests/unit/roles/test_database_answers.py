# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A database that does not answer has no certificate: its clients must not be changed to plain text for that reason."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode

SERVICE = {"openstack_service_definition": {"name": "glance", "database": {}}, "openstack_service_database_address": "192.0.2.20"}
GIVEN: dict[str, dict[str, t.Any]] = {
    "keystone": {"keystone_database_address": "192.0.2.20"},
    "openstack_service": {**SERVICE, "__openstack_service_name": "glance"},
}


@pytest.mark.parametrize("role", sorted(GIVEN))
@pytest.mark.parametrize(
    "seen, expected",
    [
        ({"running": True, "standalone": False, "certificate_names": ["192.0.2.20"]}, "TLS: True"),
        ({"running": False, "standalone": True, "certificate_names": []}, "TLS: False"),
        ({"running": False, "standalone": False, "certificate_names": []}, "The database on metal1 does not answer."),
    ],
    ids=["with TLS", "a single server", "stopped"],
)
def test_a_stopped_database_does_not_change_the_encryption(role: str, seen: dict[str, t.Any], expected: str, tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "galera_info")
    control.answers = {"galera_info metal1": {"galera": seen}}
    tasks = yaml.safe_load((ROOT / "roles" / role / "tasks/database.yml").read_text("utf-8"))
    tasks.append({"ansible.builtin.debug": {"msg": f"TLS: {{{{ __{role}_database_tls }}}}"}})
    given = {f"__{role}_first": "metal2", f"__{role}_database_host": "metal1", f"__{role}_database_ca": str(tmp_path / "missing")}
    code, output = control.play(tasks, **GIVEN[role], **given, **HERE)
    assert expected in " ".join(output.split()) and (code == 0) == expected.startswith("TLS"), output


@pytest.mark.parametrize("role", sorted(GIVEN))
@pytest.mark.parametrize("trusted, good", [(True, False), (False, True)], ids=["used TLS", "never used TLS"])
def test_another_address_does_not_end_the_encryption(role: str, trusted: bool, good: bool, tmp_path: pathlib.Path) -> None:
    # the virtual address was changed, and the database is not part of the run: its certificate has the previous one
    control = ControlNode(tmp_path, "galera_info")
    control.answers = {"galera_info metal1": {"galera": {"running": True, "standalone": False, "certificate_names": ["192.0.2.30"]}}}
    if trusted:
        (tmp_path / "ca.pem").write_text("PEM", "utf-8")
    tasks = yaml.safe_load((ROOT / "roles" / role / "tasks/database.yml").read_text("utf-8"))
    given = {f"__{role}_first": "metal2", f"__{role}_database_host": "metal1", f"__{role}_database_ca": str(tmp_path / "ca.pem")}
    code, output = control.play(tasks, **GIVEN[role], **given, **HERE)
    assert (code == 0) == good and (good or "but the certificate of metal1 does not name 192.0.2.20." in " ".join(output.split())), output
