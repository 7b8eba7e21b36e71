# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings in layers, as tables."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.reduced.footprint.plugins.module_utils._topology.plan_layers import merge, origins

GLOBAL = """
configs:
  private_interface: eth0
  public_interface: eth1
"""
COMPONENT = """
configs:
  neutron:
    bootstrap:
      internal:
        net_name: int-net
        subnet_name: int-subnet
        network: 10.0.1.0/24
        gateway: 10.0.1.1
"""
USER = """
debug: true
configs:
  private_interface: ens10
  neutron:
    bootstrap:
      internal:
        network: 22.0.1.0/24
        gateway: 22.0.1.1
"""
MERGED = """
debug: true
configs:
  private_interface: ens10
  public_interface: eth1
  neutron:
    bootstrap:
      internal:
        net_name: int-net
        subnet_name: int-subnet
        network: 22.0.1.0/24
        gateway: 22.0.1.1
"""


def test_the_reference_example():
    layers = [yaml.safe_load(text) for text in (GLOBAL, COMPONENT, USER)]
    assert merge(*layers) == yaml.safe_load(MERGED)
    assert layers == [yaml.safe_load(text) for text in (GLOBAL, COMPONENT, USER)], "a layer was changed"
    assert origins(list(zip(("global", "component", "user"), layers))) == {
        "configs.neutron.bootstrap.internal.gateway": "user",
        "configs.neutron.bootstrap.internal.net_name": "component",
        "configs.neutron.bootstrap.internal.network": "user",
        "configs.neutron.bootstrap.internal.subnet_name": "component",
        "configs.private_interface": "user",
        "configs.public_interface": "global",
        "debug": "user",
    }


def test_a_list_of_flavors_overwrites_the_default_ones():
    assert merge({"flavors": [{"name": "m1.tiny"}, {"name": "m1.small"}]}, {"flavors": [{"name": "own"}]}) == {"flavors": [{"name": "own"}]}


@pytest.mark.parametrize(
    "layers, merged, from_where",
    [
        ([{"a": {"b": 1}}, {"a": 2}], {"a": 2}, {"a": "1"}),
        ([{"a": 2}, {"a": {"b": 1}}], {"a": {"b": 1}}, {"a.b": "1"}),
        ([{"a": {"b": 1}}, {"a": {}}], {"a": {"b": 1}}, {"a.b": "0"}),
        ([{"a": 1}, {"a": {}}], {"a": {}}, {"a": "1"}),
        ([{"a": {}}, {"a": {"b": 1}}], {"a": {"b": 1}}, {"a.b": "1"}),
        ([{"a": 1}, {"a": None}], {"a": None}, {"a": "1"}),
        ([{"a": 1}, {}], {"a": 1}, {"a": "0"}),
        ([{"a": {"b": {"c": 1}, "d": 2}}, {"a": {"b": {"c": 3}}}, {"a": {"d": 4}}], {"a": {"b": {"c": 3}, "d": 4}}, {"a.b.c": "1", "a.d": "2"}),
    ],
)
def test_merging(layers, merged, from_where):
    assert merge(*layers) == merged
    assert origins([(str(index), layer) for index, layer in enumerate(layers)]) == from_where


def test_merged_value_shares_nothing_with_its_sources():
    lower = {"a": {"list": [1]}}
    result = merge(lower, {"b": 1})
    result["a"]["list"].append(2)
    assert lower == {"a": {"list": [1]}}
