# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings that cannot be written are refused by the check of a service, before anything is changed."""

from __future__ import annotations

import pathlib

import yaml

from tests.support.control_node import ROOT, ControlNode


def test_a_setting_that_cannot_be_written_is_named_and_passwords_are_not_shown(tmp_path: pathlib.Path) -> None:
    tasks = yaml.safe_load((ROOT / "roles/openstack_service/tasks/check.yml").read_text("utf-8"))
    files = [
        {"path": "/etc/nova/secrets.conf", "secret": True, "variable": "passwords of nova", "settings": {"placement": {"password": "geheim"}}},
        {"path": "/etc/nova/ca.pem", "content": "x"},
        {"path": "/etc/nova/nova.conf", "settings": {"DEFAULT": {"cpu_allocation_ratio": {"value": 4}}}},
    ]
    given = {"openstack_service_definition": {"files": files}, "__openstack_service_name": "nova"}
    check = [task for task in tasks if task["name"] == "Check the settings of the configuration files"]
    code, output = ControlNode(tmp_path).play(check, **given)
    assert code != 0 and "nova_settings.DEFAULT.cpu_allocation_ratio: expected text, a number or a boolean, got a mapping" in output, output
    assert "geheim" not in output
