# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import (
    NETWORK,
    POOL,
    WantedPool,
    made_uuid,
    parse_networks,
    parse_pools,
)

GIB = 1024**3


@pytest.mark.parametrize(
    "pools, default_path, expected",
    [
        ([], None, [WantedPool("default", None, where="pool")]),
        ([], "/pool", [WantedPool("default", "dir", "/pool", where="pool_path")]),
        (
            [{"name": "fast", "type": "logical", "source": "vg0", "reserve": 2}],
            "/pool",
            [WantedPool("default", "dir", "/pool", where="pool_path"), WantedPool("fast", "logical", None, "vg0", 2 * GIB, "pools[0]")],
        ),
        # as a module with suboptions hands them on
        (
            [{"name": "fast", "type": None, "path": None, "source": "vg0", "reserve": None}, {"name": "there"}],
            None,
            [WantedPool("default", None), WantedPool("fast", "logical", None, "vg0", None, "pools[0]"), WantedPool("there", None, where="pools[1]")],
        ),
        # a volume group of the pool's own name, and the default pool described by the list
        ([{"name": "default", "type": "logical"}], None, [WantedPool("default", "logical", None, "default", None, "pools[0]")]),
        ([{"name": "b", "path": "/b", "reserve": "0"}], None, [WantedPool("default", None), WantedPool("b", "dir", "/b", None, 0, "pools[0]")]),
        ([{"name": "b", "mounted": "yes"}], None, [WantedPool("default", None), WantedPool("b", None, where="pools[0]", mounted=True)]),
    ],
)
def test_pools(pools, default_path, expected):
    assert list(parse_pools(pools, "default", default_path)) == expected


@pytest.mark.parametrize(
    "pools, default_path, path, says",
    [
        ([], "pool", "pool_path", "absolute"),
        ("fast", None, "pools", "expected a list"),
        (["fast"], None, "pools[0]", "not a mapping|str"),
        ([{"path": "/p"}], None, "pools[0].name", "not a valid name"),
        ([{"name": "a", "size": 4}], None, "pools[0].size", "not a known key"),
        ([{"name": "a", "path": "p"}], None, "pools[0].path", "absolute"),
        ([{"name": "a", "type": "dir"}], None, "pools[0].path", "absolute"),
        ([{"name": "a", "type": "rbd"}], None, "pools[0].type", "not a supported pool type"),
        ([{"name": "a", "path": "/a", "source": "vg"}], None, "pools[0].source", "no volume group"),
        ([{"name": "a", "type": "logical", "path": "/a"}], None, "pools[0].path", "no folder"),
        ([{"name": "a", "source": "../../sda"}], None, "pools[0].source", "not a valid name of a volume group"),
        ([{"name": "a", "source": "-v"}], None, "pools[0].source", "not a valid name of a volume group"),
        ([{"name": "a", "reserve": "much"}], None, "pools[0].reserve", "not a size"),
        ([{"name": "a", "reserve": -1}], None, "pools[0].reserve", "negative"),
        ([{"name": "a", "mounted": "/a"}], None, "pools[0].mounted", "neither true nor false"),
        ([{"name": "a", "source": "vg", "mounted": True}], None, "pools[0].mounted", "not mounted"),
        ([{"name": "a"}, {"name": "a", "path": "/a"}], None, "pools[1].name", "already the name of"),
        ([{"name": "default", "path": "/a"}], "/pool", "pool_path", "also defined by"),
    ],
)
def test_bad_pools(pools, default_path, path, says):
    with pytest.raises(InputError, match=says) as caught:
        parse_pools(pools, "default", default_path)
    assert caught.value.path == path


def test_networks():
    found = parse_networks([{"bridge": "br-admin", "name": None}, {"name": "public", "bridge": "br-ext.7"}])
    assert [(one.name, one.bridge, one.where) for one in found] == [("br-admin", "br-admin", "networks[0]"), ("public", "br-ext.7", "networks[1]")]
    assert parse_networks(None) == ()


@pytest.mark.parametrize(
    "networks, path",
    [
        ({"bridge": "br"}, "networks"),
        (["br"], "networks[0]"),
        ([{}], "networks[0].bridge"),
        ([{"bridge": "a name of more than 15"}], "networks[0].bridge"),
        ([{"bridge": "br", "vlan": 4}], "networks[0].vlan"),
        ([{"bridge": "br", "name": "a/b"}], "networks[0].name"),
        ([{"bridge": "br"}, {"bridge": "br"}], "networks[1].name"),
    ],
)
def test_bad_networks(networks, path):
    with pytest.raises(InputError) as caught:
        parse_networks(networks)
    assert caught.value.path.startswith(path)


def test_made_uuid_is_stable():
    # with another value every existing pool and network would become unmanaged
    assert made_uuid(POOL, "default") == "a7362cde-df7a-516f-804d-b68478a5b8ea"
    assert len({made_uuid(kind, name) for kind in (POOL, NETWORK) for name in ("default", "other")}) == 4
