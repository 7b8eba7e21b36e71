# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the role expects its service; tests/metal runs it."""

from __future__ import annotations

import pathlib

import jinja2
import pytest
import yaml

ROLE = pathlib.Path(__file__).resolve().parents[4] / "roles/redfish_emulator"


@pytest.mark.parametrize(("address", "url"), [("192.0.2.11", "https://192.0.2.11:8443/redfish/v1/"), ("2001:db8::1", "https://[2001:db8::1]:8443/redfish/v1/")])
def test_the_service_answers_at_either_kind_of_address(address: str, url: str) -> None:
    values = yaml.safe_load((ROLE / "vars/main.yml").read_text("utf-8"))
    place = jinja2.Template(values["__redfish_emulator_place"]).render(__redfish_emulator_address=address)
    assert jinja2.Template(values["__redfish_emulator_url"]).render(__redfish_emulator_place=place, redfish_emulator_port=8443) == url
    tasks = {task["name"]: task for task in yaml.safe_load((ROLE / "tasks/present.yml").read_text("utf-8"))}
    assert tasks["Wait until the service answers"]["ansible.builtin.uri"]["url"] == "{{ __redfish_emulator_url }}"
