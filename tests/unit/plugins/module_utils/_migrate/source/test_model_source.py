# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import (
    Container,
    check_request,
    parse_containers,
    parse_quiesce,
    parse_services,
)


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


ADMIN = {"interface": "br-ex", "prefix": 24, "address": "192.0.2.10", "temporary_address": "192.0.2.11", "cards": ["eth0.10", "enp1s0"]}
REQUEST = {
    "services": ["mariadb.service", "system-getty.slice"],
    "containers": [{"engine": "podman", "name": "web"}],
    "quiesce": "stop_services",
    "lease": 120,
    "admin": ADMIN,
}


@pytest.mark.parametrize("given", [{}, REQUEST, {"lease": 0.5}, {"address": "2001:db8::1"}, {"services": ["all"]}, {"address": None}])
def test_requests_of_a_virt_host(given):
    check_request(given)


@pytest.mark.parametrize(
    "given, path",
    [
        ({"services": ["../../../etc/evil"]}, "services[0]"),
        ({"containers": [{"engine": "/any/program", "name": "x"}]}, "containers[0].engine"),
        ({"quiesce": "power_off"}, "quiesce"),
        ({"lease": 1e9}, "lease"),
        ({"lease": float("nan")}, "lease"),
        ({"lease": True}, "lease"),
        ({"address": "ACTION==\"add\", "}, "address"),
        ({"admin": "192.0.2.10"}, "admin"),
        ({"admin": {**ADMIN, "address": "fe80::1%x\nRUN"}}, "admin.address"),
        ({"admin": {**ADMIN, "temporary_address": "192.0.2.99/24\n    up touch /root/x"}}, "admin.temporary_address"),
        ({"admin": {**ADMIN, "prefix": "24"}}, "admin.prefix"),
        ({"admin": {**ADMIN, "prefix": 129}}, "admin.prefix"),
        ({"admin": {**ADMIN, "interface": "../x"}}, "admin.interface"),
        ({"admin": {**ADMIN, "interface": None}}, "admin.interface"),
        ({"admin": {**ADMIN, "cards": ["eth0", "-f"]}}, "admin.cards[1]"),
        ({"admin": {**ADMIN, "cards": "eth0"}}, "admin.cards"),
    ],
)
def test_values_that_must_not_reach_files_and_commands(given, path):
    with pytest.raises(InputError) as caught:
        check_request({**REQUEST, **given})
    assert caught.value.path == path
