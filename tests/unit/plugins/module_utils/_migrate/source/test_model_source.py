# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import Container, parse_containers, parse_quiesce, parse_services


@pytest.mark.parametrize(
    "given, units",
    [
        (["mariadb", "a.timer", "x@1", "x@1.service"][:3], ("mariadb.service", "a.timer", "x@1.service")),
        ("all", ("all",)),
        (["all"], ("all",)),
        ("mariadb", ("mariadb.service",)),
        (None, ()),
        ([], ()),
    ],
)
def test_services(given, units):
    assert parse_services(given) == units


@pytest.mark.parametrize(
    "given, path",
    [
        (["all", "mariadb"], "services"),
        (["a", "a.service"], "services"),
        (["a", ""], "services[1]"),
        (["a", "b; reboot"], "services[1]"),
        ([7], "services[0]"),
        ({"a": 1}, "services"),
        (["All"], "services[0]"),
        (["ssh"], "services[0]"),
        (["systemd-networkd.socket"], "services[0]"),
    ],
)
def test_bad_services(given, path):
    with pytest.raises(InputError) as caught:
        parse_services(given)
    assert caught.value.path == path and caught.value.hint


def test_containers():
    assert parse_containers([{"engine": "docker", "name": "web"}]) == (Container("docker", "web"),)
    assert parse_containers(None) == ()


@pytest.mark.parametrize(
    "given, path",
    [
        ("web", "containers"),
        (["web"], "containers[0]"),
        ([{"engine": "lxc", "name": "web"}], "containers[0].engine"),
        ([{"name": "web"}], "containers[0].engine"),
        ([{"engine": "docker", "name": "--all"}], "containers[0].name"),
        ([{"engine": "docker"}], "containers[0].name"),
        ([{"engine": "docker", "name": "web", "image": "x"}], "containers[0].image"),
        ([{"engine": "docker", "name": "web"}, {"engine": "docker", "name": "web"}], "containers[1]"),
    ],
)
def test_bad_containers(given, path):
    with pytest.raises(InputError) as caught:
        parse_containers(given)
    assert caught.value.path == path and caught.value.hint


def test_quiesce():
    assert parse_quiesce(None) == "stop_services"
    assert parse_quiesce("maintenance_boot") == "maintenance_boot"
    with pytest.raises(InputError):
        parse_quiesce("pray")
