# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Backends of volumes: what each needs, and invalid ones with their path and message, which never contains a key."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.filter.cloud_decision import volumes
from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_backends
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

KEY = "AQCpoAtrEHRANhAAuGI4MvvfN4EHzAP0qJYbCw=="
CEPH = {"type": "rbd", "monitors": ["192.0.2.31", "2001:db8::31"], "pool": "volumes", "user": "cinder", "key": KEY}


def test_ceph() -> None:
    (found,) = model_backends.parse({"ceph": {**CEPH, "settings": {"rbd_max_clone_depth": 3, "rbd_user": "other"}}}, "shop")
    assert found.shared and found.client_packages == ("qemu-block-extra",)
    wanted = {"volume_backend_name": "ceph", "backend_host": "shared", "rbd_pool": "volumes", "rbd_max_clone_depth": 3, "rbd_user": "other"}
    assert wanted.items() <= found.settings.items()
    configuration, keyring = found.files
    assert "mon_host = 192.0.2.31,[2001:db8::31]\n" in configuration["content"] and not configuration["secret"]
    assert keyring["content"] == f"[client.cinder]\nkey = {KEY}\n" and keyring["secret"]
    assert found.settings["rbd_ceph_conf"] == configuration["path"] and f"keyring = {keyring['path']}\n" in configuration["content"]
    assert KEY not in repr(found.settings) and found.secret["value"] == KEY


def test_secrets_of_libvirt_are_the_same_in_each_run_and_differ() -> None:
    def uuids(environment: str) -> list[str]:
        return [one.secret["uuid"] for one in model_backends.parse({"a": CEPH, "b": CEPH}, environment)]

    assert uuids("shop") == uuids("shop")
    assert len({*uuids("shop"), *uuids("other")}) == 4


BAD: list[tuple[t.Any, str]] = [
    ([CEPH], "cinder_volume_backends: expected a mapping, got a list."),
    ({"Ceph": CEPH}, "cinder_volume_backends.Ceph: 'Ceph' is not a valid name of a backend."),
    ({"database": CEPH}, "cinder_volume_backends.database: 'database' is not a valid name of a backend."),
    ({"oslo_messaging_rabbit": CEPH}, "cinder_volume_backends.oslo_messaging_rabbit: 'oslo_messaging_rabbit' is not a valid name of a backend."),
    ({"a\n[b]": CEPH}, "cinder_volume_backends.a\n[b]: 'a\\n[b]' is not a valid name of a backend."),
    ({"ceph": "rbd"}, "cinder_volume_backends.ceph: expected a mapping, got text."),
    ({"ceph": {"pool": "volumes"}}, "cinder_volume_backends.ceph.type: None is not supported. Use one of"),
    ({"ceph": {**CEPH, "pol": "x"}}, "cinder_volume_backends.ceph.pol: is not a known key. Did you mean pool?"),
    ({"ceph": {**CEPH, "pool": None}}, "cinder_volume_backends.ceph.pool: is missing."),
    ({"ceph": {**CEPH, "pool": "a b"}}, "cinder_volume_backends.ceph.pool: 'a b' is not valid here."),
    ({"ceph": {**CEPH, "user": "x\ny"}}, "cinder_volume_backends.ceph.user: 'x\\ny' is not valid here."),
    ({"ceph": {**CEPH, "user": "client.cinder"}}, "cinder_volume_backends.ceph.user: 'client.cinder' is not valid here."),
    ({"ceph": {**CEPH, "monitors": "192.0.2.31"}}, "cinder_volume_backends.ceph.monitors: is not a list of addresses."),
    ({"ceph": {**CEPH, "monitors": ["192.0.2.31", "mon"]}}, "cinder_volume_backends.ceph.monitors[1]: 'mon' is not an address."),
    ({"ceph": {**CEPH, "key": f"{KEY}\n"}}, "cinder_volume_backends.ceph.key: is not a key of Ceph."),
    ({"ceph": {**CEPH, "key": None}}, "cinder_volume_backends.ceph.key: is not a key of Ceph."),
    ({"ceph": {**CEPH, "settings": [1]}}, "cinder_volume_backends.ceph.settings: expected a mapping, got a list."),
    ({"ceph": {**CEPH, "settings": {"backend_host": "x"}}}, "cinder_volume_backends.ceph.settings.backend_host: is set by the role."),
]


@pytest.mark.parametrize("value, message", BAD)
def test_invalid_backends(value: t.Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        model_backends.parse(value, "shop")
    assert str(error.value).startswith(message)
    assert error.value.hint and KEY not in str(error.value)


def test_filter_returns_plain_values() -> None:
    (found,) = volumes({"ceph": CEPH}, "shop")
    assert found["name"] == "ceph" and isinstance(found["files"], list) and isinstance(found["secret"], dict)
