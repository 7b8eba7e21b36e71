# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import (
    HypervisorProof,
    parse_node,
    parse_policy,
)


def test_list_and_json_text_give_the_same_node():
    details = [{"id": 0, "cpu": 1, "ram": 1}]
    assert parse_node("m1", "lab", ["virt"], details) == parse_node("m1", "lab", ["virt"], '[{"id": 0, "cpu": 1, "ram": 1}]')


@pytest.mark.parametrize(
    "arguments, path",
    [
        (("", "lab", [], []), "name"),
        (("m1", "", [], []), "cluster"),
        (("m1", "lab", ["virt", "no role"], []), "roles[1]"),
        (("m1", "lab", ["virt"], [{"id": 1}, {"cpu": 1}]), "vms[1].id"),
        (("m1", "lab", ["virt"], [{"id": 1, "ram": -1}]), "vms[0].ram"),
    ],
)
def test_bad_values_are_named(arguments, path):
    with pytest.raises(InputError) as caught:
        parse_node(*arguments)
    assert caught.value.path == path


@pytest.mark.parametrize(
    "reserve, ratio, mib, expected",
    [("1 GiB", 4, 1024, 4.0), ("2", "1.5", 2048, 1.5), ("512 MiB", 1, 512, 1.0), ("0", 8, 0, 8.0), (None, 1, 0, 1.0), ("1 B", 1, 1, 1.0)],
)
def test_policy(reserve, ratio, mib, expected):
    policy = parse_policy(reserve, ratio)
    assert (policy.memory_reserve_mib, policy.vcpu_ratio) == (mib, expected)


@pytest.mark.parametrize(
    "arguments, path",
    [
        (("much", 4), "memory_reserve"),
        (("-1", 4), "memory_reserve"),
        (("1 GiB", 0), "vcpu_ratio"),
        (("1 GiB", "many"), "vcpu_ratio"),
        (("1 GiB", float("nan")), "vcpu_ratio"),
        (("1 GiB", 4, "x"), "pool_reserve"),
    ],
)
def test_bad_policies_are_named(arguments, path):
    with pytest.raises(InputError) as caught:
        parse_policy(*arguments)
    assert caught.value.path == path


def test_no_secret_reaches_the_attributes():
    node = parse_node("m1", "lab", ["virt"], [{"id": 1, "password": "sesame", "flavour": "small"}])
    assert "sesame" not in str(node.as_dict())
    assert node.as_dict()["vms"][0]["flavour"] == "small"


def test_a_proof_survives_its_record():
    proof = HypervisorProof("kvm", False, "hung after 15 s", 15.1, "k", {"host": "hung after 15 s"})
    assert HypervisorProof.from_dict("kvm", proof.as_dict()) == proof


@pytest.mark.parametrize("damaged", [None, {}, "usable", [], {"usable": True}, {"usable": 1, "reason": "", "seconds": "x", "key": ""}])
def test_damaged_record_has_no_proof(damaged):
    assert HypervisorProof.from_dict("kvm", damaged) is None
