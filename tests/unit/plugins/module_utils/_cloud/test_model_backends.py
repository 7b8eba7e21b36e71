# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Backends of volumes: what each needs, and invalid ones with their path and message, which never contains a key."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.filter.cloud_decision import volumes, volumes_away
from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_backends
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

KEY = "AQCpoAtrEHRANhAAuGI4MvvfN4EHzAP0qJYbCw=="
SHOP = model_backends.Site("shop", ["metal1", "metal2"])
LVM = {"type": "lvm", "volume_group": "cinder-volumes"}
CEPH = {"type": "rbd", "monitors": ["192.0.2.31", "2001:db8::31"], "pool": "volumes", "user": "cinder", "key": KEY}


def test_ceph() -> None:
    (found,) = model_backends.parse({"ceph": {**CEPH, "settings": {"rbd_max_clone_depth": 3, "rbd_user": "other"}}}, SHOP)
    assert found.shared and found.client_packages == ("qemu-block-extra",)
    wanted = {"volume_backend_name": "ceph", "backend_host": "shared", "rbd_pool": "volumes", "rbd_max_clone_depth": 3, "rbd_user": "other"}
    assert wanted.items() <= found.settings.items()
    configuration, keyring = found.files
    assert "mon_host = 192.0.2.31,[2001:db8::31]\n" in configuration["content"] and not configuration["secret"]
    assert keyring["content"] == f"[client.cinder]\nkey = {KEY}\n" and keyring["secret"]
    assert found.settings["rbd_ceph_conf"] == configuration["path"] and f"keyring = {keyring['path']}\n" in configuration["content"]
    assert KEY not in repr(found.settings) and found.secret["value"] == KEY


def test_volume_groups_of_servers() -> None:
    every, one = model_backends.parse({"all": LVM, "fast": {**LVM, "volume_group": "fast", "servers": ["metal2"]}}, SHOP)
    assert (every.servers, one.servers) == (("metal1", "metal2"), ("metal2",)) and not every.shared and not one.shared
    assert "backend_host" not in every.settings and every.client_packages == ("lvm2", "open-iscsi")
    wanted = {"volume_group": "fast", "volume_backend_name": "fast", "lvm_type": "thin", "target_helper": "lioadm", "use_chap_auth": True}
    assert wanted.items() <= one.settings.items()


@pytest.mark.parametrize("server, names", [("metal1", "all"), ("metal2", "all, fast"), ("metal3", "")])
def test_servers_whose_loss_concerns_volumes(server: str, names: str) -> None:
    backends = {"ceph": CEPH, "all": LVM, "fast": {**LVM, "volume_group": "fast", "servers": ["metal2"]}}
    found = volumes_away(backends, server, ["metal1", "metal2"])
    assert found == ([f"volumes of {names} are on the disks of {server}: instances on other servers wait for them while it is off"] if names else [])


def test_secrets_of_libvirt_are_the_same_in_each_run_and_differ() -> None:
    def uuids(environment: str) -> list[str]:
        return [one.secret["uuid"] for one in model_backends.parse({"a": CEPH, "b": CEPH}, model_backends.Site(environment))]

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
    ({"lvm": {"type": "lvm"}}, "cinder_volume_backends.lvm.volume_group: is missing."),
    ({"lvm": {**LVM, "volume_group": "-f"}}, "cinder_volume_backends.lvm.volume_group: '-f' is not valid here."),
    ({"lvm": {**LVM, "volume_group": "vg0/root"}}, "cinder_volume_backends.lvm.volume_group: 'vg0/root' is not valid here."),
    ({"lvm": {**LVM, "servers": "metal1"}}, "cinder_volume_backends.lvm.servers: is not a list of servers."),
    ({"lvm": {**LVM, "servers": []}}, "cinder_volume_backends.lvm.servers: is not a list of servers."),
    ({"lvm": {**LVM, "servers": ["metal2", "metal"]}}, "cinder_volume_backends.lvm.servers[1]: 'metal' is not a server of the group compute."),
    ({"a": LVM, "b": {**LVM, "servers": ["metal2"]}}, "cinder_volume_backends.b.volume_group: cinder-volumes on metal2 is the volume group of a."),
    ({"lvm": {**LVM, "pool": "volumes"}}, "cinder_volume_backends.lvm.pool: is not a known key."),
    ({"ceph": {**CEPH, "settings": [1]}}, "cinder_volume_backends.ceph.settings: expected a mapping, got a list."),
    ({"ceph": {**CEPH, "settings": {"backend_host": "x"}}}, "cinder_volume_backends.ceph.settings.backend_host: is set by the role."),
]


@pytest.mark.parametrize("value, message", BAD)
def test_invalid_backends(value: t.Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        model_backends.parse(value, SHOP)
    assert str(error.value).startswith(message)
    assert error.value.hint and KEY not in str(error.value)


@pytest.mark.parametrize("value", [None, "x", {"a": None}, {"a": {"typ": "lvm"}}, {"a": {"type": ["lvm"]}}, {"a": {**CEPH, "key": "{{ later }}"}, "b": LVM}])
def test_keys_of_a_type_that_is_not_known_yet_are_not_checked(value: t.Any) -> None:
    assert model_backends.unknown_keys(value) == []


def test_filter_returns_plain_values() -> None:
    (found,) = volumes({"ceph": CEPH}, "shop")
    assert found["name"] == "ceph" and isinstance(found["files"], list) and isinstance(found["secret"], dict)
