# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The start of one API ends its own drain only: the other APIs of the service are restarted after it."""

from __future__ import annotations

import os
import pathlib
import re
import typing as t

import jinja2
import pytest
import yaml

ROLE = pathlib.Path(__file__).resolve().parents[4] / "roles" / "openstack_service"
VARS = yaml.safe_load((ROLE / "vars" / "main.yml").read_text("utf-8"))


def removed(unit: dict[str, t.Any]) -> list[str]:
    """The files that the start of a unit removes."""
    templates = jinja2.Environment(loader=jinja2.FileSystemLoader(ROLE / "templates"), trim_blocks=True, undefined=jinja2.StrictUndefined, autoescape=False)
    templates.filters["splitext"] = os.path.splitext
    names = {"__openstack_service_name": "nova", "__openstack_service_user": "nova", "__openstack_service_drain": VARS["__openstack_service_drain"]}
    text = templates.get_template("unit.conf.j2").render(unit=unit, ready="/etc/nova/ready", command="/usr/bin/true", ansible_managed="Managed", **names)
    return re.findall(r"^ExecStartPre=\S+rm -f (\S+)$", text, re.MULTILINE)


def test_each_api_has_a_drain_file_of_its_own() -> None:
    api, metadata = (removed({"name": f"{name}.service", "port": 1, "program": "/usr/bin/true"}) for name in ("nova-api", "nova-api-metadata"))
    assert len(api) == len(metadata) == 1 and api != metadata


@pytest.mark.parametrize("unit", [{"name": "nova-conductor.service"}, {"name": "nova-novncproxy.service", "port": 6080}])
def test_a_unit_without_a_health_check_of_its_own_has_none(unit: dict[str, t.Any]) -> None:
    assert removed(unit) == []
