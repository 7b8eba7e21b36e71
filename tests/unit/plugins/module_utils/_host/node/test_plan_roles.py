# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import parse_node
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_roles import check_roles

VM = {"id": 1, "cpu": 1, "ram": 1}


@pytest.mark.parametrize(
    "roles, vms",
    [
        (["virt"], []),
        ([], []),
        (["compute"], []),
        (["witness"], []),
        (["virt", "compute"], [VM]),
        (["virt"], [dict(VM, roles=["controller"])]),
        (["virt"], [dict(VM, roles=["compute"], nested=True)]),
        (["virt"], [dict(VM, roles=["compute"], nested="yes")]),
    ],
)
def test_allowed(roles, vms):
    check_roles(parse_node("m1", "lab", roles, vms))


@pytest.mark.parametrize("roles", [[], ["compute"]])
def test_details_need_the_role_virt(roles):
    with pytest.raises(InputError) as caught:
        check_roles(parse_node("m1", "lab", roles, [VM]))
    assert caught.value.path == "vms" and "m1" in str(caught.value) and "virt" in str(caught.value)


@pytest.mark.parametrize("extra", [{}, {"nested": False}, {"nested": ""}])
def test_compute_stays_on_metal(extra):
    with pytest.raises(RefusedError) as caught:
        check_roles(parse_node("m1", "lab", ["virt"], [VM, dict(VM, id=2, roles=["controller", "compute"], **extra)]))
    assert caught.value.path == "vms[1].roles" and "nested: true" in str(caught.value)


def test_a_virt_host_is_not_a_witness():
    with pytest.raises(RefusedError, match="third machine") as caught:
        check_roles(parse_node("m1", "lab", ["virt", "witness"], []))
    assert caught.value.path == "roles"


def test_nested_must_be_a_truth_value():
    with pytest.raises(InputError) as caught:
        check_roles(parse_node("m1", "lab", ["virt"], [dict(VM, roles=["compute"], nested="perhaps")]))
    assert caught.value.path == "vms[0].nested"
