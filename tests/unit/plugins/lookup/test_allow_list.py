# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup ``allow_list``: from an inventory to addresses."""

from __future__ import annotations

import re

import pytest

from ansible.errors import AnsibleError
from ansible.template import Templar
from ansible_collections.reduced.footprint.plugins.lookup import allow_list as plugin

HOSTS = {
    "c1": {"ansible_host": "192.0.2.11"},
    "c2": {"ansible_host": "192.0.2.12", "galera_address": "198.51.100.12"},
    "id1": {"ansible_host": "192.0.2.21", "footprint_addresses": ["203.0.113.21"]},
    "named": {"ansible_host": "shop.example.com"},
    "other": {"ansible_host": "192.0.2.99"},
}
GROUPS = {"all": list(HOSTS), "controller": ["c1", "c2"], "keystone": ["id1"]}


def lookup(*services, hosts=None, groups=None, **variables):
    known = {"hostvars": HOSTS if hosts is None else hosts, "groups": GROUPS if groups is None else groups, **variables}
    return plugin.LookupModule(loader=None, templar=Templar(loader=None, variables=known)).run(list(services), variables=known)


@pytest.fixture(autouse=True)
def _options(monkeypatch):
    """Options as Ansible would set them from the documentation."""

    def get_option(self, name):
        return (self.variables_given or {}).get("footprint_services") or {}

    def set_options(self, var_options=None, **unused):
        self.variables_given = var_options

    monkeypatch.setattr(plugin.LookupModule, "get_option", get_option)
    monkeypatch.setattr(plugin.LookupModule, "set_options", set_options)


def allowed(found, port):
    return next(rule["allowed"] for rule in found["rules"] if port in rule["ports"])


def test_peers_and_clients():
    (found,) = lookup("galera")
    assert found["served"] == ["192.0.2.11", "198.51.100.12"]
    assert allowed(found, "4567") == ["192.0.2.11", "198.51.100.12"]
    # all addresses of all hosts of the control plane, and no others
    assert set(allowed(found, "3306")) == {"192.0.2.11", "192.0.2.12", "198.51.100.12", "192.0.2.21", "203.0.113.21"}


def test_addresses_in_named_networks():
    networks = {"management": {"cidr": "192.0.2.0/24"}, "data": {"cidr": "10.2.0.0/24", "services": ["galera"]}}
    hosts = {
        name: {**HOSTS[name], "footprint_networks": networks, "footprint_network_addresses": {"data": f"10.2.0.{number}", "overlay": f"10.9.0.{number}"}}
        for number, name in enumerate(("c1", "id1"), 1)
    }
    (found,) = lookup("galera", hosts=hosts, groups={"all": ["c1", "id1"], "controller": ["c1"], "keystone": ["id1"]})
    assert found["served"] == ["10.2.0.1"]
    assert {"10.2.0.1", "10.9.0.1", "10.2.0.2", "192.0.2.11", "192.0.2.21"} <= set(allowed(found, "3306"))


def test_the_operator_lists_more_clients_and_no_more_peers():
    variables = {"footprint_allowed": ["192.0.2.200"], "galera_allowed": "10.0.0.0/8", "load_balancer_virtual_address": "192.0.2.20"}
    found, other = lookup("galera", "memcached", **variables)
    assert {"192.0.2.200", "10.0.0.0/8", "192.0.2.20"} <= set(allowed(found, "3306"))
    assert allowed(found, "4567") == ["192.0.2.11", "198.51.100.12"]
    assert "192.0.2.200" in allowed(other, "11211") and "10.0.0.0/8" not in allowed(other, "11211")


def test_more_virtual_addresses_and_changed_ports():
    (found,) = lookup("galera", load_balancer_virtual_addresses=[{"name": "public", "address": "192.0.2.30"}], galera_check_port=9201)
    assert "192.0.2.30" in allowed(found, "9201")


def test_hosts_of_declared_services_are_clients():
    services = {"shop": {"role": "example.shop.web"}}
    (found,) = lookup("rabbitmq", groups={**GROUPS, "shop": ["other"]}, footprint_services=services)
    assert "192.0.2.99" in allowed(found, "5672") and "192.0.2.99" not in allowed(found, "25672")


def test_a_client_without_an_address_is_left_out():
    services = {"shop": {"role": "example.shop.web"}}
    (found,) = lookup("rabbitmq", groups={**GROUPS, "shop": ["named"]}, footprint_services=services)
    assert "shop.example.com" not in allowed(found, "5672")


def test_group_given_to_a_role_is_used():
    (found,) = lookup("memcached", memcached_group="keystone")
    assert found["served"] == ["192.0.2.21"]


@pytest.mark.parametrize(
    "services, more, words",
    [
        (["nope"], {}, "nope"),
        (["memcached"], {"groups": {**GROUPS, "memcached": ["named"]}}, "named.memcached_address"),
        (["memcached"], {"memcached_allowed": ["anybody"]}, "memcached_allowed[0]"),
    ],
)
def test_bad_values_are_named(services, more, words):
    with pytest.raises(AnsibleError, match=words.replace("[", r"\[")):
        lookup(*services, **more)


W = {**HOSTS, "w": {"ansible_host": "192.0.2.30"}}
WITH = {"all": list(W), "controller": ["c1", "c2"], "witness": ["w"]}


def test_a_witness_reaches_the_ports_for_votes_only():
    found, queues = lookup("galera", "rabbitmq", hosts=W, groups=WITH)
    assert "192.0.2.30" in allowed(found, "4567")
    for port in ("4444", "4568", "3306", "9200"):
        assert "192.0.2.30" not in allowed(found, port)
    # it is a member of RabbitMQ
    assert "192.0.2.30" in queues["served"] and "192.0.2.30" in allowed(queues, "25672")


def test_the_list_of_a_witness_admits_the_members_only():
    (found,) = lookup("witness", hosts=W, groups=WITH, footprint_cluster="Lab-1")
    assert re.match(r"witness_lab_1_[0-9a-f]{8}\Z", found["name"])
    assert found["served"] == ["192.0.2.30"]
    assert found["units"] == ["garbd@Lab-1.service"]
    assert found["rules"] == [{"protocol": "tcp", "ports": ["4567"], "allowed": ["192.0.2.11", "192.0.2.30", "198.51.100.12"]}]


def test_rabbitmq_without_a_witness():
    (queues,) = lookup("rabbitmq", hosts=W, groups=WITH, rabbitmq_witness=False)
    assert "192.0.2.30" not in queues["served"]


CLOUD = {"all": [*HOSTS, "m1", "g1"], "controller": ["c1", "c2"], "compute": ["m1"], "ovn_chassis": ["g1", "c2"]}
SERVERS = {"192.0.2.31", "10.9.0.31", "192.0.2.41"}


@pytest.mark.parametrize("groups, given", [(CLOUD, {"footprint_cloud": True}), ({**CLOUD, "nova": ["c1"], "ovn_database": ["c1"]}, {})])
def test_servers_of_tenants_reach_the_queue_and_the_southbound_database_only(groups, given):
    hosts = {**HOSTS, "m1": {"ansible_host": "192.0.2.31", "ovn_chassis_address": "10.9.0.31"}, "g1": {"ansible_host": "192.0.2.41"}}
    names = ("galera", "rabbitmq", "memcached", "keystone", "load_balancer", "ovn_database", "nova")
    open_to = {port: set(rule["allowed"]) for found in lookup(*names, hosts=hosts, groups=groups, **given) for rule in found["rules"] for port in rule["ports"]}
    assert {port for port, addresses in open_to.items() if addresses & SERVERS} == {"5671", "5672", "6642"}
    assert all(SERVERS < open_to[port] for port in ("5671", "5672", "6642"))


@pytest.mark.parametrize(
    "groups, given, reached",
    [
        ({"compute": ["c1"]}, {}, {"6642"}),
        ({"ovn_chassis": ["c2"]}, {}, {"6642"}),
        ({"compute": ["c1"]}, {"ovn_chassis_witness": False}, set()),
        # without compute servers it is not a chassis
        ({}, {}, set()),
    ],
)
def test_a_witness_that_is_a_chassis_only_reaches_the_southbound_database(groups, given, reached):
    found = lookup("memcached", "ovn_database", "nova", hosts=W, groups={**WITH, **groups}, footprint_cloud=True, ovn_database_witness=False, **given)
    open_to = {port: rule["allowed"] for one in found for rule in one["rules"] for port in rule["ports"]}
    assert {port for port, addresses in open_to.items() if "192.0.2.30" in addresses} == reached


def test_without_a_cloud_no_server_of_tenants_is_a_client():
    hosts = {**HOSTS, "m1": {"ansible_host": "192.0.2.31"}, "g1": {"ansible_host": "192.0.2.41"}}
    (found,) = lookup("rabbitmq", hosts=hosts, groups=CLOUD)
    assert not set(allowed(found, "5672")) & SERVERS
