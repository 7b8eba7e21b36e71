# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib

import pytest
import yaml

from ansible_collections.reduced.footprint.plugins.module_utils._service import plan_allow_list
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_allow_list import parse_allow_lists
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import BUILT_IN

ROLES = pathlib.Path(__file__).resolve().parents[5] / "roles"
PEERS = ["192.0.2.11", "192.0.2.12"]
CLIENT = "192.0.2.40"


def rules_of(service, **settings):
    found = plan_allow_list.wanted(service, PEERS, [CLIENT], settings)
    return {tuple(rule["ports"]) or rule["protocol"]: rule["allowed"] for rule in found["rules"]}


def test_ports_between_members_are_open_to_members_only():
    assert rules_of("galera") == {("4444", "4568"): PEERS, ("4567",): PEERS, ("3306", "9200"): [*PEERS, CLIENT]}
    assert rules_of("rabbitmq") == {("4369", "25672", "25673", "26000-26500", "35672-35682"): PEERS, ("5671", "5672"): [*PEERS, CLIENT]}
    assert rules_of("load_balancer") == {("10240",): PEERS, "vrrp": PEERS}
    assert rules_of("memcached") == {("11211",): [*PEERS, CLIENT]}
    assert rules_of("keystone") == {("5000",): [*PEERS, CLIENT]}


def test_ports_follow_the_variables():
    assert ("3306", "9201") in rules_of("galera", galera_check_port=9201)


def test_every_service_of_the_collection_has_a_list():
    assert set(plan_allow_list.SERVICES) == {name for name, service in BUILT_IN.items() if service.role}


@pytest.mark.parametrize("service", sorted(plan_allow_list.SERVICES))
def test_default_ports_are_those_of_the_role(service):
    defaults = yaml.safe_load((ROLES / service / "defaults" / "main.yml").read_text("utf-8"))
    named = [port.split(":") for access in plan_allow_list.SERVICES[service].access for port in access.ports if ":" in port]
    assert {name: int(port) for name, port in named} == {name: defaults[name] for name, unused in named}


def ruleset(**change):
    entry = {"name": "x", "served": PEERS, "rules": [{"ports": ["4567", "35672-35682"], "allowed": [*PEERS, "2001:db8::1"]}], "units": [], **change}
    return plan_allow_list.ruleset(parse_allow_lists([entry])[0])


def test_the_rules():
    lines = [line.strip() for line in ruleset().splitlines()]
    assert lines[:3] == ["table inet footprint_x", "delete table inet footprint_x", "table inet footprint_x {"]
    start = lines.index("chain input {")
    assert lines[start + 1 : start + 8] == [
        "type filter hook input priority -10; policy accept;",
        "iif lo accept",
        "ip daddr { 192.0.2.11, 192.0.2.12 } tcp dport { 4567 } jump rule_0",
        "meta nfproto ipv6 tcp dport { 4567 } jump rule_0",
        "ip daddr { 192.0.2.11, 192.0.2.12 } tcp dport { 35672-35682 } tcp flags & (fin | syn | rst | ack) == syn jump rule_0",
        "meta nfproto ipv6 tcp dport { 35672-35682 } tcp flags & (fin | syn | rst | ack) == syn jump rule_0",
        "}",
    ]
    assert lines[start + 8 :] == [
        "chain rule_0 {",
        "ip saddr { 192.0.2.11, 192.0.2.12 } accept",
        "ip6 saddr { 2001:db8::1 } accept",
        "counter reject with tcp reset",
        "}",
        "}",
    ]


def test_empty_list_allows_no_client():
    text = ruleset(rules=[{"ports": ["4567"], "allowed": []}])
    assert "saddr" not in text and "counter reject" in text


def test_udp_of_other_hosts_is_dropped():
    text = ruleset(rules=[{"protocol": "udp", "ports": ["6081"], "allowed": PEERS}])
    assert "udp dport { 6081 } jump rule_0" in text and "counter drop" in text and "reset" not in text


def test_vrrp_of_other_hosts_is_dropped():
    text = ruleset(rules=[{"protocol": "vrrp", "allowed": PEERS}])
    assert "meta l4proto vrrp jump rule_0" in text and "counter drop" in text and "daddr" not in text


def test_the_digest_follows_the_rules():
    one, same, other = ruleset(), ruleset(), ruleset(served=["192.0.2.11"])
    assert plan_allow_list.revision(one) == plan_allow_list.revision(same) != plan_allow_list.revision(other)
    assert f"chain {plan_allow_list.revision(one)} {{" in one and plan_allow_list.revision(one).startswith("revision_")


def test_each_instance_has_its_own_list() -> None:
    environments = ["shop", "shop-1", "shop.1", "shop_1", "Shop", "production_datacenter_frankfurt1", "production_datacenter_frankfurt2"]
    names = [plan_allow_list.wanted("witness", ["192.0.2.1"], [], {}, instance=name)["name"] for name in environments]
    assert names[0] == "witness_shop" and names[3] == "witness_shop_1"
    assert len(set(names)) == len(names)
    parse_allow_lists([plan_allow_list.wanted("witness", ["192.0.2.1"], [], {}, instance=name) for name in environments])
