# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where services are reached, as a table."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import parse_services
from ansible_collections.reduced.footprint.plugins.module_utils._topology.plan_address import Edge, Wish, addresses, target

MEMBERS = ("192.0.2.1", "192.0.2.2")
MAIN = {"main": "192.0.2.20"}
PLAIN = Edge(MAIN, "", ({"name": "mysql", "port": 3306}, {"name": "keystone", "port": 5000}))
TLS = Edge(MAIN, "", ({"name": "mysql", "port": 3306}, {"name": "keystone", "port": 5000, "tls": True}))
NAMED = Edge(MAIN, "identity.example.com", TLS.frontends)
BOTH = Edge(
    {**MAIN, "public": "203.0.113.1"},
    "",
    (
        {"name": "keystone-public", "service": "keystone", "port": 443, "tls": True, "virtual_address": "public"},
        {"name": "keystone", "port": 5000},
    ),
)


def reach(name, edge=PLAIN, declared=None, consumer=None, members=MEMBERS, **wish):
    return addresses(target(name, parse_services(declared), consumer), members, edge, Wish(**wish))


@pytest.mark.parametrize(
    "name, edge, wish, found",
    [
        ("keystone", PLAIN, {}, ["192.0.2.20"]),
        ("keystone", PLAIN, {"port": True}, ["192.0.2.20:5000"]),
        ("keystone", PLAIN, {"port": 35357}, ["192.0.2.20:35357"]),
        ("keystone", PLAIN, {"port": False, "with_scheme": True}, ["http://192.0.2.20"]),
        ("keystone", PLAIN, {"port": True, "with_scheme": True}, ["http://192.0.2.20:5000"]),
        ("keystone", TLS, {"port": True, "with_scheme": True}, ["https://192.0.2.20:5000"]),
        ("keystone", TLS, {"port": True, "with_scheme": True, "external": True}, ["https://192.0.2.20:5000"]),
        ("keystone", NAMED, {"port": 8443, "with_scheme": True, "external": True}, ["https://identity.example.com:8443"]),
        ("keystone", NAMED, {"external": False}, ["192.0.2.20"]),
        ("keystone", BOTH, {"port": True, "with_scheme": True, "external": True}, ["https://203.0.113.1:443"]),
        ("keystone", BOTH, {"port": True, "with_scheme": True}, ["http://192.0.2.20:5000"]),
        ("keystone", Edge(), {"port": True, "with_scheme": True}, ["http://192.0.2.1:5000", "http://192.0.2.2:5000"]),
        ("database", PLAIN, {"port": True, "with_scheme": True}, ["mysql://192.0.2.20:3306"]),
        ("mysql", PLAIN, {"port": True}, ["192.0.2.20:3306"]),
        ("galera", Edge(), {"port": True}, ["192.0.2.1:3306", "192.0.2.2:3306"]),
        ("rpc", PLAIN, {"port": True}, ["192.0.2.1:5672", "192.0.2.2:5672"]),
        ("notifications", PLAIN, {"with_scheme": True}, ["amqp://192.0.2.1", "amqp://192.0.2.2"]),
        ("memcached", PLAIN, {"port": True}, ["192.0.2.1:11211", "192.0.2.2:11211"]),
    ],
)
def test_addresses(name, edge, wish, found):
    assert reach(name, edge, **wish) == found


def test_ipv6():
    assert reach("memcached", members=["2001:db8::1"]) == ["2001:db8::1"]
    assert reach("memcached", members=["2001:db8::1"], port=True) == ["[2001:db8::1]:11211"]


def test_logical_and_declared_services():
    declared = {"zmq": {"role": "a.b.zmq", "port": 9501, "scheme": "tcp"}, "rpc": {"service_def": "zmq"}}
    declared["heat"] = {"role": "a.b.h", "mapping": {"rpc": "rabbitmq"}}
    assert reach("rpc", declared=declared, port=True, with_scheme=True) == ["tcp://192.0.2.1:9501", "tcp://192.0.2.2:9501"]
    assert reach("rpc", declared=declared, consumer="heat", port=True)[0] == "192.0.2.1:5672"
    assert reach("notifications", declared=declared, port=True)[0] == "192.0.2.1:5672"


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"name": "swift"}, InputError, "service: unknown service 'swift'. Use one of cinder, database, galera"),
        ({"name": "rpc", "consumer": "swift"}, InputError, "consumer: unknown service 'swift'"),
        ({"name": "rpc", "members": []}, InputError, "rabbitmq has no host. Add hosts to the group rabbitmq or controller"),
        ({"name": "keystone", "external": True}, RefusedError, "no frontend of the load balancer serves it with TLS"),
        ({"name": "database", "edge": NAMED, "external": True}, RefusedError, "galera has no external address"),
        ({"name": "load_balancer", "port": True}, InputError, "port: load_balancer has no default port"),
    ],
)
def test_what_has_no_address(arguments, error, words):
    with pytest.raises(error, match=words):
        reach(**arguments)
