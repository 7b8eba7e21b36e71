# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pools on file systems of their own: refused when these are not mounted, before anything is made."""

from __future__ import annotations

import json
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_node import NodeRequest, prepare_node
from tests.support.fake_node import FakeBackend

REQUEST = NodeRequest(name="metal1", cluster="lab", roles=["virt"], vms=[], pool_path="/pool", hypervisors=["qemu"])


@pytest.fixture
def backend():
    return FakeBackend()


def run(backend, check_mode=False, **changes):
    return types.SimpleNamespace(**prepare_node(REQUEST._replace(**changes), check_mode=check_mode, backend=backend))


def test_a_pool_whose_file_system_is_not_mounted_is_refused_before_its_folder_is_made(backend):
    backend.mounts.points["/pool"] = "/pool"
    assert run(backend).actions == ["define pool default", "record"]
    assert backend.mounts.records == {"/pool": "/pool"}
    assert json.loads(backend.text)["capacity"]["pools"]["default"]["mount"] == "/pool"
    # after a start without it, libvirt could not start the pool, or has it on the empty folder
    backend.mounts.points.clear()
    for active in (True, False):
        backend.pools["default"] = ["/pool", active, True]
        for check_mode in (True, False):
            with pytest.raises(RefusedError, match="pool default at /pool is on the file system of /pool, which is not mounted"):
                run(backend, check_mode=check_mode)
    assert backend.pools["default"] == ["/pool", False, True]


def test_a_pool_leaves_its_file_system_on_purpose_once(backend):
    backend.mounts.records["/pool"] = "/pool"
    changes = {"pool_path": None, "pools": [{"name": "default", "path": "/pool", "mounted": False}]}
    foreseen = run(backend, check_mode=True, **changes)
    assert backend.mounts.records == {"/pool": "/pool"}
    real = run(backend, **changes)
    assert foreseen.actions == real.actions == ["define pool default", "remove mount record of pool default", "record"]
    assert backend.mounts.records == {"/pool": None}
    assert run(backend, **changes).actions == []


@pytest.mark.parametrize("records", [{}, {"/pool": "/pool"}])
def test_a_pool_that_must_be_mounted(backend, records):
    backend.mounts.records = records
    changes = {"pool_path": None, "pools": [{"name": "default", "path": "/pool", "mounted": True}]}
    with pytest.raises(RefusedError, match=r"pools\[0\].mounted: the pool default at /pool must be on a separate file system"):
        run(backend, **changes)
    assert backend.pools == {}
    backend.mounts.points["/pool"] = "/pool"
    assert "define pool default" in run(backend, **changes).actions
