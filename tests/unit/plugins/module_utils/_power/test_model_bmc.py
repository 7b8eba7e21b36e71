# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What may be written as the management controller of a server."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.run_inventory import hosts, parse, parse_servers
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_bmc

GOOD = {"address": "192.0.2.101", "user": "operator", "secret": "bmc/metal1"}


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("192.0.2.101", "https://192.0.2.101:443"),
        ("bmc1.example.org:8443", "https://bmc1.example.org:8443"),
        ("[2001:db8::1]:444", "https://[2001:db8::1]:444"),
        ("[2001:db8::1]", "https://[2001:db8::1]:443"),
    ],
)
def test_an_address_is_a_host_with_or_without_a_port(address: str, url: str) -> None:
    assert model_bmc.check_entry({**GOOD, "address": address}, None, "bmc").url == url


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"address": "https://192.0.2.101"}, "b.address"),
        ({"address": "192.0.2.101/redfish"}, "b.address"),
        ({"address": "user@192.0.2.101"}, "b.address"),
        ({"address": "192.0.2.101:0"}, "b.address"),
        ({"address": "192.0.2.101:70000"}, "b.address"),
        ({"address": "a b"}, "b.address"),
        ({"address": 7}, "b.address"),
        ({"address": ""}, "b.address"),
        ({"user": "a:b"}, "b.user"),
        ({"user": "a b"}, "b.user"),
        ({"user": None}, "b.user"),
        ({"secret": "../x"}, "b.secret"),
        ({"secret": ""}, "b.secret"),
        ({"password": "x"}, "b.password"),
        ({"verify_ca": "ca.pem"}, "b.verify_ca"),
        ({"system": 1}, "b.system"),
        ({"adress": "x"}, "b.adress"),
        ({"boot_mac": "eno1"}, "b.boot_mac"),
    ],
)
def test_anything_else_is_refused_with_its_path_and_a_hint(change: dict[str, object], path: str) -> None:
    with pytest.raises(InputError) as raised:
        model_bmc.check_entry({**GOOD, **change}, None, "b")
    assert raised.value.path == path and raised.value.hint


def test_a_mac_that_yaml_read_as_a_number_is_to_be_quoted() -> None:
    with pytest.raises(InputError, match=r"b.boot_mac: is a number, not a MAC address. Write the address in quotes"):
        model_bmc.check_entry({**GOOD, "boot_mac": 41135085296}, None, "b")


@pytest.mark.parametrize("entry", ["192.0.2.101", ["x"], 1])
def test_a_controller_is_a_mapping(entry: object) -> None:
    with pytest.raises(InputError, match="not a mapping"):
        model_bmc.check_entry(entry, None, "b")


@pytest.mark.parametrize(
    ("value", "found"), [(None, True), (True, True), ("True", True), ("yes", True), (False, False), ("False", False), ("/etc/ca.pem", "/etc/ca.pem")]
)
def test_the_certificate_is_verified_unless_that_is_switched_off(value: object, found: object) -> None:
    assert model_bmc.verify_ca(value, "verify_ca") == found


def test_a_controller_is_never_the_server_itself() -> None:
    with pytest.raises(RefusedError, match="servers.metal1.bmc.address: is the address of the server itself"):
        parse_servers({"metal1": {"ansible_host": "192.0.2.101", "bmc": GOOD}})


def test_a_server_keeps_the_reference_and_two_servers_have_two_controllers() -> None:
    servers = {name: {"ansible_host": f"192.0.2.{number}", "bmc": GOOD} for number, name in enumerate(("metal1", "metal2"), 11)}
    first = parse_servers({"metal1": servers["metal1"]})
    assert hosts(parse("blue", first), {})[0].variables["bmc"] == GOOD
    with pytest.raises(InputError, match="servers.metal2.bmc: .* already used at servers.metal1.bmc"):
        parse("blue", parse_servers(servers))
    for name, entry in servers.items():
        entry["bmc"] = {**GOOD, "system": name}
    parse("blue", parse_servers(servers))
