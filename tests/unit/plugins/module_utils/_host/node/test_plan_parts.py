# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import PoolCapacity
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import (
    NETWORK,
    FoundNetwork,
    WantedNetwork,
    WantedPool,
    made_uuid,
)
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_parts import missing_bridges, network_step, pool_step
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms

DIR = WantedPool("default", "dir", "/pool", where="pool_path")
LVM = WantedPool("fast", "logical", None, "vg0", None, "pools[0]")


def found(kind="dir", path="/pool", source=None, active=True, autostart=True):
    return PoolCapacity("any", path, 10, 5, {}, kind, source), active, autostart


@pytest.mark.parametrize(
    "wanted, there, action",
    [
        (DIR, None, "define pool default"),
        (DIR, found(), None),
        (DIR, found(path="/pool/"), None),
        (DIR, found(active=False), "start pool default"),
        (DIR, found(autostart=False), "start pool default"),
        (LVM, None, "define pool fast"),
        (LVM, found("logical", "/dev/vg0", "vg0"), None),
        (LVM, found("logical", "/dev/vg0", "vg0", active=False), "start pool fast"),
        # used as it is, whatever it is and does
        (WantedPool("any", None), found("rbd", None, active=False), None),
        (WantedPool("any", None), None, None),
    ],
)
def test_pool(wanted, there, action):
    step = pool_step(wanted, there)
    assert (step.action if step else None) == action
    if step:
        assert bool(step.before) == (there is not None) and "active: true" in step.after


@pytest.mark.parametrize(
    "wanted, there, path, says",
    [
        (DIR, found(path="/elsewhere"), "pool_path", "at /elsewhere, not at /pool"),
        (DIR, found("logical", "/dev/vg0", "vg0"), "pool_path", "has the type logical, not dir"),
        (LVM, found(), "pools[0].type", "has the type dir, not logical"),
        (LVM, found("logical", "/dev/vg1", "vg1"), "pools[0].source", "the volume group vg1, not vg0"),
    ],
)
def test_another_pool_of_that_name_is_refused(wanted, there, path, says):
    with pytest.raises(RefusedError, match=says) as caught:
        pool_step(wanted, there)
    assert caught.value.path == path


NET = WantedNetwork("admin", "br-admin", "networks[0]")


def network(mode="bridge", bridge="br-admin", active=True, autostart=True, uuid="u"):
    return FoundNetwork("admin", uuid, mode, bridge, active, autostart)


@pytest.mark.parametrize(
    "there, action",
    [(None, "define network admin"), (network(), None), (network(active=False), "start network admin"), (network(autostart=False), "start network admin")],
)
def test_network(there, action):
    step = network_step(NET, there)
    assert (step.action if step else None) == action


@pytest.mark.parametrize("there", [network(mode="nat", bridge="virbr0"), network(bridge="br-other"), network(mode="nat"), network(bridge=None)])
def test_another_network_of_that_name_is_refused(there):
    with pytest.raises(RefusedError, match="the existing network admin has"):
        network_step(NET, there)


def test_whose_a_network_is():
    assert network(uuid=made_uuid(NETWORK, "admin")).ours and not network(uuid=made_uuid(NETWORK, "other")).ours


@pytest.mark.parametrize("port, path", [(None, "vms[0].nics[0].bridge"), ("openvswitch", None)])
def test_bridges_of_vms(port, path):
    vms = parse_vms([{"id": "c1", "nics": [{"bridge": "br-data", "virtualport": port}]}], "vms", cluster="lab")
    error = missing_bridges("metal1", vms, (), (), {"br-admin"})
    assert (error.path if error else None) == path
