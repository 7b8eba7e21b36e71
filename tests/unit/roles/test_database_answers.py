# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A database that does not answer has no certificate: its clients must not be changed to plain text for that reason."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.support.control_node import HERE, ControlNode

GIVEN: dict[str, dict[str, t.Any]] = {
    "keystone": {"keystone_database_address": "192.0.2.20", "keystone_database_group": "virt", "keystone_group": "virt"},
    "openstack_service": {
        "openstack_service_definition": {"name": "glance", "user": "glance", "group": "virt", "database": {}},
        "openstack_service_database_address": "192.0.2.20",
        "openstack_service_database_group": "virt",
    },
}


def decided(role: str, folder: pathlib.Path, seen: dict[str, t.Any]) -> tuple[int, str]:
    """Run the decision about TLS on metal2; returns the exit code and output.

    :arg seen: what its database answers.
    """
    control = ControlNode(folder, "galera_info")
    control.answers = {"galera_info metal2": {"galera": seen}}
    tasks: list[t.Any] = [{"ansible.builtin.include_role": {"name": f"reduced.footprint.{role}", "tasks_from": "database", "public": True}}]
    tasks.append({"ansible.builtin.debug": {"msg": f"TLS: {{{{ __{role}_database_tls }}}}"}})
    code, output = control.play(tasks, "metal2", "-e", f"__openstack_service_database_ca={folder}/ca.pem", **GIVEN[role], **HERE)
    return code, " ".join(output.split())


@pytest.mark.parametrize("role", sorted(GIVEN))
@pytest.mark.parametrize(
    "seen, expected",
    [
        ({"running": True, "standalone": False, "certificate_names": ["192.0.2.20"]}, "TLS: True"),
        ({"running": False, "standalone": True, "certificate_names": []}, "TLS: False"),
        ({"running": False, "standalone": False, "certificate_names": []}, "The database on metal2 does not answer."),
    ],
    ids=["with TLS", "a single server", "stopped"],
)
def test_a_stopped_database_does_not_change_the_encryption(role: str, seen: dict[str, t.Any], expected: str, tmp_path: pathlib.Path) -> None:
    code, output = decided(role, tmp_path, seen)
    assert expected in output and (code == 0) == expected.startswith("TLS"), output


@pytest.mark.parametrize("role", sorted(GIVEN))
@pytest.mark.parametrize("trusted, good", [(True, False), (False, True)], ids=["used TLS", "never used TLS"])
def test_another_address_does_not_end_the_encryption(role: str, trusted: bool, good: bool, tmp_path: pathlib.Path) -> None:
    # the virtual address was changed, and the database is not part of the run: its certificate has the previous one
    if trusted:
        (tmp_path / "ca.pem").write_text("PEM", "utf-8")
    code, output = decided(role, tmp_path, {"running": True, "standalone": False, "certificate_names": ["192.0.2.30"]})
    assert (code == 0) == good and (good or "but the certificate of metal2 does not name 192.0.2.20." in output), output
