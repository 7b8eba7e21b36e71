# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The named networks of a footprint, and the address of a host that a service uses."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_networks import network_of, parse_networks
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_topology import parse_topology
from ansible_collections.reduced.footprint.plugins.module_utils._topology.plan_address import member_address

NETWORKS = {
    "management": {"cidr": "192.0.2.0/24"},
    "overlay": {"cidr": "10.2.0.0/24", "vlan": 20},
    "storage": {"cidr": "10.3.0.0/24", "vlan": 30, "services": ["glance"]},
}


@pytest.mark.parametrize(
    "value, message",
    [
        ([], "footprint_networks: expected a mapping, got a list."),
        ({"Public": {}}, "footprint_networks.Public: 'Public' is not a valid name of a network."),
        ({"public": {"cdir": "192.0.2.0/24"}}, "footprint_networks.public.cdir: is not a known key. Did you mean cidr?"),
        ({"public": {}}, "footprint_networks.public.cidr: is missing."),
        ({"public": {"cidr": "192.0.2.5/24"}}, "footprint_networks.public.cidr: '192.0.2.5/24' is an address inside a network. Did you mean 192.0.2.0/24?"),
        ({"public": {"cidr": "192.0.2/24"}}, "footprint_networks.public.cidr: '192.0.2/24' is not a network."),
        ({"public": {"cidr": "192.0.2.0/24", "vlan": 4095}}, "footprint_networks.public.vlan: 4095 is not between 1 and 4094."),
        ({"public": {"cidr": "192.0.2.0/24", "vlan": 0}}, "footprint_networks.public.vlan: 0 is not between 1 and 4094."),
        ({"public": {"cidr": "192.0.2.0/24", "services": "glance"}}, "footprint_networks.public.services: expected a list of services, got 'glance'."),
        ({**NETWORKS, "public": {"cidr": "10.2.0.128/25"}}, "footprint_networks.public.cidr: 10.2.0.128/25 overlaps with 10.2.0.0/24 of overlay."),
        ({**NETWORKS, "public": {"cidr": "10.4.0.0/24", "vlan": 20}}, "footprint_networks.public.vlan: VLAN 20 is that of overlay."),
        ({**NETWORKS, "public": {"cidr": "10.4.0.0/24", "services": ["glance"]}}, "footprint_networks.public.services: glance is also listed by storage."),
    ],
)
def test_invalid_networks(value: object, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse_networks(value)
    assert str(error.value).startswith(message)
    assert error.value.hint


def test_networks_of_services() -> None:
    networks = parse_networks(NETWORKS)
    assert [network_of(name, networks) for name in ("galera", "ovn_chassis", "glance")] == ["management", "overlay", "storage"]
    assert network_of("ovn_chassis", parse_networks({**NETWORKS, "storage": {"cidr": "10.3.0.0/24", "services": ["ovn_chassis"]}})) == "storage"
    # variables of a service have underscores
    assert network_of("heat_api", parse_networks({"storage": {"cidr": "10.3.0.0/24", "services": ["heat-api"]}})) == "storage"
    assert parse_networks({"six": {"cidr": "2001:db8::/64"}, **NETWORKS})["six"].cidr.version == 6


HOST = {"ansible_host": "192.0.2.11", "footprint_networks": NETWORKS, "footprint_network_addresses": {"overlay": "10.2.0.11"}}


@pytest.mark.parametrize(
    "variable, more, found",
    [
        ("galera_address", {}, "192.0.2.11"),
        ("ovn_chassis_address", {}, "10.2.0.11"),
        ("ovn_chassis_address", {"ovn_chassis_address": "198.51.100.1"}, "198.51.100.1"),
        ("glance_address", {"footprint_network_addresses": {"storage": "10.3.0.11"}}, "10.3.0.11"),
        # a server with one network card: everything is in the network management
        ("ovn_chassis_address", {"footprint_networks": {"management": {"cidr": "192.0.2.0/24"}}, "footprint_network_addresses": None}, "192.0.2.11"),
        ("ovn_chassis_address", {"footprint_networks": None}, "10.2.0.11"),
        ("galera_address", {"ansible_host": "c1.example.com"}, "c1.example.com"),
        ("galera_address", {"ansible_host": "203.0.113.1", "footprint_network_addresses": {"management": "192.0.2.12"}}, "192.0.2.12"),
        # not the address of a service
        ("ansible_host", {}, "192.0.2.11"),
    ],
)
def test_address_of_a_host(variable: str, more: dict[str, object], found: str) -> None:
    assert member_address("metal1", {**HOST, **more}, variable) == found


@pytest.mark.parametrize(
    "variable, more, message",
    [
        ("glance_address", {}, "metal1.footprint_network_addresses.storage: metal1 has no address in the network storage, 10.3.0.0/24, which glance uses."),
        ("galera_address", {"ansible_host": "203.0.113.1"}, "metal1.footprint_network_addresses.management: metal1 has no address in the network management"),
        (
            "ovn_chassis_address",
            {"footprint_network_addresses": {"overlay": "10.3.0.11"}},
            "metal1.footprint_network_addresses.overlay: 10.3.0.11 is not in the network overlay, 10.2.0.0/24.",
        ),
        ("galera_address", {"footprint_network_addresses": "192.0.2.11"}, "metal1.footprint_network_addresses: expected a mapping, got text."),
    ],
)
def test_address_that_is_missing(variable: str, more: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        member_address("metal1", {**HOST, **more}, variable)
    assert str(error.value).startswith(message)


def test_topology_has_networks() -> None:
    assert parse_topology({"networks": NETWORKS}).networks == NETWORKS
    with pytest.raises(InputError, match=r"networks.a.cidr: 'x' is not a network"):
        parse_topology({"networks": {"a": {"cidr": "x"}}})


@pytest.mark.parametrize(
    "name, message",
    [
        ("glanse", "networks.storage.services[1]: unknown service 'glanse'. Did you mean glance?"),
        ("ovn-chasis", "networks.storage.services[1]: unknown service 'ovn-chasis'. Did you mean ovn_chassis?"),
        ("database", "networks.storage.services[1]: database stands for the service galera. List galera instead."),
    ],
)
def test_a_service_that_would_stay_in_the_network_management_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse_topology({"networks": {"storage": {"cidr": "10.3.0.0/24", "services": ["rabbitmq", name]}}})
    assert str(error.value) == message
    more = {"heat-api": {"role": "my.cloud.heat_api"}}
    services = ["rabbitmq", "heat-api", "ovn_chassis", "exporter"]
    assert parse_topology({"services": more, "networks": {"storage": {"cidr": "10.3.0.0/24", "services": services}}}).networks
