# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is declared in ``install`` of a server, and what is refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_install
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.model_install import Known, Lvm, parse

GIB = 1 << 30
KEY = f"ssh-ed25519 AAAA{'B' * 64} operator"
MAC, OTHER = "52:54:00:00:00:01", "52:54:00:00:00:02"
PLAIN: dict[str, t.Any] = {"disk": "S1", "network": {"prefix": 24, "mac": MAC}, "keys": [KEY]}


def parsed(known: Known = Known(), address: t.Any = "192.0.2.11", **more: t.Any) -> model_install.Install:
    return parse({**PLAIN, **more}, "metal1", address, "servers.metal1.install", known, "servers.metal1")


def test_defaults() -> None:
    found = parsed()
    assert (found.disk, found.lvm, found.hostname, str(found.address)) == ("S1", None, "metal1", "192.0.2.11/24")
    assert (found.gateway, found.dns, found.mac, found.keys) == (None, (), MAC, (KEY,))


def test_values_of_the_hardware_are_defaults() -> None:
    known = Known(MAC.upper(), ("S9",), (MAC, OTHER))
    found = parse({"network": {"prefix": 24}, "keys": [KEY]}, "metal1", "192.0.2.11", "install", known)
    assert found.disk == "S9" and found.mac == MAC


def test_everything() -> None:
    network = {"prefix": 20, "gateway": "192.0.0.1", "dns": ["192.0.2.1", "192.0.2.2"], "mac": MAC.upper()}
    found = parsed(hostname="m1.example.com", lvm={"group": "vms", "root": "32 GiB"}, network=network)
    assert found.lvm == Lvm("vms", 32 * GIB) and found.hostname == "m1.example.com"
    assert (found.gateway, found.dns, found.mac, found.address.network.prefixlen) == ("192.0.0.1", ("192.0.2.1", "192.0.2.2"), MAC, 20)
    # the module parses these options to the same
    given = model_install.options(found)
    entry = {"disk": given["disk"], "lvm": given["lvm"], "hostname": given["hostname"], "network": given["network"], "keys": given["authorized_keys"]}
    assert parse(entry, given["name"], given["address"], "servers.metal1.install") == found


@pytest.mark.parametrize(
    ("more", "path", "words"),
    [
        ({"disk": None}, "disk", "is required"),
        ({"disk": 123}, "disk", "in quotes"),
        ({"disk": ""}, "disk", "is not text"),
        ({"disk": " S1"}, "disk", "is not text"),
        ({"disk": "S1\n"}, "disk", "is not text"),
        ({"disks": "S1"}, "disks", "Did you mean disk"),
        ({"root": 5}, "root", "not a known key"),
        ({"lvm": "vms"}, "lvm", "not a mapping"),
        ({"lvm": {}}, "lvm.group", "is required"),
        ({"lvm": {"group": "a/b", "root": 8}}, "lvm.group", "not a valid name"),
        ({"lvm": {"group": "-a", "root": 8}}, "lvm.group", "not a valid name"),
        ({"lvm": {"group": "..", "root": 8}}, "lvm.group", "not a valid name"),
        ({"lvm": {"group": "a" * 64, "root": 8}}, "lvm.group", "not a valid name"),
        ({"lvm": {"group": 7, "root": 8}}, "lvm.group", "not a valid name"),
        ({"lvm": {"group": "vms"}}, "lvm.root", "is required"),
        ({"lvm": {"group": "vms", "root": "much"}}, "lvm.root", "not a size"),
        ({"lvm": {"group": "vms", "root": "3 GiB"}}, "lvm.root", "too small"),
        ({"lvm": {"group": "vms", "root": -8}}, "lvm.root", "negative"),
        ({"lvm": {"group": "vms", "size": 8}}, "lvm.size", "not a known key"),
        ({"hostname": "a b"}, "hostname", "not a valid host name"),
        ({"hostname": "-a"}, "hostname", "not a valid host name"),
        ({"hostname": "a..b"}, "hostname", "not a valid host name"),
        ({"hostname": "a\n"}, "hostname", "not a valid host name"),
        ({"hostname": "a" * 65}, "hostname", "not a valid host name"),
        ({"hostname": 5}, "hostname", "not a valid host name"),
        ({"network": None}, "network.prefix", "is required"),
        ({"network": []}, "network", "not a mapping"),
        ({"network": {"mac": MAC}}, "network.prefix", "is required"),
        ({"network": {"prefix": 33, "mac": MAC}}, "network.prefix", "not between"),
        ({"network": {"prefix": 7, "mac": MAC}}, "network.prefix", "not between"),
        ({"network": {"prefix": True, "mac": MAC}}, "network.prefix", "not a whole number"),
        ({"network": {"prefix": "255.255.255.0", "mac": MAC}}, "network.prefix", "not a whole number"),
        ({"network": {"prefix": 24}}, "network.mac", "is required"),
        ({"network": {"prefix": 24, "mac": "eno1"}}, "network.mac", "not a MAC"),
        ({"network": {"prefix": 24, "mac": 525400000001}}, "network.mac", "not a MAC"),
        ({"network": {"prefix": 24, "mac": MAC, "gateway": "192.0.3.1"}}, "network.gateway", "not in 192.0.2.0/24"),
        ({"network": {"prefix": 24, "mac": MAC, "gateway": "192.0.2.11"}}, "network.gateway", "address of the server"),
        ({"network": {"prefix": 24, "mac": MAC, "gateway": "router"}}, "network.gateway", "not an IPv4 address"),
        ({"network": {"prefix": 24, "mac": MAC, "dns": "192.0.2.1"}}, "network.dns", "expected a list"),
        ({"network": {"prefix": 24, "mac": MAC, "dns": ["192.0.2.1", "x"]}}, "network.dns[1]", "not an IPv4 address"),
        ({"network": {"prefix": 24, "mac": MAC, "address": "192.0.2.11"}}, "network.address", "not a known key"),
        ({"keys": None}, "keys", "no password"),
        ({"keys": []}, "keys", "no password"),
        ({"keys": KEY}, "keys", "expected a list"),
        ({"keys": [KEY, "hello"]}, "keys[1]", "not a public SSH key"),
        ({"keys": [f"{KEY}\n{KEY}"]}, "keys[0]", "not a public SSH key"),
        ({"keys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]}, "keys[0]", "is a private key"),
        ({"password": "x"}, "password", "not a known key"),
    ],
)
def test_invalid_values_are_refused_with_their_path(more: dict[str, t.Any], path: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parsed(**more)
    assert caught.value.path == f"servers.metal1.install.{path}" and words in str(caught.value) and caught.value.hint


@pytest.mark.parametrize("address", ["metal1", "2001:db8::1", None, "192.0.2.0", "192.0.2.255", "192.0.2.300"])
def test_the_address_must_be_one_of_a_host(address: t.Any) -> None:
    with pytest.raises(InputError) as caught:
        parsed(address=address)
    assert caught.value.path == "servers.metal1.ansible_host"


@pytest.mark.parametrize("entry", [[], "S1", 5, True])
def test_anything_but_a_mapping_is_refused(entry: t.Any) -> None:
    with pytest.raises(InputError, match="not a mapping"):
        parse(entry, "metal1", "192.0.2.11")


def test_a_missing_declaration_is_refused() -> None:
    with pytest.raises(InputError, match="install: is required"):
        parse(None, "metal1", "192.0.2.11")


@pytest.mark.parametrize(
    ("known", "more", "path"),
    [
        (Known(disks=("S2", "S3")), {}, "disk"),
        (Known(disks=("S2", "S3")), {"disk": None}, "disk"),
        (Known(macs=(OTHER,)), {}, "network.mac"),
    ],
)
def test_what_is_not_declared_in_hardware_is_refused(known: Known, more: dict[str, t.Any], path: str) -> None:
    with pytest.raises(InputError) as caught:
        parsed(known, **more)
    assert caught.value.path == f"servers.metal1.install.{path}"


@pytest.mark.parametrize(
    ("second", "path"),
    [({"disk": "S1"}, "disk"), ({"address": "192.0.2.11"}, "network"), ({"network": {"prefix": 24, "mac": MAC}}, "network.mac")],
)
def test_two_servers_must_differ(second: dict[str, t.Any], path: str) -> None:
    given = {"disk": "S2", "address": "192.0.2.12", "network": {"prefix": 24, "mac": OTHER}, **second}

    def one(name: str, variables: t.Mapping[str, t.Any]) -> model_install.Install:
        entry = {key: value for key, value in variables["install"].items() if key != "address"}
        return parse(entry, name, variables["install"].get("address", "192.0.2.11"), f"servers.{name}.install")

    variables = {"metal1": {"install": PLAIN}, "other": {}, "metal2": {"install": {**PLAIN, **given}}}
    with pytest.raises(InputError) as caught:
        model_install.servers([], variables, one)
    assert caught.value.path == f"servers.metal2.install.{path}" and "also that of metal1" in str(caught.value)
    assert [each.name for each in model_install.servers(["metal2"], variables, one)] == ["metal2"]
