# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.model_settings import Pages, Unit, parse_settings


def test_a_whole_wish_is_taken_as_it_is_meant():
    settings = parse_settings(
        {
            "qemu_conf": {"vnc_listen": "127.0.0.1", "dynamic_ownership": True, "cgroup_controllers": [], "max_processes": 5},
            "guests_conf": {"ON_SHUTDOWN": "shutdown", "SHUTDOWN_TIMEOUT": 120},
            "sysctl": {"fs.inotify.max_user_instances": "1024"},
            "huge_pages": [{"size": "2", "count": 5}, {"size": "1GiB", "count": 0}],
            "users": ["ann", "ann", "bob"],
            "pool_paths": ["/srv//guests/"],
            "nested": False,
        }
    )
    assert settings.qemu_conf == {"vnc_listen": "127.0.0.1", "dynamic_ownership": 1, "cgroup_controllers": [], "max_processes": 5}
    assert settings.guests_conf == {"ON_SHUTDOWN": "shutdown", "SHUTDOWN_TIMEOUT": "120"}
    assert settings.sysctl == {"fs.inotify.max_user_instances": 1024}
    assert settings.huge_pages == (Pages(2048, 5, "huge_pages[0]"), Pages(1024**2, 0, "huge_pages[1]"))
    assert (settings.users, settings.pool_paths, settings.nested, settings.mask_broken_kvm) == (("ann", "bob"), ("/srv/guests",), False, False)


def test_nothing_asked_is_nothing_wanted():
    settings = parse_settings({"qemu_conf": None})
    assert (settings.qemu_conf, settings.huge_pages, settings.nested) == ({}, (), None)


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"qemu_conf": {"vnc listen": "x"}}, "qemu_conf"),
        ({"qemu_conf": {1: "x"}}, "qemu_conf"),
        ({"qemu_conf": {"user": 1.5}}, "qemu_conf.user"),
        ({"qemu_conf": {"user": {"a": 1}}}, "qemu_conf.user"),
        ({"qemu_conf": {"user": 'a"\nb'}}, "qemu_conf.user"),
        ({"qemu_conf": {"user": "a\nstdio_handler = 'file'"}}, "qemu_conf.user"),
        ({"qemu_conf": {"cgroup_device_acl": ["/dev/null", ["x"]]}}, "qemu_conf.cgroup_device_acl[1]"),
        ({"guests_conf": {"on_boot": "start"}}, "guests_conf"),
        ({"guests_conf": {"ON_BOOT": "a\nb"}}, "guests_conf.ON_BOOT"),
        ({"guests_conf": {"ON_BOOT": None}}, "guests_conf.ON_BOOT"),
        ({"guests_file": "default/libvirt-guests"}, "guests_file"),
        ({"sysctl": {"fs.inotify.max_user_instances": "many"}}, "sysctl.fs.inotify.max_user_instances"),
        ({"sysctl": {"fs.inotify.max_user_instances": -1}}, "sysctl.fs.inotify.max_user_instances"),
        ({"sysctl": {"fs.inotify.max_user_instances": True}}, "sysctl.fs.inotify.max_user_instances"),
        ({"sysctl": {"fs..etc": 1}}, "sysctl"),
        ({"sysctl": {"fs/../../etc/passwd": 1}}, "sysctl"),
        ({"huge_pages": [{"size": "2 MiB", "count": 1}, {"size": "2048 KiB", "count": 1}]}, "huge_pages[1].size"),
        ({"huge_pages": [{"size": "2 GB", "count": 1}, {"size": "100 B", "count": 1}]}, "huge_pages[1].size"),
        ({"huge_pages": [{"size": "huge", "count": 1}]}, "huge_pages[0].size"),
        ({"huge_pages": [{"size": "2 MiB", "count": -1}]}, "huge_pages[0].count"),
        ({"users": ["ann", "-rf"]}, "users[1]"),
        ({"pool_paths": ["/srv", "guests"]}, "pool_paths[1]"),
        ({"pool_paths": ["/"]}, "pool_paths[0]"),
        ({"pool_paths": ["/srv\n/x"]}, "pool_paths[0]"),
    ],
)
def test_a_bad_value_is_named_by_its_path(raw, path):
    with pytest.raises(InputError) as error:
        parse_settings(raw)
    assert error.value.path == path
    assert error.value.hint


@pytest.mark.parametrize(
    ("load", "state", "installed", "enabled"),
    [
        ("loaded", "enabled", True, True),
        ("loaded", "static", True, True),
        ("loaded", "disabled", True, False),
        ("masked", "masked", True, False),
        ("not-found", "", False, False),
    ],
)
def test_unit_installed_and_enabled(load, state, installed, enabled):
    unit = Unit("libvirtd.service", load=load, file_state=state)
    assert (unit.installed, unit.is_enabled) == (installed, enabled)
